"""Derivatives of metrics where p* = v, the cusp of -|p - v|: there Omega^Phi(v) = -Omega(v) and dp*/dv = I."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy
import solvers

GAMMA = 0.375
# the slope of -|p - v| on the way to the second is 0.45 in each coordinate, more than Omega's: p* is a corner
INSIDE, OUTSIDE = np.linspace(0.2, 0.6, 5), np.full(5, 2.0)


def gradients(backend: str, fn: Any, v: np.ndarray) -> np.ndarray:
    if backend == "jax":
        jax = pytest.importorskip("jax")
        return np.asarray(jax.grad(lambda w: fn(w).sum())(jax.numpy.asarray(v)))
    torch = pytest.importorskip("torch")
    leaf = torch.as_tensor(v).requires_grad_()
    return torch.autograd.grad(fn(leaf).sum(), leaf)[0].numpy()


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("gradient", [gfy.Envelope(), gfy.Implicit(), gfy.Implicit("cg")])
def test_the_maximum_has_the_slope_of_omega(backend: str, gradient: Any) -> None:
    problem = gfy.InnerProblem(gfy.Metric(), gfy.Gini(GAMMA), gfy.Box(0.0, 1.0))
    v = np.stack([INSIDE, INSIDE / 2])
    found = gradients(backend, lambda w: gfy.conjugate(problem, w, "ClosedForm", gradient), v)
    assert np.allclose(found, -GAMMA * (v - 0.5), atol=1e-6)


@pytest.mark.parametrize(("backend", "solver"), [("jax", "ClosedForm"), ("torch", "Auto")])
def test_the_argmax_moves_with_v_inside_and_not_outside(backend: str, solver: str) -> None:
    problem = gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(GAMMA), gfy.Box(0.0, 1.0))
    weights = np.arange(1.0, 6.0)

    def weighed(w: Any) -> Any:
        p = gfy.argmax(problem, w, solver, "implicit")
        return (p * (p.new_tensor(weights) if backend == "torch" else weights)).sum(-1)

    v = INSIDE[None] if solver == "ClosedForm" else np.stack([INSIDE, OUTSIDE])
    found = gradients(backend, weighed, v)
    assert np.allclose(found, [weights, 0 * weights][: len(v)], atol=1e-6)


def test_a_point_near_the_cusp_counts_as_the_cusp() -> None:
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Metric(), gfy.Shannon(GAMMA), gfy.Box(0.0, 1.0))
    v = torch.tensor(INSIDE).requires_grad_()
    p = gfy.Implicit().attach(problem, gfy.Metric.Input(v), v.detach() + 1e-12)
    (slope,) = torch.autograd.grad(p.sum(), v)
    assert np.allclose(slope, 1.0, atol=1e-6)


def test_unrolled_steps_are_refused_at_kinks() -> None:
    problem = gfy.InnerProblem(gfy.Metric(), gfy.Gini(GAMMA), gfy.Box(0.0, 1.0))
    reason = gfy.Unrolled().unsupported(problem, solvers.ProjectedGradient())
    assert reason is not None
    assert "kinks" in reason
