"""Sweeps of coordinate ascent over a quadratic energy: u [..., k], p [..., k], batch axes leading."""

from __future__ import annotations

from typing import Any

from gfy.backend import Backend, backend_of
from gfy.energies.base import Dense, LowRank
from gfy.numerics.arithmetic import clip, dot, matvec, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array
from gfy.regularizers import Quadratic, Zero

_SCALAR_STEPS = 6
_TRADE_STEPS = 10


def best_coordinate(
    regularizer: Any, s: Array, h: Array, low: Any, high: Any, start: Array, steps: int = _SCALAR_STEPS
) -> Array:
    """argmax_{low <= x <= high} s x - h x^2 / 2 - omega(x), elementwise; h >= 0."""
    xp = backend_of(s).xp
    if isinstance(regularizer, Quadratic):
        return clip((s + regularizer.tilt) / (regularizer.curvature + h), low, high)
    if isinstance(regularizer, Zero):
        flat = xp.where(s > 0, s * 0 + high, xp.where(s < 0, s * 0 + low, start))
        return xp.where(h > 0, clip(s / xp.where(h > 0, h, xp.ones_like(h)), low, high), flat)
    # x = q(theta) with theta + h q(theta) = s: increasing in theta with slope >= 1, so |F| brackets the root

    def newton(now: tuple[Array, ...]) -> tuple[Array, ...]:
        theta, left, right = now
        F = theta + h * regularizer.coordinate_argmax(theta, low, high) - s
        slope = 1 + h * regularizer.coordinate_slope(theta, low, high)
        left = xp.maximum(left, xp.where(F < 0, theta, theta - 2 * F))
        right = xp.minimum(right, xp.where(F > 0, theta, theta - 2 * F))
        proposal = theta - F / slope
        inside = (proposal > left) & (proposal < right)
        return xp.where(F == 0, theta, xp.where(inside, proposal, left + (right - left) / 2)), left, right

    wide = xp.full_like(s, float("inf"))
    theta, _, _ = backend_of(s).scan(newton, (s - h * start, -wide, wide), steps)
    return regularizer.coordinate_argmax(theta, low, high)


def low_rank(problem: InnerProblem, u: Array, A: Array, p: Array, order: Array) -> Array:
    """One sweep for U = -A A^T with t = A^T p kept up to date: O(k m)."""
    backend = backend_of(u)
    xp = backend.xp
    bend = (A * A).sum(-1)
    low, high = problem.domain.bounds(u)  # type: ignore[attr-defined]

    def visit(now: tuple[Array, ...]) -> tuple[Array, ...]:
        p, t, i = now
        j = order[i]
        row, q, h = A[..., j, :], p[..., j], bend[..., j]
        s = u[..., j] - dot(row, t) + h * q
        fresh = best_coordinate(problem.regularizer, s, h, _at(low, j), _at(high, j), q)
        fresh = xp.where(xp.isfinite(fresh), fresh, q)
        return backend.set_at(p, (..., j), fresh), t + (fresh - q)[..., None] * row, i + 1

    start = (p, matvec(transpose(A), p), 0 * order[0])
    return backend.scan(visit, start, p.shape[-1])[0]


def dense(
    problem: InnerProblem, u: Array, U: Array, p: Array, size: int, blocks: Array, inside: Array | None
) -> Array:
    """One sweep for a dense U, a block of rows at a time: their slopes by one product, then coordinate by coordinate.

    The iterates are those of plain coordinate ascent; U is read once, and a coordinate's update costs a few
    operations on [...] alone because the block is written out. `inside` reorders the coordinates of a block.
    """
    backend = backend_of(u)
    xp = backend.xp
    k = p.shape[-1]
    low, high = problem.domain.bounds(u)  # type: ignore[attr-defined]
    low, high = low + 0 * u, high + 0 * u

    def visit(now: tuple[Array, ...]) -> tuple[Array, ...]:
        p, i = now
        # the last block may overlap the one before
        begin = xp.minimum(blocks[i] * size, 0 * blocks[i] + (k - size))
        rows = _window(backend, U, begin, size, -2)
        square = _window(backend, rows, begin, size, -1)
        slopes = _window(backend, u, begin, size, -1) + matvec(rows, p)
        part, bottom, top = (_window(backend, x, begin, size, -1) for x in (p, low, high))
        if inside is not None:
            square = square[..., inside, :][..., inside]
            slopes, part, bottom, top = (x[..., inside] for x in (slopes, part, bottom, top))
        moves: list[Array] = []
        for j in range(size):
            q, h = part[..., j], -square[..., j, j]
            slope = slopes[..., j] + sum(moves[i] * square[..., j, i] for i in range(j))
            fresh = best_coordinate(problem.regularizer, slope + h * q, h, bottom[..., j], top[..., j], q)
            moves.append(xp.where(xp.isfinite(fresh), fresh, q) - q)
        part = part + xp.stack(moves, axis=-1)
        return _place(backend, p, begin, part if inside is None else part[..., xp.argsort(inside)]), i + 1

    return backend.scan(visit, (p, 0 * blocks[0]), blocks.shape[0])[0]


def pairs(problem: InnerProblem, u: Array, curvature: Dense | LowRank | None, p: Array) -> Array:
    """k trades where sum p is fixed: the coordinate that gains most takes from the one that loses least."""
    backend = backend_of(u)
    xp = backend.xp
    regularizer, k = problem.regularizer, p.shape[-1]
    low, high = problem.domain.bounds(u)  # type: ignore[attr-defined]
    assert curvature is not None
    bend = -curvature.diagonal() + 0 * p
    dust = 4 * backend.eps(p)

    def trade(now: tuple[Array, ...]) -> tuple[Array, ...]:
        p, g, i = now
        slope = g - regularizer.grad(p)
        far = xp.full_like(slope, float("inf"))
        # what is left below `dust` cannot be traded: it would stand in the way of real trades
        taker = _hot(xp, xp.where(p < high - dust, slope, -far), k)
        giver = _hot(xp, xp.where(p > low + dust, -slope, -far), k)
        x, y = dot(taker, xp.where(taker > 0, p, 0 * p)), dot(giver, p)
        rows = curvature.product(taker - giver + 0 * p)
        h = -dot(rows, taker - giver)
        room = xp.minimum(high - x, y - low)
        d = _trade(regularizer, dot(taker - giver, g), h, x, y, room)
        d = xp.where(xp.isfinite(d) & (dot(taker, giver) == 0), d, 0 * d)
        emptied = d >= room
        step = d[..., None] * (taker - giver)
        fresh = clip(p + step, low, high)
        # a giver emptied, or a taker filled, is put exactly on its bound
        fresh = xp.where(
            emptied[..., None] & (giver > 0) & ((y - low) <= (high - x))[..., None], low + 0 * p, fresh
        )
        return fresh, g + d[..., None] * rows, i + 1

    g = u + curvature.product(p)
    p, _, _ = backend.scan(trade, (p, g + 0 * bend, xp.sum(0 * u)), k)
    return p


def _trade(regularizer: Any, slope: Array, h: Array, x: Array, y: Array, room: Array) -> Array:
    """argmax_{0 <= d <= room} slope d - h d^2 / 2 - omega(x + d) - omega(y - d), elementwise."""
    xp = backend_of(x).xp
    if isinstance(regularizer, Quadratic | Zero):
        c = regularizer.curvature if isinstance(regularizer, Quadratic) else 0.0
        rise, bend = slope - c * (x - y), h + 2 * c
        free = rise / xp.where(bend > 0, bend, xp.ones_like(bend))
        return clip(xp.where(bend > 0, free, xp.where(rise > 0, room, 0 * room)), 0.0, room)

    def second(z: Array) -> Array:
        """omega''(z), from the slope of omega's argmax map."""
        slope = regularizer.coordinate_slope(regularizer.grad(z), -1.0, float("inf"))
        return 1 / xp.where(slope > 0, slope, xp.ones_like(slope))

    def newton(now: tuple[Array, ...]) -> tuple[Array, ...]:
        d, left, right = now
        rise = slope - h * d - regularizer.grad(x + d) + regularizer.grad(y - d)
        left, right = xp.where(rise > 0, d, left), xp.where(rise > 0, right, d)
        ahead = d + rise / (h + second(x + d) + second(y - d))
        inside = (ahead > left) & (ahead < right)
        return xp.where(inside, ahead, left + (right - left) / 2), left, right

    d, _, _ = backend_of(x).scan(newton, (0 * room, 0 * room, room), _TRADE_STEPS)
    still = slope - h * room - regularizer.grad(x + room) + regularizer.grad(y - room)
    return xp.where(still >= 0, room, d)


def _hot(xp: Any, scores: Array, k: int) -> Array:
    """One-hot of the largest score, [..., k]."""
    best = xp.argmax(scores, axis=-1)[..., None]
    place = {"device": scores.device} if hasattr(scores, "is_cuda") else {}
    return xp.astype(xp.arange(k, **place) == best, scores.dtype)


def _at(bound: Any, j: Array) -> Any:
    return bound if isinstance(bound, float) else bound[..., j]


def _window(backend: Backend, x: Array, begin: Array, size: int, axis: int) -> Array:
    """x[begin : begin + size] along an axis counted from the end: a slice, not an index array."""
    if backend.name == "jax":
        from jax import lax

        return lax.dynamic_slice_in_dim(x, begin, size, axis=x.ndim + axis)
    where = (..., slice(int(begin), int(begin) + size), *(slice(None),) * (-axis - 1))
    return x[where]


def _place(backend: Backend, x: Array, begin: Array, part: Array) -> Array:
    if backend.name == "jax":
        from jax import lax

        return lax.dynamic_update_slice_in_dim(x, part, begin, axis=x.ndim - 1)
    return backend.set_at(x, (..., slice(int(begin), int(begin) + part.shape[-1])), part)
