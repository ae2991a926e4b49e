"""From rows to table, file and figure; and the command as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.experiments.imitation import rows
from bench.experiments.imitation.findings import findings, lines, overhead
from bench.experiments.imitation.results import (
    COLUMNS,
    comparison,
    difference,
    interval,
    seeds_frame,
    verdict,
    write_csv,
)
from bench.experiments.imitation.rows import Cell
from bench.experiments.imitation.settings import GRIDS, PAPER, find_grid
from bench.experiments.imitation.summary import page
from bench.experiments.imitation.tasks import TASKS
from bench.store.records import Store
from gfy.errors import GfyValueError


def put(store: Store, model: str, seed: int, mean: float, episodes: int = 4, name: str = "paper") -> None:
    cell = Cell(TASKS["hopper"], model, name, 11, PAPER[model], "0123")
    returns = mean + np.linspace(-3, 3, episodes)
    facts = {
        "gap": 1e-7, "residual": 0.0, "feasibility": 0.0, "loss": 0.1, "runs": 3, "train_s": 5.0,
        "evaluation_s": 2.0, "policy_s": 0.2, "simulation_s": 1.8, "compile_s": 0.1, "load": 0.0,
    }  # fmt: skip
    row = rows.trained_row(cell, seed, returns, np.full(episodes, 900), 2800.0, 20.0, facts)
    store.put(row)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store(tmp_path / "imitation.sqlite") as opened:
        for seed, (u, p) in enumerate([(1400.0, 2000.0), (1420.0, 2100.0), (1380.0, 2200.0)]):
            put(opened, "unary", seed, u)
            put(opened, "pairwise", seed, p)
        opened.put(rows.random_row(TASKS["hopper"], np.array([10.0, 30.0]), np.array([9, 20])))
        yield opened


def test_one_line_a_seed_with_the_normalised_score(store: Store, tmp_path: Path) -> None:
    frame = seeds_frame(store.frame())
    assert len(frame) == 6
    path = tmp_path / "imitation.csv"
    write_csv(frame, path)
    read = pd.read_csv(path)
    assert list(read.columns) == COLUMNS
    first = read[(read["model"] == "unary") & (read["seed"] == 0)].iloc[0]
    assert first["task"] == "Hopper-v5"
    assert first["return"] == 1400.0
    assert first["sd"] == pytest.approx(np.std([-3, -1, 1, 3], ddof=1), abs=0.01)
    assert first["normalised"] == pytest.approx(1380 / 2780, abs=1e-4)


def test_a_longer_evaluation_replaces_a_shorter_one(store: Store) -> None:
    put(store, "unary", 1, 1500.0, episodes=8)
    frame = seeds_frame(store.frame())
    line = frame[(frame["model"] == "unary") & (frame["seed"] == 1)]
    assert line["return"].tolist() == [1500.0]
    assert line["episodes"].tolist() == [8]


def test_intervals_are_students_and_welchs(rng: np.random.Generator) -> None:
    from scipy import stats

    a, b = rng.normal(3, 1, 10), rng.normal(2, 4, 7)
    got, gap = interval(a), difference(a, b)
    expected = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high))
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((expected.low, expected.high))
    assert verdict(difference(a + 100, b)) == "pairwise"
    assert verdict(difference(a - 100, b)) == "unary"
    assert verdict(difference(a[:1], b)) == "tie"  # one seed says nothing of its spread
    assert verdict(difference(np.full(3, 2.0), np.full(3, 1.0))) == "pairwise"


def test_the_table_names_the_better_model(store: Store) -> None:
    table = comparison(seeds_frame(store.frame()))
    assert table["better"].tolist() == ["pairwise"]
    assert table["gap"].tolist() == pytest.approx([700.0])
    put(store, "unary", 2, 9000.0, episodes=5)
    assert comparison(seeds_frame(store.frame()))["better"].tolist() == ["tie"]


def test_the_page_and_the_figure_come_from_rows(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench.experiments.imitation.figure import draw

    put(store, "unary", 1000, 111.0, name="search")
    put(store, "pairwise", 1000, 222.0, name="search")
    frame, search = seeds_frame(store.frame()), seeds_frame(store.frame(), search=True)
    text = page(frame, search)
    assert "1400 ± 20 | 2100 ± 100" in text
    assert "at or above the unary one on 1 of 1 tasks" in text
    assert "**222**" in text
    assert "10.0%" in text  # the policy's share of 0.2 + 1.8 seconds
    elsewhere = frame[frame["model"] == "unary"].assign(task="Ant-v5", setting="tuned", trajectories=1)
    svg, png = draw(pd.concat([frame, elsewhere]), tmp_path / "figure")  # two of its four panels have no rows
    assert svg.read_text().count("<path") > 20
    assert png.stat().st_size > 5_000


def test_findings_follow_the_rows(store: Store) -> None:
    frame = seeds_frame(store.frame())
    assert lines(frame) == [
        "Hopper-v5, 11 trajectories, paper: unary 1400 ± 20 (0.496), pairwise 2100 ± 100 (0.748); "
        f"difference +700 [{frame_gap(frame)}]: pairwise"
    ]
    assert "at least as high on 1 of 1 tasks (Hopper-v5)" in findings(frame)[0]
    assert "worse on none" in findings(frame)[0]
    assert "within 30%" in findings(frame)[1]
    # The pairwise policy now takes as long as the whole simulation of the unary one.
    slow = frame.assign(policy_s=np.where(frame["model"] == "pairwise", 2.2, 0.2))
    assert overhead(slow) == {"Hopper-v5": pytest.approx(1.0)}
    assert "beyond 30%" in findings(slow)[1]
    tuned = frame.assign(setting="tuned", normalised=np.where(frame["model"] == "pairwise", 0.95, 0.2))
    assert "90% of the expert on Hopper-v5, Walker2d-v5, Ant-v5 (11 trajectories)? On Hopper-v5." in "".join(
        findings(tuned)
    )
    assert "Not run yet: Walker2d-v5, Ant-v5." in "".join(findings(tuned))
    alone = frame[frame["model"] == "unary"]
    assert lines(alone) == ["Hopper-v5, 11 trajectories, paper: unary 1400 ± 20 (0.496)"]


def frame_gap(frame: pd.DataFrame) -> str:
    row = comparison(frame).iloc[0]
    return f"{row['gap_low']:+.0f}, {row['gap_high']:+.0f}"


def test_an_empty_store_gives_an_empty_file_and_a_page(tmp_path: Path) -> None:
    with Store(tmp_path / "empty.sqlite") as empty:
        frame = seeds_frame(empty.frame())
    write_csv(frame, tmp_path / "imitation.csv")
    assert (tmp_path / "imitation.csv").read_text().strip() == ",".join(COLUMNS)
    assert "No rows yet" in page(frame, frame)


def test_keys_name_everything_that_decides_a_row() -> None:
    cell = Cell(TASKS["hopper"], "unary", "paper", 11, PAPER["unary"], "0123")
    others = [
        Cell(TASKS["ant"], "unary", "paper", 11, PAPER["unary"], "0123"),
        Cell(TASKS["hopper"], "pairwise", "paper", 11, PAPER["unary"], "0123"),
        Cell(TASKS["hopper"], "unary", "tuned", 11, PAPER["unary"], "0123"),
        Cell(TASKS["hopper"], "unary", "paper", 4, PAPER["unary"], "0123"),
        Cell(TASKS["hopper"], "unary", "paper", 11, PAPER["pairwise"], "0123"),
        Cell(TASKS["hopper"], "unary", "paper", 11, PAPER["unary"].with_steps(7), "0123"),
        Cell(TASKS["hopper"], "unary", "paper", 11, PAPER["unary"], "4567"),
    ]
    keys = {one.row_key(0, 10) for one in [cell, *others]} | {cell.row_key(1, 10), cell.row_key(0, 20)}
    assert len(keys) == len(others) + 3
    # The same training serves both names of a setting and any number of episodes.
    assert others[2].policy_key(0) == cell.policy_key(0)


def test_grids_are_the_same_for_both_models_and_the_papers_is_whole() -> None:
    assert len(GRIDS["paper"].settings(100)) == 108
    for setting in PAPER.values():
        assert setting in GRIDS["paper"].settings(setting.steps)
    with pytest.raises(GfyValueError, match="paper, short, quick"):
        find_grid("huge")


@pytest.mark.slow
def test_the_published_table_is_what_its_rows_say(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "docs" / "results"
    if not (folder / "imitation.sqlite").exists():
        pytest.skip("docs/results/imitation.sqlite is not there")
    from bench.store.records import read

    frame = seeds_frame(read(folder / "imitation.sqlite"))
    write_csv(frame, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (folder / "imitation.csv").read_text()


def test_extra_is_plain_json(store: Store) -> None:
    row = next(r for r in store.frame().to_dict("records") if r["family"] == "pairwise-gini")
    extra = json.loads(row["extra"])
    assert len(extra["returns"]) == 4
    assert row["score_name"] == "return"
    assert row["gap"] == 1e-7
