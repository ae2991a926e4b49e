"""The page in a real browser: opened from disk, nothing fetched, no complaints, all of it works."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports.data.payload import ROW_LIMIT
from reports.pages.render import build_report

pytestmark = pytest.mark.browser
BROWSER = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
EVIL = "<script>alert(1)</script>"
FAMILY = 'it\'s `id` $(id); "mine"'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as p:
        shown = p.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield shown
        shown.close()


class Watched:
    """A page, and what it said and asked for."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda m: self.said.append(m.text))
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.page.on("dialog", lambda d: (self.said.append("dialog " + d.message), d.dismiss()))
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.url = path.resolve().as_uri()
        self.page.goto(self.url)
        self.page.wait_for_selector("#table:not([hidden])")

    def column(self, name: str) -> list[str]:
        heads = [b.inner_text().split(" ")[0] for b in self.page.query_selector_all("table.rows thead th")]
        lines = self.page.query_selector_all("table.rows tbody tr")
        return [line.query_selector_all("td")[heads.index(name)].inner_text() for line in lines]

    def count(self) -> int:
        return int(self.page.inner_text("#count").split(" of ")[0].replace(",", ""))


@pytest.fixture
def opened(browser: Any, built: Path) -> Iterator[Watched]:
    watched = Watched(browser, built / "report.html", viewport={"width": 1400, "height": 900})
    yield watched
    assert watched.said == []
    assert [u for u in watched.asked if not u.startswith((watched.url, "data:", "blob:"))] == []
    watched.context.close()


def test_opens_quietly_and_every_figure_has_pixels(opened: Watched):
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    pictures = opened.page.query_selector_all("figure .picture")
    assert len(pictures) >= 14
    for picture in pictures:
        box = picture.query_selector("svg").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 100
        assert len(picture.get_attribute("aria-label")) > 40
        shot = picture.screenshot()
        assert len(set(shot)) > 100  # a blank picture compresses to almost nothing
        assert len(shot) > 4000
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1400


def test_filters_narrow_the_table(opened: Watched):
    whole = opened.count()
    opened.page.select_option("#filter-solver", "DualNewton")
    some = opened.count()
    assert 0 < some < whole
    assert set(opened.column("solver")) == {"DualNewton"}
    opened.page.fill("#search", "gradient:implicit tol<1e-5")
    opened.page.wait_for_function("document.querySelectorAll('table.rows tbody tr').length > 0")
    opened.page.wait_for_timeout(300)
    assert 0 < opened.count() < some
    assert set(opened.column("gradient")) == {"implicit"}
    opened.page.fill("#search", "nothing-is-called-so")
    opened.page.wait_for_timeout(300)
    assert opened.count() == 0
    opened.page.click("#clear")
    assert opened.count() == whole


def test_headings_sort_with_the_keyboard(opened: Watched):
    opened.page.focus("[data-sort=steady_s]")
    opened.page.keyboard.press("Enter")
    assert opened.page.get_attribute("th:has([data-sort=steady_s])", "aria-sort") == "ascending"
    times = [seconds(t) for t in opened.column("steady_s")]
    assert times == sorted(times)
    opened.page.keyboard.press("Enter")
    down = [seconds(t) for t in opened.column("steady_s")]
    assert down == sorted(down, reverse=True)
    assert down[0] > times[0]
    opened.page.click("[data-sort=solver]")
    assert opened.column("solver") == sorted(opened.column("solver"), key=str.lower)


def seconds(text: str) -> float:
    number, unit = text.split(" ")
    return float(number) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[unit]


def test_numbers_lead_to_their_rows(opened: Watched):
    line = opened.page.query_selector("#answers tbody tr:has-text('sparse labels on a box')")
    assert "DualNewton" in line.query_selector(".use").inner_text()
    line.query_selector(".use a").click()
    opened.page.wait_for_selector("table.rows tr.here")
    here = opened.page.query_selector("table.rows tr.here").inner_text()
    assert "DualNewton" in here
    assert "pairwise-gini" in here
    point = opened.page.query_selector("#fig-gap-time svg a")
    target = point.get_attribute("href")
    opened.page.evaluate("h => { location.hash = h }", target)
    opened.page.wait_for_selector(f"tr[id='{target[1:]}'].here")
    opened.page.click(f"tr[id='{target[1:]}'] button")
    assert "git_commit" in opened.page.inner_text("dialog[open]")
    opened.page.keyboard.press("Escape")
    assert opened.page.query_selector("dialog[open]") is None


@pytest.mark.slow
def test_two_hundred_thousand_rows_are_searched_at_once(browser: Any, large: tuple[Path, float]):
    watched = Watched(browser, large[0], viewport={"width": 1400, "height": 900})
    whole = watched.count()
    assert ROW_LIMIT <= whole < 200_000
    took = []
    for words in (
        "newton",
        "newton gradient:implicit",
        "gap_rel<1e-8",
        "solver:scipy tol<1e-5",
        "nothing-is-called-so",
    ):
        before = watched.page.inner_text("#count")
        # From the last key to the drawn rows, with the pause that the page makes between keys.
        took.append(watched.page.evaluate("""async ([words, before]) => {
            const [search, count] = ["search", "count"].map((id) => document.getElementById(id));
            const started = performance.now();
            search.value = words;
            search.dispatchEvent(new Event("input"));
            while (count.textContent === before) await new Promise(requestAnimationFrame);
            return performance.now() - started;
        }""", [words, before]))  # fmt: skip
    assert watched.count() == 0
    assert max(took) < 300, took
    assert watched.said == []
    watched.context.close()


def test_pages_turn(opened: Watched):
    first = opened.page.inner_text("table.rows tbody tr button")
    opened.page.click("#pages >> text=Next")
    assert opened.page.inner_text("table.rows tbody tr button") != first
    opened.page.click("#pages >> text=Last")
    assert opened.page.is_disabled("#pages >> text=Next")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Any, built: Path, scheme: str):
    size = {"width": 390, "height": 844}
    watched = Watched(browser, built / "report.html", viewport=size, color_scheme=scheme, is_mobile=True)
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
    paper = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 30)"}[scheme]
    axis = watched.page.evaluate("getComputedStyle(document.querySelector('#fig-gap-time svg text')).fill")
    assert axis == watched.page.evaluate("getComputedStyle(document.body).color")
    assert watched.said == []
    watched.context.close()


def test_a_crafted_verdict_and_a_hostile_name(browser: Any, synthetic: Any, tmp_path: Path):
    base = {"family": "mine", "problem": "mine", "repeats": 7, "steady_spread_s": 1e-6}
    rows = [
        synthetic.row(solver=EVIL, steady_s=1e-3, steady_median_s=1.01e-3, reason=EVIL, **base),
        synthetic.row(solver="Slower", steady_s=4e-3, steady_median_s=4.1e-3, **base),
        synthetic.row(solver="Cheat", steady_s=1e-6, steady_median_s=1e-6, gap_rel=0.5, **base),
    ]
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    watched = Watched(browser, build_report([path], tmp_path / "out", ["html"]))
    use = watched.page.inner_text("#answers td.use")
    assert use.startswith(EVIL)
    assert "4.0 × faster than Slower" in use
    assert watched.page.query_selector("td.c.bad").get_attribute("title").startswith("Cheat, not certified")
    watched.page.click("button.open")
    assert EVIL in watched.page.inner_text("tr.detail")
    assert EVIL in watched.column("solver")
    watched.page.click("table.rows tbody button")
    assert watched.said == []
    assert all(u.startswith((watched.url, "data:")) for u in watched.asked)
    watched.context.close()


def test_chromium_prints_the_pdf(browser: Any, gathered: Any, built: Path, tmp_path: Path):
    from reports.pages.pdf import write_pdf

    assert write_pdf(gathered, built / "report.html", tmp_path / "report.pdf").startswith("Chromium")
    content = (tmp_path / "report.pdf").read_bytes()
    assert content[:5] == b"%PDF-"
    assert len(content) > 50_000


def crafted(synthetic: Any) -> list[dict[str, Any]]:
    """Dense problems at k = 50 and 128: for dp*/dv JAX is fastest with A, torch with B; torch's loss with A."""
    rows = []
    for k in (50, 128):
        for solver, backend, loss, derivative in (
            ("A", "jax", 1e-4, 2e-4), ("B", "jax", 3e-4, 9e-4), ("A", "torch", 1e-3, 9e-3), ("B", "torch", 2e-3, 3e-3),
            ("JaxoptBoxCDQP", "jax", 5e-2, 6e-2),
        ):  # fmt: skip
            scale = k / 50
            rows.append(synthetic.row(
                family="quadratic-gini-box", problem=f"q{k}", energy="LinearQuadratic", rank=None, k=k, batch=128,
                problem_params={"k": k, "batch": 128, "condition": 10.0}, solver=solver, backend=backend,
                gradient="implicit", backward_s=loss * scale, backward_median_s=loss * scale,
                backward_spread_s=0.01 * loss, argmax_grad_s=derivative * scale, grad_error=1e-6,
                argmax_grad_error=1e-6, temp_bytes=1000 * k,
            ))  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def dense(synthetic: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    path = synthetic.store(folder / "s.sqlite", pd.DataFrame(crafted(synthetic)))
    return build_report([path], folder / "out", ["html"])


def test_torch_with_derivatives_at_k_80_is_answered(browser: Any, dense: Path):
    watched = Watched(browser, dense, viewport={"width": 1400, "height": 900})
    page = watched.page
    assert page.input_value("[name=backend]") == "jax"  # what was measured most
    page.select_option("[name=backend]", "torch")
    page.select_option("[name=need]", "argmax-gradient")
    page.fill("[name=k]", "80")
    use = page.inner_text("#answers td.use")
    assert use.startswith("B implicit")
    assert "faster than A" in use
    assert "estimated, 0.2 decades" in use
    assert float(use.split("implicit ")[1].split(" ms")[0]) == pytest.approx(3.0 * 80 / 50, rel=0.1)
    assert page.inner_text("#said").startswith("PyTorch, cpu, float64, k = 80: p* with its derivative dp*/dv")
    assert "JaxoptBoxCDQP" not in page.inner_text("#answers thead")
    # The address carries the question: whoever opens it meets the same answer.
    shared = page.url
    assert "backend=torch&need=argmax-gradient&device=cpu&dtype=float64&accuracy=1e-06&k=80" in shared
    other = watched.context.new_page()
    other.goto(shared)
    assert other.inner_text("#answers td.use") == use
    assert other.input_value("[name=k]") == "80"
    other.select_option("[name=need]", "loss-gradient")
    assert other.inner_text("#answers td.use").startswith("A implicit")
    assert watched.said == []
    watched.context.close()


def test_a_link_is_read_as_written_and_what_the_page_lacks_is_said(browser: Any, dense: Path):
    watched = Watched(browser, dense)
    page = watched.page
    page.goto(watched.url + "?backend=torch&accuracy=1e-6&device=tpu&framework=x&k=80&batch=<b>1e3</b>")
    assert [page.input_value(f"[name={n}]") for n in ("backend", "accuracy", "device")] == [
        "torch",
        "1e-06",
        "cpu",
    ]
    told = page.inner_text("#said")
    assert told.startswith("PyTorch, cpu, float64, k = 80: the loss")
    assert "batch is <b>1e3</b>, which is left out: it must be a whole number from 1 on." in told
    assert "asks for device = tpu, framework = x, which this page does not have" in told
    assert page.get_attribute("[name=batch]", "aria-invalid") == "true"
    page.fill("[name=batch]", "128")
    page.select_option("[name=backend]", "jax")  # the page opens with it: the link says it all the same
    assert "which" not in page.inner_text("#said")
    assert page.get_attribute("[name=batch]", "aria-invalid") == "false"
    assert "backend=jax&need=loss-gradient" in page.url
    assert watched.said == []
    watched.context.close()


def test_a_command_is_quoted_and_a_mode_that_does_not_apply_hides_no_other(
    browser: Any, synthetic: Any, tmp_path: Path
):
    import shlex

    rows = [
        synthetic.row(family=FAMILY, problem="p", k=50, gradient="implicit", argmax_grad_s=1.0, argmax_grad_error=0.0),
        synthetic.row(family=FAMILY, problem="p", k=50, gradient="unrolled", status="unsupported", reason="no steps"),
    ]  # fmt: skip
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    watched = Watched(browser, build_report([path], tmp_path / "out", ["html"]))
    watched.page.goto(watched.url + "?need=argmax-gradient&k=80000")
    offered = watched.page.get_attribute("#answers button.copy", "title")
    assert shlex.split(offered)[-1] == f"{FAMILY}(k=80000, batch=256, rank=1)"
    watched.page.click("button.open")
    told = watched.page.inner_text("tr.detail ul")
    assert told.startswith("not measured: the nearest certified size is")
    assert "does not apply" not in told
    watched.context.close()


def test_no_chart_mixes_machines(browser: Any, synthetic: Any, tmp_path: Path):
    rows = [synthetic.row(solver=s, machine=m) for m, names in (("m1", "AB"), ("m2", "ABC")) for s in names]
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    watched = Watched(browser, build_report([path], tmp_path / "out", ["html"]))
    for machine, solvers in (("m1", "AB"), ("m2", "ABC")):
        watched.page.select_option("[name=machine]", machine)
        watched.page.click("button.open")
        assert len(watched.page.query_selector_all("tr.detail .picks input")) == len(solvers)
        dots = watched.page.query_selector_all("tr.detail figure:first-of-type g[aria-label=dot] path")
        assert len(dots) == len(solvers)
    watched.context.close()


def test_the_script_answers_as_the_library_does(browser: Any, dense: Path):
    from dataclasses import replace

    from reports.answers.evidence import collect
    from reports.answers.question import answer, preset
    from reports.data.load import load
    from reports.pages.asking import sure

    watched = Watched(browser, dense)
    evidence = collect(load([dense.parent.parent / "s.sqlite"]).compared)
    met = set()
    for place, need, accuracy in evidence.series:
        for k in (None, 50, 80, 300, 30_000):
            question = replace(preset(evidence), place=place, need=need, accuracy=accuracy, k=k)
            asked = {"backend": place.backend, "device": place.device, "dtype": place.dtype, "need": need,
                     "accuracy": f"{accuracy:g}", "k": k}  # fmt: skip
            got = watched.page.evaluate("(q) => window.gfyAnswer(q)", asked)
            expected = answer(evidence, question)
            assert [(g[0], g[1], g[3], g[5]) for g in got] == [
                (x.kind.name, x.k, x.best and x.best.solver, sure(x)) for x in expected
            ]
            met |= {x.sure if x.best else sure(x) for x in expected}
            for g, x in zip(got, expected, strict=True):
                if x.best is not None:
                    assert g[4] == pytest.approx(x.best.time, rel=2e-4)
    assert {"clear", "likely", "not measured", "nothing certified: A not certified"} <= met
    watched.context.close()


@pytest.fixture(scope="module")
def many(synthetic: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the dense problems beside one that was measured far away, with forty solvers that failed."""
    far = [
        synthetic.row(
            family="a-small-one", problem="small", k=3, batch=2, backend="torch", solver=f"FarSolver{i}",
            gradient="implicit", argmax_grad_s=None, argmax_grad_error=None,
            problem_params={"k": 3, "batch": 2}, status="timeout" if i else "unsupported", steady_s=None,
        )
        for i in range(40)
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("many")
    path = synthetic.store(folder / "s.sqlite", pd.DataFrame([*crafted(synthetic), *far]))
    return build_report([path], folder / "out", ["html"])


@pytest.mark.parametrize("width", [390, 1400])
def test_a_size_shows_its_answers_first_and_many_columns_scroll(browser: Any, many: Path, width: int):
    from dataclasses import replace

    from reports.answers.evidence import collect
    from reports.answers.question import answer, preset
    from reports.data.load import load

    watched = Watched(browser, many, viewport={"width": width, "height": 900})
    page = watched.page
    page.goto(watched.url + "?backend=torch&need=argmax-gradient&k=80&batch=128")
    names = [line.inner_text() for line in page.query_selector_all("#answers tbody th")]
    assert len(names) == 2
    assert names[0].startswith("dense interactions")
    assert page.inner_text("#answers tbody tr:first-child .use").startswith("B implicit")
    evidence = collect(load([many.parent.parent / "s.sqlite"]).compared)
    torch = next(p for p in evidence.counts if p.backend == "torch")
    asked = replace(preset(evidence), place=torch, need="argmax-gradient", k=80, batch=128)
    assert [line.kind.energy for line in answer(evidence, asked)][0] == "LinearQuadratic"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.said == []
    watched.context.close()


def test_without_scripts_the_preset_question_is_answered_alike(browser: Any, dense: Path):
    plain = browser.new_context(java_script_enabled=False)
    page = plain.new_page()
    page.goto(dense.resolve().as_uri())
    still = page.inner_text("#answers tbody").replace("\xa0", " ")
    assert "The selectors need JavaScript" in page.inner_text("#verdict")
    watched = Watched(browser, dense)
    live = watched.page.inner_text("#answers tbody").replace("\xa0", " ").replace("Copy code", "")
    assert live.split() == still.split()
    assert watched.page.inner_text("#said") == page.inner_text("#said")
    heads = [h.inner_text() for h in watched.page.query_selector_all("#answers th.group")]
    assert heads == ["peers", "your own"]
    watched.context.close()
    plain.close()


@pytest.mark.parametrize("width", [390, 1400])
def test_details_open_and_close_with_the_keyboard(browser: Any, dense: Path, width: int):
    watched = Watched(browser, dense, viewport={"width": width, "height": 900})
    page = watched.page
    page.focus("button.open")
    page.keyboard.press("Enter")
    top = "document.querySelector('{}').getBoundingClientRect().top"
    page.wait_for_timeout(800)  # the page scrolls smoothly
    assert (
        0 <= page.evaluate(top.format("button.open")) < page.evaluate(top.format("tr.detail")) < 600
    )  # in view
    detail = page.inner_text("tr.detail")
    for words in (
        "Certified gap against time",
        "Growth with k",
        "Error of the gradient",
        "gfy compare",
        "FenchelYoungLoss",
    ):
        assert words in detail
    dots = len(page.query_selector_all("tr.detail figure:first-of-type g[aria-label=dot] path"))
    look = "gfyCharts([['A', 'ours', 'red'], ['B', 'ours', 'blue'], ['C', 'ours', 'red']]).shape('{}')"
    assert [page.evaluate(look.format(name)) for name in "ABC"] == ["circle", "circle", "square"]
    page.click("tr.detail .picks label:has-text('A')")
    assert 0 < len(page.query_selector_all("tr.detail figure:first-of-type g[aria-label=dot] path")) < dots
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    assert page.query_selector("tr.detail") is None
    assert page.evaluate("document.activeElement.className") == "open"
    assert watched.said == []
    watched.context.close()


def test_the_code_is_copied(browser: Any, dense: Path):
    watched = Watched(browser, dense)
    title = watched.page.get_attribute("button.copy", "title")
    assert len(title.splitlines()) == 3
    watched.page.click("button.copy")
    watched.page.wait_for_selector("button.copy:has-text('Copied')")
    assert watched.said == []
    watched.context.close()
