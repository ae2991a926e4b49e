"""Rank 1 on a box: t = sum_j a_j q(u_j - a_j t), one increasing equation an example.

F(t) = t - <a, q(u - a t)> has F' >= 1, so |F(t)| bounds the distance to the root and every evaluation gives a bracket.
Newton's step is taken where it falls strictly inside the bracket and the bracket keeps shrinking; otherwise the
step is the middle. One iteration is one pass over u and a. The answer is p at the best t that was evaluated, so that
|F| there speaks of it: D(t) less the value at p(t) is F^2 / 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from gfy.regularizers import Quadratic
from solvers.methods.response import respond

_LARGE = 2**18  # numbers: the arrays between the kernels of eager torch no longer stay in cache
_PIECE = 2**18  # then it works on so many at a time


class State(NamedTuple):
    """All [...]: the next t to evaluate, the root's bracket, its width two steps ago, |F| at the last t.

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
    """u and a [..., k] of Phi = <u, p> - <a, p>^2 / 2; `total` = sum a, where eager torch wants it (see `_eager`)."""

    u: Array
    a: Array
    total: Array | None = None


def parts(problem: InnerProblem, v: Input) -> Parts:
    base = v.v if hasattr(v, "c") else v
    u, a = base.u + v.c if hasattr(v, "c") else base.u, base.A[..., 0]
    eager = backend_of(u).name == "torch" and isinstance(problem.regularizer, Quadratic)
    return Parts(u, a, a.sum(-1) if eager else None)


def evaluate(problem: InnerProblem, given: Parts, t: Array) -> tuple[Array, Array]:
    """<a, p(t)> and minus its derivative in t, [...]."""
    pieces = list(_pieces(problem, given))
    if given.total is None:
        found = [_fused(problem, *piece, t) for piece in pieces]
    else:
        room = tuple(given.u.new_empty(pieces[0][0].shape) for _ in range(2)) if len(pieces) > 1 else ()
        found = [_eager(problem, *piece, t, room) for piece in pieces]
    value, bend = found[0] if len(found) == 1 else (sum(x) for x in zip(*found, strict=True))
    if given.total is None:
        return value, bend
    omega = problem.regularizer
    assert isinstance(omega, Quadratic)
    return (value + omega.tilt * given.total) / omega.curvature, bend / omega.curvature


def _fused(problem: InnerProblem, u: Array, a: Array, t: Array) -> tuple[Array, Array]:
    p, slope = respond(problem, u - a * t[..., None])
    return inner(a, p), inner(a * a, slope)


def _eager(
    problem: InnerProblem, u: Array, a: Array, t: Array, room: tuple[Array, ...] = ()
) -> tuple[Array, Array]:
    """For omega = c p^2 / 2 - tilt p: <a, q> with q = c p - tilt, a clamp of u - a t, and |a|^2 over the free labels.

    A few kernels and no scaling of [..., k]; what is left to do is on [...]. `room` is memory to write to: fresh
    memory costs more than the kernels.
    """
    import torch

    low, high = _limits(problem, u)
    room = tuple(one[..., : u.shape[-1]] for one in room)
    x = torch.addcmul(u, a, t[..., None], value=-1, out=room[0] if room else None)
    if isinstance(low, float) and isinstance(high, float):
        # in place; the clamp's own derivative is one kernel, a mask of booleans takes four times as long
        q = x.clamp_(low, high)
        slope = torch.ops.aten.hardtanh_backward
        whole = a.expand(q.shape)
        free = (
            slope.grad_input(whole, q, low, high, grad_input=room[1]) if room else slope(whole, q, low, high)
        )
    else:
        q = torch.clamp(x, low, high)
        free = torch.where(q == x, a, 0 * a)
    return inner(a, q), inner(free, free)


def _limits(problem: InnerProblem, u: Array) -> tuple[Any, Any]:
    """Where u - a t is clamped: c low - tilt and c high - tilt."""
    omega = problem.regularizer
    assert isinstance(omega, Quadratic)
    low, high = (omega.curvature * b - omega.tilt for b in problem.domain.bounds(u))  # type: ignore[attr-defined]
    return low, high


def primal(problem: InnerProblem, given: Parts, t: Array) -> Array:
    """p(t), [..., k]."""
    if given.total is None:
        found = [respond(problem, u - a * t[..., None])[0] for u, a in _pieces(problem, given)]
        return found[0] if len(found) == 1 else backend_of(t).xp.concat(found, axis=-1)
    import torch

    omega = problem.regularizer
    assert isinstance(omega, Quadratic)
    shape = torch.broadcast_shapes(given.u.shape, given.a.shape, (*t.shape, 1))
    p, begin = given.u.new_empty(shape), 0
    shift = given.u.new_tensor(omega.tilt / omega.curvature)
    for u, a in _pieces(problem, given):
        # put in its place at once: nothing of this size is written twice
        part = p[..., begin : begin + u.shape[-1]]
        torch.add(shift, torch.addcmul(u, a, t[..., None], value=-1), alpha=1 / omega.curvature, out=part)
        torch.clamp(part, *problem.domain.bounds(u), out=part)  # type: ignore[attr-defined]
        begin += u.shape[-1]
    return p


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


def start(problem: InnerProblem, given: Parts, p0: Array | None) -> State:
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
    # 2: where the slope is 1 Newton's step is t - F itself, and must not count as the end of the bracket
    end = t - 2 * F
    left = xp.maximum(state.low, xp.where(below, t, end))
    right = xp.minimum(state.high, xp.where(below, end, t))
    width = right - left
    proposal = t - F / (1 + slope)
    # a Newton step after which neither the bracket nor |F| is half of what it was is followed by a bisection
    slow = (width > 0.5 * state.width) & (state.last <= 2 * size)
    inside = (proposal > left) & (proposal < right) & ~slow
    following = xp.where(inside, proposal, left + 0.5 * width)  # at F = 0 the bracket is t alone
    noise = xp.abs(value) if given.total is None else xp.abs(value) + xp.abs(given.total)
    # a bracket that was no wider than rounding: what is left of F are its sums' errors, and t is as good as it gets
    shut = state.high - state.low <= 4 * backend.eps(t) * xp.abs(t)
    noise = xp.where(shut, xp.full_like(t, float("inf")), 8 * backend.eps(t) * noise)
    best = xp.where(size < state.error, t, state.best)
    error = xp.where(state.error < size, state.error, size)  # a NaN stays one
    return State(following, left, right, width, size, best, error, xp.maximum(state.noise, noise))


def inner(a: Array, b: Array) -> Array:
    """<a, b> over the last axis: a product of matrices in torch (one kernel), fused with what makes b in JAX."""
    backend = backend_of(b)
    if backend.name != "torch":
        return (a * b).sum(-1)
    import torch

    if b.numel() == b.shape[-1] and a.shape == b.shape:  # one example: no product is written
        return torch.dot(a.reshape(-1), b.reshape(-1)).reshape(b.shape[:-1])
    return torch.linalg.vecdot(a, b)
