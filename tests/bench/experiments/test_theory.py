"""The studies behind `gfy theory`: small runs whose rows say what they should, and are not measured twice."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gfy
from bench.experiments.theory import calibration, convex_concave, structured
from bench.experiments.theory.rows import study, theory_row
from bench.store import Store
from gfy.errors import GfyValueError

pytest.importorskip("jax", reason="jax is not installed")
pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize(
    "case", calibration.cases()[::3], ids=lambda c: f"{c.name}-{c.problem.energy.name}-{c.k}"
)
def test_no_case_breaks_the_bound_and_adversaries_come_close(case: calibration.Case) -> None:
    found = calibration.examine(case, seed=1, draws=300, backend="torch")
    extra = found["extra"]
    assert extra["violations"] == extra["tight_violations"] == 0
    assert 0 < found["score"] <= 1
    assert found["score"] * extra["factor"] <= extra["tight_factor"] * (1 + 1e-6)
    assert extra["wrong"] > 50
    if case.target == "hamming":
        assert extra["tight_ratio"] > 0.95  # half the diameter is all but attained


def toy() -> convex_concave.Data:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5))
    y = (x @ rng.normal(size=(5, 3)) > 0.3).astype(float)
    return convex_concave.Data(x[:30], y[:30], x[30:], y[30:])


@pytest.mark.usefixtures("in_process")
def test_both_trainings_lower_the_same_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convex_concave, "yeast", lambda *_: toy())
    monkeypatch.setattr(convex_concave, "NETWORKS", ("maxout",))
    monkeypatch.setattr(convex_concave, "RATES", (0.1,))
    monkeypatch.setattr(convex_concave, "ROUNDS", (5,))
    said: list[str] = []
    with Store(tmp_path / "theory.sqlite") as store:
        rows = convex_concave.run(store, said.append, seeds=1, budget=40, pieces=2)
        again = convex_concave.run(store, said.append, seeds=1, budget=40, pieces=2)
    assert [r["key"] for r in rows] == [r["key"] for r in again]
    assert len(said) == len(rows) == 2  # nothing is measured twice
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        curves = [json.loads(r["extra"])["curve"]["objective"] for r in (one, other)]
        assert (one["solver"], other["solver"]) == ("ConvexConcave", "Adam")
        assert np.isclose(curves[0][0], curves[1][0])  # the same first draw
        assert np.all(np.diff(curves[0]) <= 1e-10)
        assert curves[1][-1] < curves[1][0]
        assert one["score"] > 50


def test_oracles_agree_with_listing() -> None:
    found = {}
    for name, problem, params, measure in structured._polytopes(quick=True, backend="torch"):
        if params.get("length", params.get("n")) == 3:
            found[name] = measure(0)
            assert problem.domain.k > 0
    assert set(found) == {"chain-sparsemap", "chain-gibbs", "matching-sparsemap"}
    for row in found.values():
        assert row["status"] == "ok"
        assert row["gap"] < 1e-7
        assert row["extra"]["apart"] < 1e-4


def test_the_markov_data_move_to_the_next_state() -> None:
    chain = gfy.Chain(5, 4)
    x, labels = structured.markov(chain, np.random.default_rng(0), 400)
    assert x.shape == (400, 5, 4)
    follows = (labels[:, 1:] == (labels[:, :-1] + 1) % 4).mean()
    assert 0.88 < follows < 0.97


@pytest.mark.usefixtures("in_process")
def test_a_row_names_its_problem(tmp_path: Path) -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    row = theory_row("calibration", "x", problem, {"a": 1}, k=3, score_name="ratio")

    def once(calls: list[int] = []) -> dict[str, Any]:  # noqa: B006
        calls.append(1)
        return {"score": float(len(calls)), "extra": {}}

    with Store(tmp_path / "s.sqlite") as store:
        (first,) = study(store, [(row, once)], lambda _: None)
        (second,) = study(store, [(row, once)], lambda _: None)
    assert first["score"] == second["score"] == 1.0
    assert (first["energy"], first["regularizer"], first["domain"]) == ("Pairwise", "BinaryGini", "Box")


@pytest.mark.usefixtures("in_process")
def test_the_command_reports_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.commands.theory import app

    monkeypatch.setattr(calibration, "cases", lambda: CASES[:1])
    done = CliRunner().invoke(app, ["calibration", "--draws", "50", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "1 cases, 0 violations" in done.output
    assert (tmp_path / "theory.sqlite").is_file()
    monkeypatch.setattr(gfy.CalibrationBound, "factor", property(lambda self: 1e-6))
    broken = CliRunner().invoke(app, ["calibration", "--draws", "51", "--out", str(tmp_path)])
    assert broken.exit_code == 1
    assert "0 violations" not in broken.output


def test_a_case_in_a_worker_is_stored_and_a_broken_one_is_a_sentence(tmp_path: Path) -> None:
    case = CASES[0]
    row = theory_row("calibration", "x", case.problem, {"a": 1}, k=case.k, score_name="ratio")
    other = theory_row("calibration", "y", case.problem, {"a": 1}, k=case.k, score_name="ratio")
    with Store(tmp_path / "s.sqlite") as store:
        (found,) = study(store, [(row, partial(calibration.examine, case, 0, 20, "torch"))], lambda _: None)
        assert found["steady_s"] > 0
        with pytest.raises(GfyValueError, match="1 of 1 cases could not be measured"):
            study(store, [(other, partial(calibration.examine, None, 0, 20, "torch"))], lambda _: None)


CASES = calibration.cases()
