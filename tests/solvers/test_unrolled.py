"""Derivatives of unrolled steps: long after convergence, and through searches of scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy
import solvers


@pytest.mark.parametrize("solver", [solvers.MirrorAscent(), solvers.ProjectedGradient("backtracking")])
def test_steps_after_convergence_do_not_tear_the_derivative_apart(solver: Any) -> None:
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), gfy.Box(0.0, 1.0))
    u = torch.tensor([0.3, 1.2, -4.0, 9.0], dtype=torch.float64, requires_grad=True)
    bend = torch.tensor([0.5, 3.0, 1.0, 1.0], dtype=torch.float64)
    v = gfy.LinearQuadratic.Input(u, -torch.diag(bend))
    p = gfy.argmax(problem, v, solver=solver, gradient=gfy.Unrolled(steps=400))
    (slope,) = torch.autograd.grad(p.sum(), u)
    assert np.allclose(p.detach(), [0.2, 0.3, 0.0, 1.0], atol=1e-6)
    assert np.allclose(slope, [1 / 1.5, 1 / 4.0, 0.0, 0.0], atol=1e-6)


def test_searches_of_scalars_carry_their_derivative_in_jax() -> None:
    jax = pytest.importorskip("jax")
    omega = gfy.Tsallis(1.75, 0.375)
    problem = gfy.InnerProblem(
        gfy.LinearQuadratic(), omega, gfy.Box(np.array([0.1, 0.1]), np.array([0.8, 0.9]))
    )
    p, bend = np.array([0.4, 0.7]), np.array([0.5, 2.0])
    tilt = 0.375 / 0.75 * p**0.75  # the slope of Omega up to a constant, which the scores below make up for
    curve = 0.375 * p**-0.25
    constant = float(np.asarray(omega.grad(np.ones(1))[0])) - 0.375 / 0.75
    U = -jax.numpy.diag(jax.numpy.asarray(bend))

    def total(u: Any) -> Any:
        v = gfy.LinearQuadratic.Input(u, U)
        return gfy.argmax(problem, v, solver=solvers.CoordinateAscent(), gradient=gfy.Unrolled(steps=2)).sum()

    value, slope = jax.value_and_grad(total)(jax.numpy.asarray(tilt + constant + bend * p))
    assert abs(float(value) - p.sum()) <= 1e-6
    assert np.allclose(slope, 1 / (curve + bend), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["Auto", "ClosedForm", "ProjectedGradient", "CvxpyReference"])
def test_half_precision_is_refused_by_solvers_and_served_by_argmax(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = gfy.Bilinear.Input(torch.tensor([0.25, -2.0, 3.0], dtype=getattr(torch, dtype)))
    with pytest.raises(
        gfy.UnsupportedError, match=rf"{name} computes in float32 or float64, and v holds {dtype}"
    ):
        getattr(solvers, name)().solve(problem, v)
    p = gfy.argmax(problem, v, solver=name)
    assert p.dtype == v.v.dtype
    assert np.allclose(p.float(), [0.625, 0.0, 1.0], atol=1e-2)
