"""What is written into the documents from stored rows is what those rows say; the reference names everything."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from doc_pages import DOCS, ROOT, script

import gfy
import solvers
from bench.store import COLUMNS, KINDS, Store, read
from reports.answers.bars import bars_table, kinds_of_work, newest, races, side_of, speed_table, words_table


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return script("generate")


def test_the_documents_say_what_the_stored_rows_say(generate: ModuleType) -> None:
    for path, text in generate.documents().items():
        assert path.read_text("utf-8") == text, f"{path.name} is out of date: run `python docs/generate.py`"


def test_the_pictures_that_are_kept_show_what_the_stored_rows_say(generate: ModuleType) -> None:
    pytest.importorskip("seaborn")
    assert generate.stale() == [], "run `python docs/generate.py`"
    shown = (ROOT / "README.md").read_text("utf-8") + (DOCS / "measured.md").read_text("utf-8")
    for name in generate.KEPT:
        assert f"figures/{name}.svg" in shown


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_the_source_tree_keeps_rows_and_no_generated_page(generate: ModuleType) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "docs/results", "docs/figures"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    kept = {f"docs/figures/{name}.svg" for name in generate.KEPT}
    found = {
        name for name in listed.stdout.split() if (ROOT / name).exists() and not name.endswith(".sqlite")
    }
    assert found <= kept


def timing(solver: str, seconds: float, ours: bool, status: str = "ok") -> dict[str, object]:
    return {
        "kind": "bars", "status": status, "problem": "work k=5", "solver": solver, "backend": "torch",
        "steady_s": seconds, "gap_rel": 1e-12, "score_name": "time in bar demo", "extra": {"ours": ours},
    }  # fmt: skip


def test_the_headline_is_the_best_of_each_side(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "RESULTS", tmp_path)
    assert generate.MAKE_BARS in generate.headline()
    with Store(tmp_path / "bars.sqlite") as store:
        for row in (
            timing("Quick", 0.002, True),
            timing("Slow", 0.1, True),
            timing("Peer", 0.05, False),
            timing("Rough", 1e-5, False, "not converged"),
        ):
            store.put(row)
        store.put({
            "kind": "bars", "status": "ok", "problem": "work k=5", "solver": "bar", "score": 25.0,
            "score_name": "demo: ours against", "extra": {"sense": ">=", "bar": 30.0, "verdict": "SHORT"},
        })  # fmt: skip
    frame = generate.bars()
    line = speed_table(frame).splitlines()[2]
    assert "Quick" in line
    assert "Peer" in line
    assert line.endswith("| 25 |")
    assert bars_table(frame).splitlines()[2].endswith("| 25 | >= 30 | **no** |")
    assert "Quick" in generate.headline()
    assert "Quick" in generate.results()
    pytest.importorskip("seaborn")
    (drawn,) = generate.pictures()
    assert drawn.data.to_dict("list") == {"work": ["work k=5"], "times": [25.0]}
    generate.draw(tmp_path / "figures")
    assert "25 x" in (tmp_path / "figures" / "headline.svg").read_text("utf-8")
    monkeypatch.setattr(generate, "FIGURES", tmp_path / "figures")
    assert tmp_path / "figures" / "headline.svg" not in generate.stale()
    with Store(tmp_path / "bars.sqlite") as store:
        store.put(timing("Quick", 0.001, True) | {"created": "2999-01-01"})
    assert tmp_path / "figures" / "headline.svg" in generate.stale()


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("ByHand in JAX", "hand"),
        ("torch bisection by hand", "hand"),
        ("JaxoptBisection", "idea"),
        ("ScipyFindRoot", "idea"),
        ("jaxopt CD + envelope", "idea"),
        ("cvxpy + OSQP", "general"),
        ("MujocoBoxQP", "general"),
        ("a code of next year", "general"),
    ],
)
def test_a_peer_has_its_column(name: str, side: str) -> None:
    assert side_of(name) == side


def test_the_table_in_words_tells_wins_and_losses(tmp_path: Path) -> None:
    sizes = {"family": "quadratic-gini-box", "k": 50, "batch": 64, "problem_params": {"condition": 30.0}}
    slow = {"problem": "other", "family": "pairwise-gini", "k": 9, "batch": 4, "rank": 2}
    with Store(tmp_path / "bars.sqlite") as store:
        store.put(timing("Auto", 0.002, True) | sizes)
        store.put(timing("Daqp", 0.008, False) | sizes)
        store.put(timing("ByHand", 0.05, False) | sizes)
        store.put(timing("Auto", 0.006, True) | slow)
        store.put(timing("JaxoptBisection", 0.003, False) | slow)
    won, lost = words_table(newest(read(tmp_path / "bars.sqlite"))).splitlines()[2:]
    assert won == (
        "| 64 dense problems with 50 labels | 2 ms (Auto, torch) | 8 ms (Daqp, torch) |  | 50 ms (ByHand, torch) "
        "| 4 x faster |"
    )
    assert lost.startswith("| 4 problems with 9 labels whose interactions have rank 2 | 6 ms")
    assert lost.endswith("| **2 x slower** |")
    (kept,) = words_table(newest(read(tmp_path / "bars.sqlite")), most=1).splitlines()[2:]
    assert kept == lost


def test_the_picture_shows_each_kind_of_work_once_at_its_lowest_ratio(tmp_path: Path) -> None:
    sizes = {"family": "quadratic-gini-box", "k": 50, "batch": 64}
    with Store(tmp_path / "bars.sqlite") as store:
        for condition, seconds in ((30.0, 0.002), (1e6, 0.004)):
            row = {"problem": f"work {condition:g}", "problem_params": {"condition": condition}, **sizes}
            store.put(timing("Auto", seconds, True) | row)
            store.put(timing("Daqp", 0.008, False) | row)
    found = races(newest(read(tmp_path / "bars.sqlite")))
    assert [race.ratio for race in found] == [4.0, 2.0]
    kept = kinds_of_work(found)
    assert {work: race.ratio for work, race in kept.items()} == {"64 dense problems with 50 labels": 2.0}


def test_a_section_without_markers_is_refused(generate: ModuleType) -> None:
    with pytest.raises(SystemExit, match="markers"):
        generate.between("no markers here", "headline", "text")


def test_every_column_and_kind_of_a_row_is_explained() -> None:
    page = (DOCS / "reference" / "rows.md").read_text("utf-8")
    assert not [name for name in (*COLUMNS, *KINDS) if f"| `{name}` |" not in page]


def test_every_public_name_is_in_the_reference() -> None:
    left_out = {"Biconjugate", "Explanation", "Target"}  # results of functions that are there
    pages = {"gfy": (DOCS / "reference" / "gfy.md").read_text("utf-8"),
             "solvers": (DOCS / "reference" / "solvers.md").read_text("utf-8")}  # fmt: skip
    for module in (gfy, solvers):
        listed = re.findall(r"^::: [\w.]*\.(\w+)$", pages[module.__name__], flags=re.MULTILINE)
        absent = [n for n in module.__all__ if n not in listed and n not in left_out]
        assert not absent, f"reference/{module.__name__}.md lacks {absent}"


def test_every_verb_has_an_example_in_its_help() -> None:
    """Also in the page of the reference, which is made from the same words."""
    from typer.main import get_group

    from bench.cli import app, load

    page = "\n".join(script("hooks").cli_lines())
    for verb in get_group(app).list_commands(None):
        command = load(verb)
        for name, sub in (getattr(command, "commands", None) or {"": command}).items():
            called = f"gfy {verb} {name}".strip()
            assert f"  {called}" in (sub.help or ""), f"`{called} --help` has no example of itself"
            assert f"# {called}\n" in page
            assert f"\n{called}" in page, f"reference/cli.md has no example of `{called}`"


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml")
    hooks = script("hooks")
    page = hooks.on_page_content(r'<p><span class="arithmatex">\(a &lt; b\)</span></p>')
    assert "<math" in page
    assert "arithmatex" not in page
    assert re.search(r"<mi>a</mi><mo>(&lt;|&#x0*3C;)</mo><mi>b</mi>", page)
    norm = hooks.on_page_content(r'<span class="arithmatex">\(\lVert p \rVert^2\)</span>')
    assert norm.count('stretchy="false"') == 2


def test_the_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "pip install nox && nox -s compare" in text
    assert "pip install nox && nox -s tests" in text


def test_the_answer_counts_the_winners_of_the_published_rows(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "RESULTS", tmp_path)
    assert "nox -s compare" in generate.answer()
    with Store(tmp_path / "compare.sqlite") as store:
        for family, solver, seconds in (("a", "Quick", 0.001), ("a", "Slow", 0.1), ("b", "Quick", 0.002)):
            store.put({
                "kind": "compare", "status": "ok", "problem": family, "family": family, "solver": solver, "k": 5,
                "gradient": "envelope", "backend": "torch", "device": "cpu", "dtype": "float64", "tol": 1e-8,
                "gap": 1e-9, "gap_rel": 1e-9, "steady_s": seconds, "backward_s": seconds, "repeats": 5,
                "machine": "m", "grad_error": 1e-9,
            })  # fmt: skip
    said = generate.answer()
    assert "in PyTorch Quick on 2 of the 2 problems with such a choice (0 by a tie)" in said
    assert "Slow" not in said
    assert "](figures/answers.svg)" in said
    assert "From 3 [rows]" in said
