"""Run semismooth Newton on D(t) = 1/2 |t|^2 + Omega*(u - A t), t in R^m, for any set where p_Omega is known.

D is 1-strongly convex. Its gradient is t - A^T p(t), and its generalised Hessian is I + A^T J A with J =
dp_Omega/dtheta. A line search on D makes the method global. The value of D at t is an upper bound of the maximum, so
D(t) minus the value at p is a gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.numerics.arithmetic import dot, matvec, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from solvers.methods.newton_system import positive_solve, slope_at, small_system

HALVINGS = 40


class State(NamedTuple):
    """Hold p [..., k] = p_Omega(u - A t), t and F = t - A^T p [..., m], D [...]."""

    p: Array
    t: Array
    F: Array
    D: Array
    error: Array
    noise: Array


def init(problem: InnerProblem, v: Input, p0: Array | None) -> State:
    u, A = parts(problem, v)
    # Without p0 the start is t = 0. Interactions move A^T p towards 0, so this is better than the middle of
    # C.
    start = problem.initial_point(v, p0)
    t = matvec(transpose(A), start) * (0.0 if p0 is None else 1.0)
    p, F, D = _at(problem, u, A, t)
    return State(p, t, F, D, *_error(t, F))


def step(problem: InnerProblem, v: Input, state: State) -> State:
    backend = backend_of(v)
    xp = backend.xp
    u, A = parts(problem, v)
    system = _hessian(problem, u, A, state)
    direction = -positive_solve(system, state.F)
    descent = dot(state.F, direction)
    eps = backend.eps(state.p)

    def attempt(scale: Array) -> tuple[Array, ...]:
        t = state.t + scale[..., None] * direction
        p, F, D = _at(problem, u, A, t)
        # D is convex. Where its slope along the step is still negative, D has decreased, even if rounding
        # hides it.
        bad = (state.D + 1e-4 * scale * descent < D) & (dot(F, direction) > 0)
        bad = bad & (state.D + 8 * eps * (1 + xp.abs(state.D)) < D)
        return scale, t, p, F, D, bad

    def shorten(trial: tuple[Array, ...]) -> tuple[Array, ...]:
        return (*attempt(xp.where(trial[5], trial[0] / 2, trial[0])), trial[6] + 1)

    one = xp.ones_like(state.D)
    trial = (*attempt(one), 0 * one.sum())
    _, t, p, F, D, _, _ = backend.while_loop(
        lambda trial: xp.any(trial[5]) & (trial[6] < HALVINGS), shorten, trial
    )
    return State(p, t, F, D, *_error(t, F))


def _hessian(problem: InnerProblem, u: Array, A: Array, state: State) -> Array:
    """Return I + A^T J A, [..., m, m]; on boxes and simplices J is diagonal except for one multiplier."""
    if not problem.domain.banded:
        theta = u - matvec(A, state.t)
        columns = transpose(A) + 0 * theta[..., None, :]
        moved = problem.regularizer.jacobian_product(theta[..., None, :], problem.domain, columns)
        return moved @ A + backend_of(A).asarray(np.eye(A.shape[-1]), like=state.p)
    return small_system(A, slope_at(problem, state.p), problem.domain.total is not None)


def parts(problem: InnerProblem, v: Input) -> tuple[Array, Array]:
    form = problem.energy.quadratic(v)
    assert form is not None
    assert isinstance(form.curvature, LowRank)
    return form.u, form.curvature.A


def _at(problem: InnerProblem, u: Array, A: Array, t: Array) -> tuple[Array, Array, Array]:
    theta = u - matvec(A, t)
    p = problem.regularizer.argmax(theta, problem.domain)
    D = 0.5 * dot(t, t) + dot(theta, p) - problem.regularizer.value(p)
    return p, t - matvec(transpose(A), p), D


def _error(t: Array, F: Array) -> tuple[Array, Array]:
    """Return |F|, which bounds |t - t*|, and the part of it that rounding causes."""
    backend = backend_of(t)
    size = backend.xp.max(backend.xp.abs(t), axis=-1) + backend.xp.max(backend.xp.abs(F - t), axis=-1)
    return backend.xp.max(backend.xp.abs(F), axis=-1), 4 * backend.eps(t) * size
