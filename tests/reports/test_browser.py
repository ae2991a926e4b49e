"""The page in a real browser: opened from disk, nothing fetched, no complaints, all of it works."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports.pages.render import build_report

pytestmark = pytest.mark.browser
BROWSER = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
EVIL = "<script>alert(1)</script>"


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
    card = opened.page.query_selector(".card[data-family=pairwise-gini][data-need=solve]")
    assert "DualNewton" in card.query_selector(".answer").inner_text()
    card.query_selector("p a").click()
    opened.page.wait_for_function("document.querySelector('#count').textContent.includes('behind')")
    assert set(opened.column("solver")) == {"DualNewton"}
    assert set(opened.column("family")) == {"pairwise-gini"}
    point = opened.page.query_selector("#fig-gap-time svg a")
    target = point.get_attribute("href")
    opened.page.evaluate("h => { location.hash = h }", target)
    opened.page.wait_for_selector(f"tr[id='{target[1:]}'].here")
    opened.page.click(f"tr[id='{target[1:]}'] button")
    assert "git_commit" in opened.page.inner_text("dialog[open]")
    opened.page.keyboard.press("Escape")
    assert opened.page.query_selector("dialog[open]") is None


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
    card = watched.page.inner_text(".card[data-family=mine]")
    assert EVIL in watched.page.inner_text(".card[data-family=mine] .answer")
    assert "4 × ahead of Slower" in card
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
