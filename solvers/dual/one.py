"""Solve rank 1 on a box: t = sum_j a_j q(u_j - a_j t) is one increasing equation per example.

F(t) = t - <a, q(u - a t)> has F' >= 1, so |F(t)| bounds the distance to the root, and every evaluation gives a
bracket. Newton's step is taken where it ends strictly inside the bracket and the bracket keeps shrinking; otherwise
the step goes to the middle. One iteration is one pass over u and a. The answer is p at the best t that was evaluated,
so |F| there measures its error: D(t) minus the value at p(t) is F^2 / 2.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from solvers.kernels import scalar_dual
from solvers.methods.response import respond


class State(NamedTuple):
    """Hold, all [...], the next t to evaluate, the root's bracket, its width two steps ago, and |F| at the last t.

    `best` is the evaluated t with the smallest |F|, and `error` is |F| there. `noise` is infinite once the bracket is
    no wider than rounding.
    """

    t: Array
    low: Array
    high: Array
    width: Array
    last: Array
    best: Array
    error: Array
    noise: Array


class Parts(NamedTuple):
    """Hold u and a [..., k] of Phi = <u, p> - <a, p>^2 / 2, and `total` = sum a where `kernels.scalar_dual` serves."""

    u: Array
    a: Array
    total: Array | None = None


def parts(problem: InnerProblem, v: Input) -> Parts:
    form = problem.energy.quadratic(v)
    assert form is not None
    assert isinstance(form.curvature, LowRank)
    u, a = form.u, form.curvature.A[..., 0]
    return Parts(u, a, a.sum(-1) if scalar_dual.serves(problem, u) else None)


def evaluate(problem: InnerProblem, given: Parts, t: Array) -> tuple[Array, Array]:
    """Return <a, p(t)> and minus its derivative in t, [...]."""
    if given.total is not None:
        return scalar_dual.evaluate(problem, given.u, given.a, given.total, t)
    found = []
    for u, a in scalar_dual.pieces(problem, given.u, given.a):
        p, slope = respond(problem, u - a * t[..., None])
        found.append((inner(a, p), inner(a * a, slope)))
    value, bend = found[0] if len(found) == 1 else (sum(x) for x in zip(*found, strict=True))
    return value, bend


def primal(problem: InnerProblem, given: Parts, t: Array) -> Array:
    """Return p(t), [..., k]."""
    if given.total is not None:
        return scalar_dual.primal(problem, given.u, given.a, t)
    pieces = scalar_dual.pieces(problem, given.u, given.a)
    found = [respond(problem, u - a * t[..., None])[0] for u, a in pieces]
    return found[0] if len(found) == 1 else backend_of(t).xp.concat(found, axis=-1)


def start(given: Parts, p0: Array | None) -> State:
    xp = backend_of(given.u).xp
    if p0 is not None:
        t = inner(given.a, p0)
    else:
        t = 0 * (inner(given.a, given.u) if given.total is None else given.total + given.u[..., 0])
    wide = xp.where(xp.isfinite(t), xp.full_like(t, float("inf")), t)
    big = xp.where(xp.isfinite(t), xp.full_like(t, 1e30), t)
    return State(t, -wide, wide, wide, big, t, big, 0 * t)


def step(problem: InnerProblem, given: Parts, state: State) -> State:
    backend = backend_of(state.t)
    xp = backend.xp
    t = state.t
    value, slope = evaluate(problem, given, t)
    F = t - value
    size, below = xp.abs(F), F < 0
    # 2 F and not F: where the slope is 1, t - F is the root itself, and the root must lie inside the bracket.
    end = t - 2 * F
    left = xp.maximum(state.low, xp.where(below, t, end))
    right = xp.minimum(state.high, xp.where(below, end, t))
    width = right - left
    proposal = t - F / (1 + slope)
    # A bisection follows a Newton step after which neither the bracket nor |F| is half of what it was.
    slow = (width > 0.5 * state.width) & (state.last <= 2 * size)
    inside = (proposal > left) & (proposal < right) & ~slow
    following = xp.where(inside, proposal, left + 0.5 * width)  # at F = 0 the bracket is t alone
    noise = xp.abs(value) if given.total is None else xp.abs(value) + xp.abs(given.total)
    # The bracket was no wider than rounding. The rest of F is the rounding of its sums, and t cannot be
    # improved.
    shut = state.high - state.low <= 4 * backend.eps(t) * xp.abs(t)
    noise = xp.where(shut, xp.full_like(t, float("inf")), 8 * backend.eps(t) * noise)
    best = xp.where(size < state.error, t, state.best)
    error = xp.where(state.error < size, state.error, size)  # a NaN stays a NaN
    return State(following, left, right, width, size, best, error, xp.maximum(state.noise, noise))


def inner(a: Array, b: Array) -> Array:
    """Return <a, b> over the last axis, in one kernel where the framework has one, else fused with what makes b."""
    return (backend_of(b).fused("inner", a, b) or dot)(a, b)
