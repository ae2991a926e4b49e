"""The multilabel experiment from stored rows: which line belongs to which table, what the caption says, the files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.store import RecordsError, Store
from reports.answers.multilabel import COLUMNS, lines, paired_bootstrap, study, trained
from reports.pages.multilabel import choices, note, page, write_multilabel, write_study

# energy, loss, gradient, accuracy, the paper's figure
MODELS = (
    ("concave-spen", "gfy", "envelope", 80.0, 80.0), ("pairwise", "energy", "envelope", 50.0, 42.35),
    ("pairwise", "gfy", "envelope", 80.4, 80.19), ("pairwise", "gfy", "implicit", 79.0, 80.33),
    ("unary-linear", "gfy", "envelope", 79.9, 79.76), ("pairwise", "cross_entropy", "implicit", 79.1, 79.0),
)  # fmt: skip


@pytest.fixture
def rows(synthetic, tmp_path: Path) -> pd.DataFrame:
    with Store(tmp_path / "multilabel.sqlite") as store:
        for energy, loss, gradient, accuracy, paper in MODELS:
            given = {"loss": loss, "gradient": gradient, "score_paper": paper}
            store.put(synthetic.trained("yeast", energy, accuracy, **given))
        store.put(synthetic.trained("scene", accuracy=91.0, extra={"training": {"selection": 1}}))
        store.put(synthetic.trained("own-data", accuracy=70.0))
        # A shorter run, an earlier protocol and a recipe from before there was one are stored too; none is shown.
        store.put(synthetic.trained(accuracy=1.0, effort={"epochs": 10}))
        old = {"recipe": 2, "epochs": 900, "penalties": 5, "rates": 10, "seeds": [0, 1, 2], "decay": True}
        store.put(synthetic.trained(accuracy=2.0, problem_params=old))
        earlier = {**old, "protocol": "0ff", "finalists": 10}
        store.put(
            synthetic.trained(accuracy=2.5, problem_params=earlier, created="2025-01-01T00:00:00+00:00")
        )
        store.put(synthetic.trained("emotions", accuracy=3.0, status="crashed", reason="because"))
        return store.frame()


def test_lines_stand_in_the_tables_and_in_the_order_of_the_paper(rows: pd.DataFrame) -> None:
    found, effort = lines(rows)
    assert effort is not None
    assert (effort.epochs, effort.settings, effort.seeds, effort.short) == (100, 50, 3, False)
    by_table = {
        name: [(x.energy, x.loss, x.gradient, x.dataset) for x in part.itertuples()]
        for name, part in found.groupby("table", sort=False)
    }
    ours = [("pairwise", "gfy", "envelope", dataset) for dataset in ("yeast", "scene", "own-data")]
    assert by_table["energies"] == [
        ("unary-linear", "gfy", "envelope", "yeast"), *ours, ("concave-spen", "gfy", "envelope", "yeast"),
    ]  # fmt: skip
    assert by_table["gradients"] == [*ours, ("pairwise", "gfy", "implicit", "yeast")]
    assert by_table["losses"] == [
        *ours, ("pairwise", "energy", "envelope", "yeast"), ("pairwise", "cross_entropy", "implicit", "yeast"),
    ]  # fmt: skip
    assert found["accuracy"].min() == 50.0
    only, _ = lines(rows, ("yeast",), ("gradients",))
    assert only[["table", "dataset"]].drop_duplicates().to_numpy().tolist() == [["gradients", "yeast"]]


def test_the_caption_says_what_was_run(rows: pd.DataFrame, synthetic, tmp_path: Path) -> None:
    found, effort = lines(rows)
    said = note(effort, found)
    assert "100 epochs of Adam with a rate that falls" in said
    assert "50 settings (5 penalties, 10 rates)" in said
    assert "of 3 seeds" in said
    assert "the first seed votes on every setting, all 3 seeds on the 10 that it likes best" in said
    assert "short" not in said
    assert "one written protocol for all" in said
    with Store(tmp_path / "quick.sqlite") as store:
        quick = {"epochs": 10, "penalties": 2, "rates": 4, "seeds": [0], "decay": False}
        store.put(synthetic.trained(effort=quick, score_sd=0.0))
        text = page(store.frame())
    assert "A short run, not the paper's protocol" in text
    assert "best of 8 settings (2 penalties, 4 rates)" in text
    assert "10 epochs of Adam;" in text
    assert "of one seed" in text


def test_the_files_show_ours_beside_the_papers(rows: pd.DataFrame, tmp_path: Path) -> None:
    paths = write_multilabel(rows, tmp_path / "out")
    suffixes = (".csv", ".md", ".html", ".tex", "-seeds.csv")
    assert [path.name for path in paths] == [f"multilabel{s}" for s in suffixes]
    read = list(csv.DictReader(paths[0].read_text().splitlines()))
    assert tuple(read[0]) == COLUMNS
    assert (read[1]["accuracy"], read[1]["paper"]) == ("80.4", "80.19")
    markdown, html, latex = (path.read_text("utf-8") for path in paths[1:4])
    assert "| 80.40 ± 0.20 | 80.19 | +0.21 |" in markdown
    assert "5 of 6 cells that the paper has are at most half a point below its figure" in markdown
    assert "Below: yeast pairwise gfy implicit -1.33 (standard error over seeds 0.12)." in markdown
    assert "<td>80.40 ± 0.20</td>" in html
    assert r"80.40 \ensuremath{\pm} 0.20 (80.19)" in latex
    assert latex.count(r"\end{tabular}") == 3
    assert (
        "| yeast | unary-linear | gfy | envelope | 79.90 | 60.00 | 30.00 | 50.00 | 10.00 | 20.00 |"
        in markdown
    )
    assert "| yeast | pairwise | energy | envelope | +0.00 | [+0.00, +0.00] | tie |" in markdown.replace(
        "\\", ""
    )
    seeds = list(csv.DictReader(paths[4].read_text().splitlines()))
    assert len(seeds) == 3 * (len(MODELS) + 2)
    assert (seeds[0]["energy"], seeds[0]["seed"], seeds[0]["accuracy"]) == ("unary-linear", "0", "79.7")


def test_an_empty_store_gives_a_page_that_says_so(tmp_path: Path) -> None:
    with Store(tmp_path / "none.sqlite") as store:
        frame = store.frame()
    assert "No rows yet" in page(frame)
    assert [p.name for p in write_multilabel(frame, tmp_path)] == ["multilabel.csv", "multilabel.md"]
    assert study(frame, "significance").empty


def test_significance_comes_from_the_stored_decisions(rows: pd.DataFrame, tmp_path: Path) -> None:
    found = study(rows, "significance")
    assert list(found["dataset"].unique()) == ["yeast"], "one model alone has nothing to be held against"
    assert len(found) == len(MODELS) - 1
    assert (found["difference"] == 0.0).all(), "all rows here hold the same decisions"
    better, _ = trained(rows)
    told = better["extra"].map(json.loads)
    more = [json.dumps({**t, "right_decisions": [9, 9, 9, 9]}) for t in told]
    worse = better.assign(extra=np.where(better["loss"] == "energy", more, better["extra"]))
    line = study(worse, "significance").set_index("loss").loc["energy"]
    assert line["difference"] == pytest.approx(100 * np.mean([5, 11, 24, 33]) / (14 * 3), abs=1e-5)
    assert write_study(rows, "significance", tmp_path).name == "multilabel-significance.csv"


def test_a_study_keeps_the_newest_row_of_each_variant(synthetic, tmp_path: Path) -> None:
    def timed(variant: str, seconds: float, machine: str) -> dict[str, object]:
        params = {"study": "time", "variant": variant, "epochs": 100}
        told = {"dataset": "yeast", "seconds": seconds, "curve": {"seconds": [1], "score": [2]}}
        return synthetic.trained(
            kind="training", family="multilabel-time", problem_params=params, machine=machine
        ) | {"extra": told}

    with Store(tmp_path / "s.sqlite") as store:
        for n, row in enumerate([timed("a", 1.0, "m1"), timed("b", 2.0, "m1"), timed("a", 3.0, "m2")]):
            store.put({**row, "created": f"2026-01-0{n + 1}"})
        assert len(store) == 3
        found = study(store.frame(), "time")
    assert found.to_dict("list") == {"dataset": ["yeast", "yeast"], "seconds": [2.0, 3.0]}


def test_the_choice_among_the_finalists_is_told_with_its_cost(synthetic, rows: pd.DataFrame) -> None:
    told = pd.DataFrame([
        {"dataset": "yeast", "energy": "pairwise", "loss": "gfy", "chosen": n == 0, "held_out": 80.0 - n,
         "test": 70.0 + n, "test_worst": 60.0, "test_best": 75.0, "held_out_examples": 100, "labels": 4}
        for n in range(4)
    ])  # fmt: skip
    (said,) = choices(told)
    assert "3 of 4 finalists lie within one standard error (2.00 points, 100 examples held out)" in said
    assert "they reach 70.00 to 73.00; the chosen one reaches 70.00, number 4 of 4" in said
    assert "rank correlation of held-out and test accuracy -1.00" in said
    assert "## What the choice among the finalists cost" not in page(rows)


def test_bootstrap_tells_luck_from_difference(rng: np.random.Generator) -> None:
    a = rng.uniform(0.5, 1.0, size=200)
    better = paired_bootstrap(a + 0.02, a + rng.normal(0, 0.02, size=200), draws=2000)
    assert better["p_value"] < 0.01
    assert better["low"] < better["difference"] < better["high"]
    luck = paired_bootstrap(a, rng.permutation(a), draws=2000)
    assert luck["p_value"] > 0.01
    assert luck["low"] < 0 < luck["high"]
    with pytest.raises(RecordsError, match="one length"):
        paired_bootstrap(a, a[:-1])


def test_the_page_says_from_held_out_votes_why_a_cell_falls_short(synthetic, tmp_path: Path) -> None:
    told = {
        "held_out_votes": {"3": [80.0, 78.0, 82.0], "20": [81.0, 79.0, 80.0], "21": [70.0, 70.0, 70.0]},
        "held_out_curve": [60.0, 81.0], "held_out_grid": [*[50.0] * 20, 81.0, 70.0, *[50.0] * 28],
        "training": {"rows": [399, 100], "selection": 3}, "metrics": {"micro_f1": 0.05},
    }  # fmt: skip
    with Store(tmp_path / "multilabel.sqlite") as store:
        store.put(synthetic.trained("emotions", accuracy=75.0, score_paper=78.0, k=10, extra=told))
        store.put(synthetic.trained("yeast", accuracy=80.0, score_paper=80.2, extra=told))
        text = page(store.frame())
    why = text.partition("## Why cells fall short")[2].partition("\n## ")[0]
    assert "yeast" not in why  # it holds the bar
    assert (
        "2 of 3 finalists lie within one standard error (1.26 points, 1000 decisions)" in why
    )  # sqrt(.8 .2 / 1000)
    assert "the seeds of the chosen one reach 79.00 to 81.00" in why  # place 20, by its curve
    assert "a standard error of 1.37 points" in why  # sqrt(.75 .25 / 1000)
    assert "2 settings tie" in why
    assert (
        "smallest of the grid, and the first seed's best held-out accuracy falls from 81.00 there to 50.00"
        in why
    )
    steps = 100 * (399 // 32)
    assert f"Its {steps} steps of Adam" in why
    assert f"move a weight by {0.5 * 0.01 * steps:.2g} at most" in why
    assert "The 2 cells together took 0.4 processor minutes, which are 0.2 minutes on two cores" in text
    assert "micro F1 of 5.0 %" in why
