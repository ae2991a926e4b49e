"""Rank 1 on a box: t = sum_j a_j q(u_j - a_j t), one increasing equation an example.

F(t) = t - <a, q(u - a t)> has F' >= 1, so |F(t)| bounds the distance to the root and every evaluation gives a bracket.
Newton's step is taken where it falls strictly inside the bracket and the bracket keeps shrinking; otherwise the
step is the middle. One iteration is one pass over u and a.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from gfy.regularizers import Quadratic
from solvers._response import respond

_LARGE = 2**18  # numbers: the arrays between the kernels of eager torch no longer stay in cache
_PIECE = 2**17  # then it works on so many at a time


class State(NamedTuple):
    """All [...]: the next t to evaluate, the root's bracket, its width two steps ago, |F| at the last t."""

    t: Array
    low: Array
    high: Array
    width: Array
    error: Array
    noise: Array


class Parts(NamedTuple):
    """u and a [..., k] of Phi = <u, p> - <a, p>^2 / 2; where `gain` is not None, of p = clip(u - a t) instead."""

    u: Array
    a: Array
    squares: Array | None = None
    gain: float | None = None


def parts(problem: InnerProblem, v: Input) -> Parts:
    base = v.v if hasattr(v, "c") else v
    u, a = base.u + v.c if hasattr(v, "c") else base.u, base.A[..., 0]
    omega = problem.regularizer
    if backend_of(u).name == "torch" and isinstance(omega, Quadratic) and u.numel() <= _LARGE:
        # scaled once, a step is six kernels; JAX fuses the scaling into the pass it makes anyway
        scaled = a / omega.curvature
        return Parts((u + omega.tilt) / omega.curvature, scaled, scaled * scaled, omega.curvature)
    return Parts(u, a)


def evaluate(problem: InnerProblem, given: Parts, t: Array) -> tuple[Array, Array]:
    """<a, p(t)> and minus its derivative in t, [...]."""
    if given.gain is not None:
        p, free = _clipped(problem, given, t)
        return given.gain * inner(given.a, p), given.gain * inner(given.squares, free.to(p.dtype))
    value, bend = 0 * t, 0 * t
    for u, a in _pieces(problem, given):
        p, slope = respond(problem, u - a * t[..., None])
        value, bend = value + inner(a, p), bend + inner(a * a, slope)
    return value, bend


def primal(problem: InnerProblem, given: Parts, t: Array) -> Array:
    """p(t), [..., k]."""
    if given.gain is not None:
        return _clipped(problem, given, t)[0]
    found = [respond(problem, u - a * t[..., None])[0] for u, a in _pieces(problem, given)]
    return found[0] if len(found) == 1 else backend_of(t).xp.concat(found, axis=-1)


def _pieces(problem: InnerProblem, given: Parts) -> Iterator[tuple[Array, Array]]:
    """u and a whole, or a part of the labels at a time where the arrays between eager kernels would be large."""
    u, a = given.u, given.a
    k = u.shape[-1]
    uniform = all(isinstance(bound, float) for bound in problem.domain.bounds(u))  # type: ignore[attr-defined]
    if backend_of(u).name != "torch" or u.is_cuda or u.numel() <= _LARGE or not uniform:
        yield u, a
        return
    width = max(1, _PIECE * k // u.numel())
    for begin in range(0, k, width):
        yield u[..., begin : begin + width], a[..., begin : begin + width]


def _clipped(problem: InnerProblem, given: Parts, t: Array) -> tuple[Array, Array]:
    import torch

    x = torch.addcmul(given.u, given.a, t[..., None], value=-1)
    low, high = problem.domain.bounds(x)  # type: ignore[attr-defined]
    p = torch.clamp(x, low, high)
    return p, p == x


def start(problem: InnerProblem, given: Parts, p0: Array | None) -> State:
    xp = backend_of(given.u).xp
    t = inner(given.a, given.u) * 0 if p0 is None else inner(given.a, p0) * (given.gain or 1.0)
    wide = xp.where(xp.isfinite(t), xp.full_like(t, float("inf")), t)
    big = xp.where(xp.isfinite(t), xp.full_like(t, 1e30), t)
    return State(t, -wide, wide, wide, big, 0 * t)


def step(problem: InnerProblem, given: Parts, state: State) -> State:
    backend = backend_of(state.t)
    xp = backend.xp
    t = state.t
    value, slope = evaluate(problem, given, t)
    F = t - value
    size, below = xp.abs(F), F < 0
    # 2: where the slope is 1 Newton's step is t - F itself, and must not count as the end of the bracket
    end = t - 2 * F
    left = xp.maximum(state.low, xp.where(below, t, end))
    right = xp.minimum(state.high, xp.where(below, end, t))
    width = right - left
    proposal = t - F / (1 + slope)
    # a Newton step after which neither the bracket nor |F| is half of what it was is followed by a bisection
    slow = (width > 0.5 * state.width) & (state.error <= 2 * size)
    inside = (proposal > left) & (proposal < right) & ~slow
    following = xp.where(inside, proposal, left + 0.5 * width)  # at F = 0 the bracket is t alone
    return State(following, left, right, width, size, 8 * backend.eps(t) * xp.abs(value))


def inner(a: Array, b: Array) -> Array:
    """<a, b> over the last axis: a product of matrices in torch (one kernel), fused with what makes b in JAX."""
    backend = backend_of(b)
    if backend.name != "torch":
        return (a * b).sum(-1)
    import torch

    return torch.linalg.vecdot(a, b)
