"""What a trained policy becomes in the store, what identifies its row, and the grids that are searched."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.experiments.imitation import rows
from bench.experiments.imitation.rows import Cell
from bench.experiments.imitation.settings import GRIDS, PAPER, find_grid
from bench.experiments.imitation.tasks import TASKS
from bench.store import Store
from bench.store.maintenance import verify
from gfy.errors import GfyValueError


def test_the_row_of_a_seed(tmp_path: Path) -> None:
    cell = Cell(TASKS["hopper"], "pairwise", "paper", 11, PAPER["pairwise"], "0123")
    facts = {
        "gap": 1e-7, "residual": 0.0, "feasibility": 0.0, "loss": 0.1, "runs": 3, "train_s": 5.0,
        "evaluation_s": 2.0, "policy_s": 0.2, "simulation_s": 1.8, "compile_s": 0.1, "load": 0.0,
    }  # fmt: skip
    returns = 2000 + np.linspace(-3, 3, 4)
    with Store(tmp_path / "imitation.sqlite") as store:
        key = store.put(rows.trained_row(cell, 5, returns, np.full(4, 900), 2800.0, 20.0, facts))
        assert key == cell.row_key(5, 4)
        other = store.put(rows.random_row(TASKS["hopper"], np.array([10.0, 30.0]), np.array([9, 20])))
        assert other == rows.random_key(TASKS["hopper"], 2)
        row = store.get(key)
    assert row is not None
    assert (row["score"], row["score_name"], row["gap"], row["compile_s"]) == (2000.0, "return", 1e-7, 0.1)
    assert row["score_sd"] == pytest.approx(np.std([-3, -1, 1, 3], ddof=1))
    extra = json.loads(row["extra"])
    assert len(extra["returns"]) == 4
    assert extra["normalised"] == pytest.approx(1980 / 2780)
    assert verify(tmp_path / "imitation.sqlite") == []


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
    wide = GRIDS["wide"].settings(100)
    assert len(wide) == len(set(wide)) == 72
    assert {one.hidden for one in wide} >= {256}
    assert {one.noise for one in wide} > {0.0}
    assert {one.l2 for one in wide} > {0.0}
    assert all("noise" in one.facts() for one in wide if one.noise)
    assert "noise" not in PAPER["unary"].facts(), "rows from before there was noise keep their keys"
    for setting in PAPER.values():
        assert setting in GRIDS["paper"].settings(setting.steps)
    with pytest.raises(GfyValueError, match="paper, short, wide, quick"):
        find_grid("huge")
