"""Bad input gets one sentence naming the argument, and an error of the project's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
import solvers

BOX = gfy.Box(0.0, 1.0)
PROBLEM = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
LOSS = gfy.FenchelYoungLoss(PROBLEM)
Make = Callable[..., Any]


def v_of(make: Make, batch: int = 3, k: int = 4) -> gfy.Pairwise.Input:
    rng = np.random.default_rng(0)
    return gfy.Pairwise.Input(make(rng.normal(size=(batch, k))), make(rng.normal(size=(batch, k, 2))))


def test_targets(asarray: Make) -> None:
    v = v_of(asarray)
    outside = np.zeros((3, 4))
    outside[1, 2] = 1.25
    with pytest.raises(gfy.GfyValueError, match="y lies outside Box: row 1 by 0.25"):
        LOSS(v, asarray(outside))
    with pytest.raises(gfy.GfyValueError, match="axis of 4 coordinates like p, got shape \\(3, 5\\)"):
        LOSS(v, asarray(np.zeros((3, 5))))
    with pytest.raises(gfy.GfyValueError, match="batch axes \\(2,\\) but v has \\(3,\\)"):
        LOSS(v, asarray(np.zeros((2, 4))))
    with pytest.raises(gfy.GfyValueError, match="NaN"):
        LOSS(v, asarray(np.full((3, 4), np.nan)))
    multiclass = gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex()))
    with pytest.raises(gfy.GfyValueError, match="y holds class 7: classes run from 0 to 3"):
        multiclass(v.u, asarray(np.array([0, 7, 1])))


def test_inputs(asarray: Make) -> None:
    v = v_of(asarray)
    bad = np.zeros((3, 4))
    bad[0, 0], bad[2, 1] = np.nan, np.inf
    with pytest.raises(gfy.GfyValueError, match="Pairwise.Input.u holds 2 values that are NaN or infinite"):
        gfy.argmax(PROBLEM, v._replace(u=asarray(bad)))
    with pytest.raises(gfy.GfyValueError, match="p0 must have the shape of p, \\(3, 4\\), got \\(4,\\)"):
        gfy.argmax(PROBLEM, v, p0=asarray(np.zeros(4)))
    with pytest.raises(gfy.GfyTypeError, match="NumPy arrays"):
        gfy.argmax(PROBLEM, v_of(np.asarray))
    with pytest.raises(gfy.GfyValueError, match="but p has 4 coordinates"):
        gfy.argmax(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box([0.0, 0.0], [1.0, 1.0])), v)
    with pytest.raises(gfy.GfyValueError, match="needs at least 9 coordinates"):
        gfy.argmax(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.CappedSimplex(9)), v)


def test_concavity_that_is_claimed_is_checked(asarray: Make) -> None:
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    with pytest.raises(gfy.GfyValueError, match="eigenvalue 1 > 0"):
        gfy.argmax(problem, gfy.LinearQuadratic.Input(asarray(np.zeros((2, 3))), asarray(np.eye(3))))
    with pytest.raises(gfy.GfyValueError, match="must be symmetric"):
        gfy.argmax(
            problem, gfy.LinearQuadratic.Input(asarray(np.zeros((2, 2))), asarray([[-1.0, 1.0], [0.0, -1.0]]))
        )


def test_mixed_frameworks() -> None:
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(gfy.GfyTypeError, match="two frameworks"):
        gfy.argmax(PROBLEM, gfy.Pairwise.Input(torch.zeros(2, 3), jnp.zeros((2, 3, 1))))
    with pytest.raises(gfy.GfyTypeError, match="two frameworks"):
        LOSS(v_of(jnp.asarray), torch.zeros(3, 4))


def test_mixed_devices() -> None:
    torch = pytest.importorskip("torch")
    v = gfy.Pairwise.Input(torch.zeros(2, 3), torch.zeros(2, 3, 1, device="meta"))
    with pytest.raises(gfy.GfyTypeError, match=r"several devices \(cpu, meta\)"):
        gfy.argmax(PROBLEM, v)


def test_wrong_kinds() -> None:
    with pytest.raises(gfy.GfyTypeError, match=r"write Pairwise\(\)"):
        gfy.InnerProblem(gfy.Pairwise, gfy.BinaryGini(), BOX)  # type: ignore[arg-type]
    with pytest.raises(gfy.GfyValueError, match="reduction must be one of none, mean, sum"):
        gfy.FenchelYoungLoss(PROBLEM, reduction="median")
    with pytest.raises(gfy.GfyValueError, match="linear_solve must be one of"):
        gfy.Implicit("magic")
    with pytest.raises(gfy.GfyValueError, match="max_steps"):
        gfy.Stop(max_steps=0)
    with pytest.raises(gfy.GfyTypeError, match="needs dp"):
        gfy.ArgmaxLoss("squared", PROBLEM, gradient=gfy.Envelope())


def test_solver_that_does_not_serve_says_why(asarray: Make) -> None:
    with pytest.raises(
        gfy.UnsupportedError, match="ClosedForm with envelope gradients on Pairwise/BinaryGini/Box"
    ):
        gfy.argmax(PROBLEM, v_of(asarray), solver=solvers.ClosedForm())


def test_checks_of_values_are_off_inside_jit_and_on_when_debugging() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    v, y = v_of(jnp.asarray), jnp.zeros((3, 4))
    bad = v._replace(u=v.u.at[0, 0].set(jnp.nan))
    quiet = jax.jit(lambda w: LOSS(w, y))
    assert not bool(jnp.isfinite(quiet(bad)).all())

    def loud(w: Any) -> Any:
        with gfy.debug():
            return LOSS(w, y)

    assert bool(jnp.isfinite(jax.jit(loud)(v)).all())
    with pytest.raises(Exception, match="NaN or infinite"):  # noqa: PT012 - the callback speaks at the barrier
        jax.block_until_ready(jax.jit(loud)(bad))
        jax.effects_barrier()
