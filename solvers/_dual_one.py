"""Rank 1 on a box: t = sum_j a_j q(u_j - a_j t), one increasing equation an example.

F(t) = t - <a, q(u - a t)> has F' >= 1, so |F(t)| bounds the distance to the root and every evaluation gives a bracket.
Newton's step is taken where it falls strictly inside the bracket and the bracket keeps shrinking; otherwise the
step is the middle. One iteration is one pass over u and a.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.math import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from solvers._response import respond


class State(NamedTuple):
    """All [...]: the next t to evaluate, the root's bracket, its width two steps ago, |F| at the last t."""

    t: Array
    low: Array
    high: Array
    width: Array
    error: Array
    noise: Array


def parts(problem: InnerProblem, v: Input) -> tuple[Array, Array]:
    """u [..., k] and a [..., k] of Phi = <u, p> - <a, p>^2 / 2."""
    inner = v.v if hasattr(v, "c") else v
    u = inner.u + v.c if hasattr(v, "c") else inner.u
    return u, inner.A[..., 0]


def start(problem: InnerProblem, u: Array, a: Array, p0: Array | None) -> State:
    backend = backend_of(u)
    xp = backend.xp
    t = dot(a, u) * 0 if p0 is None else dot(a, p0)
    wide = xp.where(xp.isfinite(t), xp.full_like(t, float("inf")), t)
    big = xp.where(xp.isfinite(t), xp.full_like(t, 1e30), t)
    return State(t, -wide, wide, wide, big, 0 * t)


def step(problem: InnerProblem, u: Array, a: Array, state: State) -> State:
    backend = backend_of(u)
    xp = backend.xp
    t = state.t
    p, slope = respond(problem, u - a * t[..., None])
    F = t - inner(a, p)
    weight = 1 + inner(a * a, slope)
    # 2: where the slope is 1 Newton's step is t - F itself, and must not count as the end of the bracket
    left = xp.maximum(state.low, xp.where(F < 0, t, t - 2 * F))
    right = xp.minimum(state.high, xp.where(F > 0, t, t - 2 * F))
    proposal = t - F / weight
    middle = left + (right - left) / 2
    inside = (proposal > left) & (proposal < right)
    # a Newton step that leaves the bracket as wide as half of what it was is followed by a bisection
    slow = (right - left) > 0.5 * state.width
    onto_end = (F == 0) | (right <= left)
    following = xp.where(
        onto_end, t, xp.where(inside & ~(slow & (state.error <= 2 * xp.abs(F))), proposal, middle)
    )
    noise = 4 * backend.eps(t) * (xp.abs(t) + xp.abs(F - t))
    return State(following, left, right, right - left, xp.abs(F), noise)


def primal(problem: InnerProblem, u: Array, a: Array, state: State) -> Array:
    """p [..., k] at the next t: the last Newton step costs nothing more."""
    return respond(problem, u - a * state.t[..., None])[0]


def inner(a: Array, b: Array) -> Array:
    """<a, b> over the last axis: a product of matrices in torch (one kernel), fused with what makes b in JAX."""
    backend = backend_of(b)
    return backend.xp.vecdot(a, b) if backend.name == "torch" else (a * b).sum(-1)
