"""Take gradient steps measured by Omega itself: theta <- theta + a (grad Phi(p) - theta), p = p_Omega(theta).

argmax_p <grad Phi(q), p> - Omega(p) - D_Omega(p, q) / eta has this closed form with a = eta / (1 + eta). Every p is
p_Omega of finite scores, so the infinite gradient of an entropy on the boundary is never used. The step is safe when
-Phi is L-smooth relative to Omega and a <= 1 / (1 + L); L is measured during the steps. a = 1 gives the fixed-point
step.
Reference: Lu, Freund and Nesterov (2018), relative smoothness.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input


class State(NamedTuple):
    """Hold theta [..., k], p = p_Omega(theta), g = grad Phi(p), and L [...], the relative smoothness."""

    p: Array
    theta: Array
    g: Array
    L: Array
    error: Array
    noise: Array


def serves(problem: InnerProblem) -> bool:
    """Return whether Omega is separable, not quadratic, and has an argmax map on C."""
    regularizer = problem.regularizer
    return (
        regularizer.separable and not regularizer.quadratic and regularizer.no_argmax(problem.domain) is None
    )


def init(problem: InnerProblem, v: Input, p0: Array | None) -> State:
    """Start at p0's own scores: grad Phi(p0), one fixed-point step ahead of p0, where p0 has none (a bound)."""
    backend = backend_of(v)
    xp = backend.xp
    start = problem.initial_point(v, p0)
    theta = problem.energy.grad_p(v, start)
    if p0 is not None:
        own = problem.regularizer.grad(start)
        far = 50.0 + xp.max(xp.abs(theta), axis=-1)[..., None]
        own = xp.where(own > far, far, xp.where(own < -far, -far, own))
        theta = backend.stop_gradient(own)
    p = problem.regularizer.argmax(theta, problem.domain)
    g = problem.energy.grad_p(v, p)
    L = 0 * dot(g, p)
    return State(p, theta, g, L, _residual(problem, p, g), _rounding(problem, p, theta, g))


def step(problem: InnerProblem, v: Input, state: State) -> State:
    backend = backend_of(v)
    xp = backend.xp
    a = 1 / (1 + state.L)[..., None]
    theta = state.theta + a * (state.g - state.theta)
    p = problem.regularizer.argmax(theta, problem.domain)
    g = problem.energy.grad_p(v, p)
    d, dtheta, dg = p - state.p, theta - state.theta, g - state.g
    moved, slope = dot(dtheta, d), -dot(dg, d)
    measured = xp.where(moved > 0, slope / xp.where(moved > 0, moved, xp.ones_like(moved)), 0 * moved)
    blur = 8 * backend.eps(p) * dot(xp.abs(g) + xp.abs(theta), xp.abs(d))
    if problem.energy.concave:
        # Twice L is allowed: for a quadratic Phi the step a = 2 / (2 + L) is still a contraction, and the
        # fastest one.
        good = slope <= (1 + 2 * state.L) * moved + blur
    else:
        before, after = problem.value(v, state.p), problem.value(v, p)
        good = after >= before - 8 * backend.eps(p) * (1 + xp.abs(before))
        measured = xp.abs(measured)
    shrunk = xp.maximum(0.8 * state.L, 0.5 * measured)
    L = xp.where(
        good,
        xp.where(blur < 0.1 * xp.abs(slope), shrunk, state.L),
        xp.maximum(2 * state.L + 0.5, 0.5 * measured),
    )
    L = backend.stop_gradient(L)
    keep = good[..., None]
    return State(
        xp.where(keep, p, state.p),
        xp.where(keep, theta, state.theta),
        xp.where(keep, g, state.g),
        L,
        xp.where(good, _residual(problem, p, g), state.error),
        _rounding(problem, p, theta, g),
    )


def _residual(problem: InnerProblem, p: Array, g: Array) -> Array:
    """Return |p - p_Omega(g)|, [...]; the last change of p would not do, since large scores hardly move p."""
    xp = backend_of(p).xp
    return xp.max(xp.abs(problem.regularizer.argmax(g, problem.domain) - p), axis=-1)


def _rounding(problem: InnerProblem, p: Array, theta: Array, g: Array) -> Array:
    """Return the change of p that rounding of the scores can cause, [...]."""
    xp = backend_of(p).xp
    curved = problem.regularizer.strong_convexity(problem.domain) or 1.0
    size = xp.max(xp.abs(g), axis=-1) + xp.max(xp.abs(theta), axis=-1)
    return 2 * backend_of(p).eps(p) * (1 + size / curved)
