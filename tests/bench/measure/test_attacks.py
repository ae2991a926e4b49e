"""What a solver does to its own process, its inputs or its clock changes its own row at most, and is told."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.plan.matrix import plan
from bench.plan.suite import Suite, from_dict
from bench.run.executor import Local
from bench.store import Store, environment

TOYS = str(Path(__file__).parents[1] / "toy_solvers.py")
HONEST = ["CoordinateAscent", "DualNewton"]


def suite(*toys: str, **changes: object) -> Suite:
    base: dict[str, object] = {
        "solvers": [*(f"{TOYS}:{name}" for name in toys), *HONEST], "backends": ["torch"], "tolerances": [1e-6],
        "repeat": 3, "timeout": 60.0, "budget": 0.05, "max_steps": 3000,
        "problems": [{"family": "pairwise-gini", "k": 6, "batch": 3}],
    }  # fmt: skip
    return from_dict(base | changes)


def measured(asked: Suite, path: Path, memory: int | None = None) -> pd.DataFrame:
    with Store(path) as store:
        run = Local(store, environment.row_facts())
        run(run.remaining(plan(asked, memory).groups), 0)
        return store.frame().set_index("solver")


def test_attackers_cost_their_own_rows_only(tmp_path: Path) -> None:
    frame = measured(suite("RaisesLater", "Remembers", "Meddler"), tmp_path / "r.sqlite")
    assert len(frame) == 5
    assert frame.index.is_unique
    assert frame.status["RaisesLater"] == "crashed"
    assert "while it was timed: ZeroDivisionError: one over nothing, later" in frame.reason["RaisesLater"]
    assert frame.status["Remembers"] == "not converged"
    assert "timed call: " in frame.reason["Remembers"]
    for name in HONEST:
        assert frame.status[name] == "ok"
        assert 0 <= frame.gap_rel[name] < 1e-6
        assert frame.grad_error[name] < 1e-6
        assert frame.steady_s[name] > 0


CHEATS = {
    "RightByTurns": ("not converged", "timed call: it says it converged, but"),
    "NaNLater": ("not finite", "timed call: 1 of 3 solutions hold NaN"),
    "FillsInLater": ("not converged", "the certified gap is"),
    "SolvesWhenRead": ("ok", ""),
    "Narrow": ("crashed", "it returned p in torch.float32, and its inputs are in torch.float64"),
    "Beyond": ("not converged", "the solution lies outside the set by"),
    "KnowsTheSeed": ("not converged", "timed call: "),
}


@pytest.mark.slow
def test_cheats_are_told_or_paid_for(tmp_path: Path) -> None:
    frame = measured(suite(*CHEATS, repeat=6, budget=0.5), tmp_path / "r.sqlite")
    assert frame.index.is_unique
    for name, (status, words) in CHEATS.items():
        assert frame.status[name] == status, (name, frame.reason[name])
        assert words in (frame.reason[name] or ""), name
    assert frame.steady_s["SolvesWhenRead"] >= 0.1, "reading p is a part of the call"
    assert (frame.status[HONEST] == "ok").all()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two honest solvers beside those that attack, in one group."""
    attackers = ("RaisesLater", "RightOnce", "Remembers", "Writes", "Meddler", "Forger")
    before = os.getcwd()
    frame = measured(suite(*attackers), tmp_path_factory.mktemp("attacked") / "r.sqlite")
    assert os.getcwd() == before
    return frame


@pytest.mark.slow
def test_every_attacker_and_every_honest_solver_has_one_row(attacked: pd.DataFrame) -> None:
    assert attacked.index.is_unique
    assert len(attacked) == 8


@pytest.mark.slow
def test_honest_rows_are_what_they_are_alone(attacked: pd.DataFrame, tmp_path: Path) -> None:
    alone = measured(suite(), tmp_path / "r.sqlite")
    same = ["status", "gap", "value", "residual", "steps", "grad_error", "grad_cosine", "grad_reference"]
    assert set(alone.status) == {"ok"}
    for name in HONEST:
        assert attacked.loc[name, same].to_dict() == alone.loc[name, same].to_dict()
        assert attacked.steady_s[name] > 0


@pytest.mark.slow
def test_single_precision_switched_on_in_jax_stays_at_home(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    beside = measured(suite("Meddler", backends=["jax"]), tmp_path / "beside.sqlite")
    alone = measured(suite(backends=["jax"]), tmp_path / "alone.sqlite")
    same = ["status", "gap", "value", "residual", "steps", "grad_error"]
    for name in HONEST:
        assert alone.status[name] == "ok"
        assert beside.loc[name, same].to_dict() == alone.loc[name, same].to_dict()


@pytest.mark.slow
def test_a_solver_that_raises_while_it_is_timed_is_one_row(attacked: pd.DataFrame) -> None:
    assert attacked.status["RaisesLater"] == "crashed"
    assert "while it was timed: ZeroDivisionError: one over nothing, later" in attacked.reason["RaisesLater"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RightOnce", "Remembers"])
def test_an_answer_that_is_right_only_once_is_not_ok(attacked: pd.DataFrame, name: str) -> None:
    assert attacked.status[name] == "not converged"
    assert attacked.reason[name].startswith(("in its fastest timed call: ", "in its last timed call: "))


@pytest.mark.slow
def test_writing_into_the_inputs_is_told(attacked: pd.DataFrame) -> None:
    assert attacked.status["Writes"] == "crashed"
    assert "writes into the arrays" in attacked.reason["Writes"]


@pytest.mark.slow
def test_a_forged_row_is_judged_like_every_other(attacked: pd.DataFrame) -> None:
    assert attacked.status["Forger"] == "not converged"
    assert attacked.gap_rel["Forger"] > 1e-3


@pytest.mark.slow
def test_a_patched_judge_does_not_reach_the_verdict(attacked: pd.DataFrame) -> None:
    assert np.isfinite(attacked.gap["DualNewton"])
    assert attacked.status["Meddler"] in ("ok", "crashed", "not converged")


@pytest.mark.slow
def test_leaks_clocks_and_forks_stay_at_home(tmp_path: Path) -> None:
    asked = suite(
        "LeaksLater",
        "StopsTheClock",
        "ReturnsTwice",
        problems=[{"family": "pairwise-gini", "k": 60, "batch": 200}],
    )
    frame = measured(asked, tmp_path / "r.sqlite", memory=3 * 2**30)
    assert frame.index.is_unique
    assert frame.status["LeaksLater"] == "crashed"
    assert "emory" in frame.reason["LeaksLater"]
    assert frame.status["StopsTheClock"] == "crashed"
    assert "its clock says" in frame.reason["StopsTheClock"]
    assert frame.status["ReturnsTwice"] == "ok"
    assert (frame.loc[HONEST].status == "ok").all()
