"""A dp*/dv that is three times too large is caught by every gate, although the gradient of the loss does not change."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import gfy
from bench.gates.argmax import argmax_call
from bench.gates.bars.differentiate import gradient_call
from bench.gates.problems import make
from bench.measure.certification import argmax_columns, gradient_columns
from bench.measure.programs import set_up, to_numpy
from bench.measure.reference import Reference, reference
from bench.plan.matrix import plan
from bench.plan.registry import make_solver
from bench.plan.suite import from_dict
from bench.run.executor import Local
from bench.store import Store, environment
from gfy.backend import backend_of, leaves

TOYS = str(Path(__file__).parents[1] / "toy_solvers.py")


def triple(monkeypatch: pytest.MonkeyPatch) -> None:
    attach = gfy.Implicit.attach

    def wrong(self: Any, problem: Any, v: Any, *args: Any) -> Any:
        found = attach(self, problem, v, *args)
        return 3.0 * found - 2.0 * backend_of(v).stop_gradient(found)

    monkeypatch.setattr(gfy.Implicit, "attach", wrong)


def errors(backend: str) -> tuple[float, float]:
    """The errors of the gradient of the loss and of the derivative of the maximiser, by implicit differentiation."""
    bench = set_up(make("pairwise-gini", 8, 3).instance, backend)
    known = reference(bench)
    assert isinstance(known, Reference), known
    how = (bench, make_solver("ProjectedGradient"), gfy.Implicit(), 1e-12, 5_000)
    loss, argmax = ([to_numpy(x) for x in leaves(f(*how)()[1])] for f in (gradient_call, argmax_call))
    return gradient_columns(loss, known)["grad_error"], argmax_columns(argmax, known)["argmax_grad_error"]


def test_only_the_third_question_sees_it(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the reference is solved with torch")
    loss, argmax = errors(backend)
    assert loss < 1e-6
    assert argmax < 1e-5
    triple(monkeypatch)
    loss, argmax = errors(backend)
    assert loss < 1e-6
    assert argmax == pytest.approx(2.0, abs=1e-3)


def test_asv_tracks_it(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the reference is solved with torch")
    suites = importlib.import_module("bench.gates.asv_suites.bench_argmax")
    cell = ("ProjectedGradient", "pairwise-gini", 8, 3, f"{backend}:cpu", "float64")

    def tracked() -> float:
        suite = suites.ImplicitPairwiseGini()
        suite.setup(*cell)
        return float(suite.track_argmax_gradient_error(*cell))

    assert tracked() < 1e-5
    triple(monkeypatch)
    assert tracked() == pytest.approx(2.0, abs=1e-3)


def test_the_comparison_shows_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    asked = {
        "solvers": [f"{TOYS}:Ascent", f"{TOYS}:Tripled"], "gradients": ["implicit"], "backends": ["torch"],
        "tolerances": [1e-9], "repeat": 3, "timeout": 60.0, "budget": 0.1, "max_steps": 3000,
        "problems": [{"family": "pairwise-gini", "k": 6, "batch": 3}],
    }  # fmt: skip
    with Store(tmp_path / "r.sqlite") as store:
        Local(store, environment.row_facts())(plan(from_dict(asked)).groups, 0)
        frame = store.frame().set_index("solver")
    assert frame.status.to_dict() == {"Ascent": "ok", "Tripled": "ok"}
    assert frame.argmax_grad_error["Ascent"] < 1e-4
    assert frame.argmax_grad_error["Tripled"] == pytest.approx(2.0, abs=1e-2)
    assert (frame.grad_error < 1e-6).all()
    assert (frame.argmax_grad_s > 0).all()
