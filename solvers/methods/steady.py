"""Run accelerated gradient ascent with a constant momentum, which is checked once per block of steps.

A step is one gradient, one projection and a few sums: new = project(q + grad(q) / L), q = new + beta (new - p). At
the end of a block the error is measured, and L is compared with the curvature that the last two gradients show. An
example whose momentum points downhill starts again from its p. In eager frameworks every operation takes a fixed
time, so that these few operations are as fast as a loop written by hand. The method needs Phi concave and smooth,
Omega quadratic, and a bounded set.
References: Nesterov (2004), Section 2.2; O'Donoghue and Candes (2015).
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from solvers.methods.project import project

BLOCK = 8  # steps between two checks
_POWER_STEPS = 2  # Gradients for the first estimate of L. The checks increase an L that is too small.
_ROOM = 1.2  # a factor on L, because it is estimated from below


class State(NamedTuple):
    """Hold p and q [..., k]; L [...], the error at the last check and the part of it that rounding causes."""

    p: Array
    q: Array
    L: Array
    error: Array
    noise: Array


def unsupported(problem: InnerProblem) -> str | None:
    """Return the reason why these steps do not serve a problem, in a sentence, or None where they do."""
    energy = problem.energy
    if not (energy.concave and energy.smooth and problem.regularizer.quadratic):
        return 'the step rule "steady" needs a concave, smooth energy and a quadratic regularizer'
    if not problem.domain.compact or problem.strong_concavity <= 0:
        return (
            f'the step rule "steady" needs a bounded set and a strongly concave problem, not {problem.name}'
        )
    return None


def init(problem: InnerProblem, v: Input, p0: Array | None) -> State:
    backend = backend_of(v)
    xp = backend.xp
    p = problem.initial_point(v, p0)
    g = problem.grad(v, p)
    L = backend.stop_gradient(_first(problem, v, p, g))
    # A NaN stays, because there is nothing to solve.
    endless = xp.where(xp.isfinite(L), xp.full_like(L, 1e30), L)
    return State(p, p, L, endless, 0 * L)


def step(problem: InnerProblem, v: Input, state: State) -> State:
    """Take BLOCK steps and check where they led."""
    backend = backend_of(v)
    xp = backend.xp
    mu = problem.strong_concavity
    L = state.L[..., None]
    root = xp.sqrt(mu / L)
    beta, size = (1 - root) / (1 + root), 1 / L

    def body(now: tuple[Array, ...]) -> tuple[Array, ...]:
        p, q, _, _, _, at, g = now
        fresh = problem.grad(v, q)
        new = project(problem.domain, q + size * fresh)
        return new, new + beta * (new - p), p, at, g, q, fresh

    same = (state.p, state.q, state.p, state.q, 0 * state.p, state.q, 0 * state.p)
    p, q, before, at_before, g_before, at, g = backend.scan(body, same, BLOCK)
    d, dq, dg = p - at, at - at_before, g - g_before
    eps = backend.eps(p)
    slope, bend = -dot(dg, dq), dot(dg, dg)
    # |dg|^2 <= L <-dg, dq> for a concave energy. A change of g that is only rounding is not used.
    seen = (slope > 0) & (bend > (1e4 * eps) ** 2 * dot(g, g))
    most = xp.where(seen, bend / xp.where(seen, slope, xp.ones_like(slope)), 0 * slope)
    steep = most > 1.01 * state.L
    back = (steep | (dot(d, p - before) < 0))[..., None]
    scale = xp.maximum(state.L / mu, xp.ones_like(state.L))
    error = xp.max(xp.abs(d), axis=-1) * scale
    length = xp.max(xp.abs(p), axis=-1) + xp.max(xp.abs(g), axis=-1) / state.L
    return State(
        p,
        xp.where(back, p, q),
        backend.stop_gradient(xp.where(steep, _ROOM * most, state.L)),
        error,
        2 * eps * length * xp.minimum(scale, 1e6 * xp.ones_like(scale)),
    )


def _first(problem: InnerProblem, v: Input, p: Array, g: Array) -> Array:
    """Return the largest curvature at p, [...], by the power method on differences of gradients."""
    backend = backend_of(v)
    xp = backend.xp
    mu = problem.strong_concavity
    short = 1e-2

    def unit(x: Array) -> Array:
        square = dot(x, x)
        return x / xp.sqrt(xp.where(square > 0, square, xp.ones_like(square)))[..., None]

    def body(now: tuple[Array, Array]) -> tuple[Array, Array]:
        x = unit(now[0])
        bent = (g - problem.grad(v, p + short * x)) / short
        return bent, dot(x, bent)

    _, L = backend.scan(body, (g + xp.ones_like(g), dot(g, g)), _POWER_STEPS)
    finite = xp.isfinite(dot(g, g))
    return xp.where(finite, xp.maximum(_ROOM * L, xp.zeros_like(L) + mu), dot(g, g))
