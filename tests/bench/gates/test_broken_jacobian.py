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


def scale(factor: float) -> Any:
    def wrong(found: Any, fixed: Any) -> Any:
        return factor * found + (1.0 - factor) * fixed

    return wrong


BREAKS = {"three times": scale(3.0), "zero": scale(0.0), "another sign": scale(-1.0)}
ERRORS = {"three times": 2.0, "zero": 1.0, "another sign": 2.0}


def broken(monkeypatch: pytest.MonkeyPatch, kind: str = "three times", only: str = "") -> None:
    """Make dp*/dv wrong: everywhere, or in one dtype or framework `only`, which the text of the dtype names."""
    attach = gfy.Implicit.attach

    def wrong(self: Any, problem: Any, v: Any, p: Any, *args: Any) -> Any:
        stop = backend_of(p).stop_gradient
        if only not in f"{backend_of(p).name} {p.dtype}":
            return attach(self, problem, v, p, *args)
        if kind == "a swapped leaf":
            u, A = v
            turned = (A[..., 0] - stop(A[..., 0]) + stop(u), (u - stop(u))[..., None] + stop(A))
            return attach(self, problem, type(v)(*turned), p, *args)
        found = attach(self, problem, v, p, *args)
        return BREAKS[kind](found, stop(found))

    monkeypatch.setattr(gfy.Implicit, "attach", wrong)


def errors(backend: str, dtype: str = "float64") -> tuple[float, float]:
    """The errors of the gradient of the loss and of the derivative of the maximiser, by implicit differentiation."""
    bench = set_up(make("pairwise-gini", 8, 3).instance, backend, dtype=dtype)
    known = reference(bench)
    assert isinstance(known, Reference), known
    tol = 1e-12 if dtype == "float64" else 1e-5
    how = (bench, make_solver("ProjectedGradient"), gfy.Implicit(), tol, 5_000)
    loss, argmax = ([to_numpy(x) for x in leaves(f(*how)()[1])] for f in (gradient_call, argmax_call))
    return gradient_columns(loss, known)["grad_error"], argmax_columns(argmax, known)["argmax_grad_error"]


@pytest.mark.parametrize("kind", [*BREAKS, "a swapped leaf"])
def test_only_the_third_question_sees_it(backend: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the reference is solved with torch")
    loss, argmax = errors(backend)
    assert loss < 1e-6
    assert argmax < 1e-5
    broken(monkeypatch, kind)
    loss, argmax = errors(backend)
    assert loss < 1e-6
    assert argmax > 0.5
    if kind in ERRORS:
        assert argmax == pytest.approx(ERRORS[kind], abs=1e-3)


def test_a_derivative_that_is_wrong_in_single_precision_alone_is_seen_there(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the reference is solved with torch")
    assert errors(backend, "float32")[1] < 1e-2
    broken(monkeypatch, only="float32")
    assert errors(backend)[1] < 1e-5
    assert errors(backend, "float32")[1] == pytest.approx(2.0, abs=1e-2)


def test_every_gate_asks_for_the_derivative_in_both_frameworks_and_precisions() -> None:
    """A derivative that is wrong in one framework or in single precision alone is measured by each gate."""
    from bench.gates.asv_suites import base
    from bench.gates.regressions.cells import CELLS
    from bench.plan.suite import read

    everywhere = {(b, d) for b in ("jax", "torch") for d in ("float64", "float32")}
    assert {(cell.backend, cell.dtype) for cell in CELLS} == everywhere
    for name in ("default", "full"):
        suite = read(name)
        asked = {
            (b, d)
            for entry in suite.problems
            for b in entry.axes.get("backends", suite.backends)
            for d in entry.axes.get("dtypes", suite.dtypes)
            if "implicit" in entry.axes.get("gradients", suite.gradients)
        }
        assert asked == everywhere, name
    suites = importlib.import_module("bench.gates.asv_suites.bench_argmax")
    params = dict(zip(base.NAMES, suites.ImplicitPairwiseGini.params, strict=True))
    assert params["dtype"] == ["float64", "float32"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_asv_tracks_it(backend: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the reference is solved with torch")
    suites = importlib.import_module("bench.gates.asv_suites.bench_argmax")
    cell = ("ProjectedGradient", "pairwise-gini", 8, 3, f"{backend}:cpu", dtype)

    def tracked() -> float:
        suite = suites.ImplicitPairwiseGini()
        suite.setup(*cell)
        return float(suite.track_argmax_gradient_error(*cell))

    assert tracked() < (1e-5 if dtype == "float64" else 1e-2)
    broken(monkeypatch)
    assert tracked() == pytest.approx(2.0, abs=1e-2)


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
