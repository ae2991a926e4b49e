"""The reference of gradients: right on a closed form, not blind to errors, and honest where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from bench.measure.certification import argmax_columns, gradient_columns
from bench.measure.programs import Bench, argmax_gradient, set_up, value_and_gradient
from bench.measure.reference import Reference, _slopes, reference
from bench.plan.registry import make_problem
from gfy.backend import tree_map

pytest.importorskip("torch", reason="the reference is solved with torch")


def bench_of(family: str, **params: Any) -> Bench:
    return set_up(make_problem(family, params).instance, "torch")


def known(bench: Bench) -> Reference:
    found = reference(bench)
    assert isinstance(found, Reference), found
    return found


def test_slopes_are_those_of_a_closed_form() -> None:
    """Sparsemax: the gradient of the loss is p* - y, by a projection that is written out here."""
    bench = bench_of("linear-gini-simplex", k=6, batch=4, active=0.5)
    scores, y = bench.instance.inputs[0][0], bench.instance.targets
    found = known(bench)
    p = np.array([project_on_simplex(row) for row in scores])
    error, cosine = found.loss.compare(found.along((p - y,)))
    assert error is not None
    assert error <= max(1e-8, found.loss.uncertainty)
    assert cosine == pytest.approx(1.0)
    assert found.loss.uncertainty <= 1e-6


def project_on_simplex(x: np.ndarray) -> np.ndarray:
    descending = np.sort(x)[::-1]
    sums = np.cumsum(descending) - 1.0
    last = np.nonzero(descending - sums / np.arange(1, len(x) + 1) > 0)[0][-1]
    return np.maximum(x - sums[last] / (last + 1), 0.0)


@pytest.mark.parametrize("family", ["pairwise-gini", "quadratic-shannon-simplex", "smooth-spen-gini"])
def test_a_wrong_gradient_is_seen(family: str) -> None:
    bench = bench_of(family, k=5, batch=3)
    found = known(bench)
    mode = gfy.Implicit()
    args = (bench.inputs[0], bench.targets, bench.start, 1e-12)
    gradient = value_and_gradient(bench, solvers.Auto(), mode, 5000)(*args)[1]
    right = gradient_columns(gradient, found)
    assert right["grad_error"] <= 1e-6
    assert right["grad_uncertainty"] <= 1e-6
    off = tree_map(lambda x: 1.01 * x, gradient)
    assert gradient_columns(off, found)["grad_error"] == pytest.approx(0.01, rel=1e-3)
    one_leaf = type(gradient)(*(x * (2.0 if n == len(gradient) - 2 else 1.0) for n, x in enumerate(gradient)))
    assert gradient_columns(one_leaf, found)["grad_error"] > 1e-4


def test_a_wrong_derivative_of_the_maximiser_is_seen_where_the_loss_is_blind() -> None:
    bench = bench_of("pairwise-gini", k=5, batch=3)
    found = known(bench)

    class Thrice(gfy.Implicit):
        """dp*/dv three times too large, which the loss multiplies by zero."""

        def attach(self, problem: Any, v: Any, p: Any, stop: Any = gfy.Stop(), solver: Any = None) -> Any:
            q = super().attach(problem, v, p, stop, solver)
            return p + 3.0 * (q - q.detach())

    args = (bench.inputs[0], bench.targets, bench.start, 1e-12)
    for mode, least, most in ((gfy.Implicit(), 0.0, 1e-5), (Thrice(), 1.9, 2.1)):
        loss = value_and_gradient(bench, solvers.DualNewton(), mode, 500)(*args)[1]
        assert gradient_columns(loss, found)["grad_error"] <= 1e-6
        derivative = argmax_gradient(bench, solvers.DualNewton(), mode, 500)(*args)[1]
        assert least <= argmax_columns(derivative, found)["argmax_grad_error"] <= most


def test_small_problems_are_solved_by_another_library() -> None:
    pytest.importorskip("cvxpy", reason="cvxpy is not installed")
    found = known(bench_of("quadratic-gini-box", k=4, batch=2))
    assert found.method == "central differences of solutions by CvxpyReference"


def test_kinks_are_checked_too() -> None:
    found = known(bench_of("concave-spen-gini", k=6, batch=4, hidden=4))
    assert found.gap <= 1e-11
    assert found.loss.missing is None


def test_what_has_no_reference_is_not_checked_and_says_why() -> None:
    bench = bench_of("spen-gini", k=5, batch=3)
    said = reference(bench)
    assert isinstance(said, str)
    assert said.startswith("not checked: the energy is not concave")
    columns = gradient_columns(bench.inputs[0], said)
    assert columns == {"grad_reference": said}, "no error is claimed"
    slow = reference(bench_of("pairwise-gini", k=5, batch=3), limit_s=0.0)
    assert isinstance(slow, str)
    assert "longer than 0 s" in slow


def test_a_reference_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> None:
        raise ZeroDivisionError("one over nothing")

    monkeypatch.setattr("gfy.certify", breaks)
    said = reference(bench_of("pairwise-gini", k=5, batch=3))
    assert said == "not checked: the reference failed (ZeroDivisionError: one over nothing)"


def test_a_gradient_with_nan_is_not_finite() -> None:
    bench = bench_of("pairwise-gini", k=5, batch=3)
    broken = tree_map(lambda x: x * float("nan"), bench.inputs[0])
    assert gradient_columns(broken, known(bench))["status"] == "not finite"


def test_a_derivative_that_is_certainly_zero_is_known() -> None:
    found = [(1e-11, 8e-9), (-3e-12, 8e-9)]
    zero = _slopes(found, still=1e-6)
    assert zero.missing is None
    assert zero.compare(np.array([0.0, 1e-9]))[0] == 1e-9
    assert _slopes(found).missing is not None
    assert _slopes([(1.0, 1e-5), (0.0, 1e-9)], still=1e-6).values.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("family", ["quadratic-gini-box", "quadratic-gini-simplex"])
def test_badly_conditioned_matrices_stay_concave_in_every_direction(family: str) -> None:
    bench = bench_of(family, k=20, batch=2, condition=1e8)
    found = known(bench)
    assert found.argmax.missing is None
    assert found.argmax.uncertainty <= 1e-4
    args = (bench.inputs[0], bench.targets, bench.start, 1e-12)
    derivative = argmax_gradient(bench, solvers.ActiveSet(), gfy.Implicit(), 500)(*args)[1]
    columns = argmax_columns(derivative, found)
    assert columns["argmax_grad_error"] <= 1e-4
    assert columns["argmax_grad_uncertainty"] == found.argmax.uncertainty
