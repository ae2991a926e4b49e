"""Run sweeps of coordinate ascent over a quadratic energy: u [..., k], p [..., k], with leading batch axes."""

from __future__ import annotations

import math
from typing import Any

from gfy.backend import backend_of
from gfy.energies.base import Dense, LowRank
from gfy.numerics.arithmetic import clip, dot, matvec, one_hot_of_largest, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array

_LOG_STEPS = 5
_MOST_STEPS = 120  # the most steps of a scalar search; every third of them halves the bracket


def best_coordinate(regularizer: Any, s: Array, h: Array, low: Any, high: Any, start: Array) -> Array:
    """Return argmax_{low <= x <= high} s x - h x^2 / 2 - omega(x), elementwise; h >= 0."""
    xp = backend_of(s).xp
    if regularizer.quadratic and not regularizer.zero:
        return clip((s + regularizer.tilt) / (regularizer.curvature + h), low, high)
    if regularizer.zero:
        flat = xp.where(s > 0, s * 0 + high, xp.where(s < 0, s * 0 + low, start))
        return xp.where(h > 0, clip(s / xp.where(h > 0, h, xp.ones_like(h)), low, high), flat)
    backend = backend_of(s)
    # The search must not become a part of a backward pass. Bounds that were broadcast along the scores would
    # connect it to one.
    fixed, bend, low, high = backend.stop_gradient((s, h, low, high))
    if regularizer.entropy in ("shannon", "binary"):
        x = clip(_with_logarithm(regularizer, fixed, bend), low, high)
        flat = xp.where((x > low) & (x < high), regularizer.coordinate_flatness(x), xp.zeros_like(x))
    else:
        theta = _root(regularizer, fixed, bend, low, high, backend.stop_gradient(start))
        x, flat = (f(theta, low, high) for f in (regularizer.coordinate_argmax, regularizer.coordinate_slope))
    # x is exact. The term that is added is zero, and gives x its derivative in s and h.
    score = s - h * x
    return x + flat / (1 + bend * flat) * (score - backend.stop_gradient(score))


def _with_logarithm(regularizer: Any, s: Array, h: Array) -> Array:
    """Return argmax_x s x - h x^2 / 2 - omega(x) for the entropies made of x log x, elementwise, without bounds.

    In z = log(h x / gamma) Shannon's equation is z + exp(z) = c, which is convex and increasing. The start is
    accurate for large |c|, and five Newton steps from it reach rounding. BinaryShannon has a second logarithm, which
    is treated in the same way on the half where it is small; the other half is its mirror image.
    """
    xp = backend_of(s).xp
    binary = regularizer.entropy == "binary"
    over = binary & (s > 0.5 * h)
    score = (xp.where(over, h - s, s) if binary else s) / regularizer.gamma - (0.0 if binary else 1.0)
    a = h / regularizer.gamma
    bent = a > 0
    a = xp.where(bent, a, xp.ones_like(a))
    c = score + xp.log(a)
    large = xp.where(c > 1, c, xp.ones_like(c))
    z = xp.where(c > 1, xp.log(large) * (1 - 1 / (1 + large)), c - xp.exp(xp.minimum(c, 1 + 0 * c)) / 4)
    for _ in range(_LOG_STEPS):
        w = xp.exp(z)
        z = z - (z + w - c) / (1 + w)
    if not binary:
        return xp.where(bent, xp.exp(z - xp.log(a)), xp.exp(xp.minimum(score, 700 + 0 * score)))
    z = z - xp.log(a)  # From here on z is log x, slightly too large.
    z = xp.minimum(xp.where(bent, z, score), xp.full_like(z, -math.log(2.0)))
    a = xp.where(bent, a, xp.zeros_like(a))
    for _ in range(_LOG_STEPS):
        x = xp.exp(z)
        z = z - (z - xp.log1p(-x) + a * x - score) / (1 / (1 - x) + a * x)
        z = xp.minimum(z, xp.full_like(z, -math.log(2.0)))
    x = xp.exp(z)
    return xp.where(over, 1 - x, x)


def _root(regularizer: Any, s: Array, h: Array, low: Any, high: Any, start: Array) -> Array:
    """Return theta with theta + h q(theta) = s, q the argmax map of omega between the bounds, elementwise, to rounding.

    Where omega is weak, q is nearly a step function. Newton's steps in theta overshoot there, and those in
    x = q(theta) are very short where q is flat. The shorter of the two is taken; it stays on its side of the root
    where q is convex or concave, and a bracket protects the search elsewhere. For any x, min(x, q(s - h x)) lies on
    the left of the root, so the search starts from there.
    """
    backend = backend_of(s)
    xp = backend.xp
    eps = backend.eps(s)

    def q(theta: Array) -> Array:
        return regularizer.coordinate_argmax(theta, low, high)

    def up(x: Array) -> Array:
        """Return the scores of x, kept inside the bracket where they are infinite or x is on a bound."""
        return clip(regularizer.grad(x), s - h * high, s - h * low)

    def body(now: tuple[Array, ...]) -> tuple[Array, ...]:
        theta, left, right, _, count = now
        x, flat = q(theta), regularizer.coordinate_slope(theta, low, high)
        F = theta + h * x - s
        left, right = xp.where(F < 0, theta, left), xp.where(F > 0, theta, right)
        in_theta = theta - F / (1 + h * flat)
        in_x = up(clip(x - flat * F / (1 + h * flat), low, high))
        shorter = xp.where(F < 0, xp.minimum(in_theta, in_x), xp.maximum(in_theta, in_x))
        proposal = xp.where(flat > 0, shorter, in_theta)
        inside = (proposal > left) & (proposal < right) & (count % 3 < 2)
        # The middle is taken in theta and in x alternately.
        middle = xp.where(count % 2 < 1, left + (right - left) / 2, up((q(left) + q(right)) / 2))
        middle = xp.where((middle > left) & (middle < right), middle, left + (right - left) / 2)
        size = xp.abs(theta) + h * xp.abs(x) + xp.abs(s)
        done = (xp.abs(F) <= 2 * eps * size) | (xp.abs(in_theta - theta) <= 2 * eps * xp.abs(theta))
        done = done | (right - left <= 2 * eps * (xp.abs(left) + xp.abs(right)))
        return xp.where(done, theta, xp.where(inside, proposal, middle)), left, right, done, count + 1

    bent = h > 0
    peak = clip(xp.where(bent, s / xp.where(bent, h, xp.ones_like(h)), start), low, high)
    first = xp.maximum(*(xp.minimum(x, q(s - h * x)) for x in (start + 0 * s, peak)))
    first = xp.where(bent, up(first), s)
    begin = (first, s - h * high, s - h * low, first != first, xp.sum(xp.zeros_like(first)))
    going = lambda now: xp.any(~now[3] & (now[0] == now[0])) & (now[4] < _MOST_STEPS)  # noqa: E731
    return backend.while_loop(going, body, begin)[0]


def low_rank(problem: InnerProblem, u: Array, A: Array, p: Array, order: Array) -> Array:
    """Run one sweep for U = -A A^T with t = A^T p kept up to date: O(k m)."""
    backend = backend_of(u)
    xp = backend.xp
    bend = (A * A).sum(-1)
    low, high = problem.domain.bounds(u)

    def visit(now: tuple[Array, ...]) -> tuple[Array, ...]:
        p, t, i = now
        j = order[i]
        row, q, h = A[..., j, :], p[..., j], bend[..., j]
        s = u[..., j] - dot(row, t) + h * q
        omega = problem.regularizer.part(lambda x: x[..., j], u)
        fresh = best_coordinate(omega, s, h, _at(low, j), _at(high, j), q)
        fresh = xp.where(xp.isfinite(fresh), fresh, q)
        return backend.set_at(p, (..., j), fresh), t + (fresh - q)[..., None] * row, i + 1

    start = (p, matvec(transpose(A), p), 0 * order[0])
    return backend.scan(visit, start, p.shape[-1])[0]


def dense(
    problem: InnerProblem, u: Array, U: Array, p: Array, size: int, blocks: Array, inside: Array | None
) -> Array:
    """Run one sweep for a dense U in blocks of rows: their slopes by one product, then coordinate by coordinate.

    The iterates are those of plain coordinate ascent. U is read once, and updating a coordinate takes a few
    operations on [...] alone, because the loop over the block is written out. `inside` reorders the coordinates of a
    block.
    """
    backend = backend_of(u)
    xp = backend.xp
    k = p.shape[-1]
    low, high = problem.domain.bounds(u)
    low, high = low + 0 * u, high + 0 * u

    def visit(now: tuple[Array, ...]) -> tuple[Array, ...]:
        p, i = now
        # the last block may overlap the one before
        begin = xp.minimum(blocks[i] * size, 0 * blocks[i] + (k - size))
        rows = backend.window(U, begin, size, -2)
        square = backend.window(rows, begin, size, -1)
        slopes = backend.window(u, begin, size, -1) + matvec(rows, p)
        part, bottom, top = (backend.window(x, begin, size, -1) for x in (p, low, high))

        def omega(j: int) -> Any:
            at = j if inside is None else inside[j]
            return problem.regularizer.part(lambda x: backend.window(x, begin, size, -1)[..., at], u)

        if inside is not None:
            square = square[..., inside, :][..., inside]
            slopes, part, bottom, top = (x[..., inside] for x in (slopes, part, bottom, top))
        moves: list[Array] = []
        for j in range(size):
            q, h = part[..., j], -square[..., j, j]
            slope = slopes[..., j] + sum(moves[i] * square[..., j, i] for i in range(j))
            fresh = best_coordinate(omega(j), slope + h * q, h, bottom[..., j], top[..., j], q)
            moves.append(xp.where(xp.isfinite(fresh), fresh, q) - q)
        part = part + xp.stack(moves, axis=-1)
        return backend.place(p, begin, part if inside is None else part[..., xp.argsort(inside)]), i + 1

    return backend.scan(visit, (p, 0 * blocks[0]), blocks.shape[0])[0]


def pairs(problem: InnerProblem, u: Array, curvature: Dense | LowRank | None, p: Array) -> Array:
    """Make k exchanges where sum p is fixed: the coordinate that gains most takes from the one that loses least.

    For a quadratic or no regularizer the slopes determine both. The slope of an entropy is infinite at 0, even where
    the coordinate can gain very little. The measure is then how far each coordinate would move at a common
    multiplier.
    """
    backend = backend_of(u)
    xp = backend.xp
    regularizer, k = problem.regularizer, p.shape[-1]
    low, high = problem.domain.bounds(u)
    assert curvature is not None
    bend = -curvature.diagonal() + 0 * p
    dust = 4 * backend.eps(p)
    plain = regularizer.quadratic

    def trade(now: tuple[Array, ...]) -> tuple[Array, ...]:
        p, g, i = now
        wish = g - regularizer.grad(p) if plain else _wish(regularizer, g, bend, p, low, high)
        far = xp.full_like(wish, float("inf"))
        # Mass below `dust` is rounding. It is not traded, because it would be chosen before real trades.
        taker = one_hot_of_largest(xp.where(p < high - dust, wish, -far))
        giver = one_hot_of_largest(xp.where((p > low + dust) & (taker < 1), -wish, -far))
        x, y = dot(taker, xp.where(taker > 0, p, 0 * p)), dot(giver, p)
        rows = curvature.product(taker - giver + 0 * p)
        h = -dot(rows, taker - giver)
        room = xp.minimum(high - x, y - low)
        gains, gives = (_of(regularizer, chosen, p) for chosen in (taker, giver))
        d = _trade(gains, gives, dot(taker - giver, g), h, x, y, room)
        d = xp.where(xp.isfinite(d) & (dot(taker, giver) == 0), d, xp.zeros_like(d))
        emptied = d >= room
        step = d[..., None] * (taker - giver)
        fresh = clip(p + step, low, high)
        # A giver that has given all it can is put exactly on its bound.
        fresh = xp.where(
            emptied[..., None] & (giver > 0) & ((y - low) <= (high - x))[..., None], low + 0 * p, fresh
        )
        return fresh, g + d[..., None] * rows, i + 1

    g = u + curvature.product(p)
    p, _, _ = backend.scan(trade, (p, g + 0 * bend, xp.sum(0 * u)), k)
    return p


def _wish(regularizer: Any, g: Array, bend: Array, p: Array, low: Any, high: Any) -> Array:
    """Return how far each coordinate would move alone at one multiplier for all, the weighted mean slope, [..., k]."""
    backend = backend_of(p)
    xp = backend.xp
    g, bend, p = backend.stop_gradient((g, bend, p))
    slope = g - regularizer.grad(p)
    sound = xp.isfinite(slope)
    weight = xp.where(sound & (p > low), p - low, xp.zeros_like(p))
    total = weight.sum(-1)[..., None]
    price = (weight * xp.where(sound, slope, xp.zeros_like(slope))).sum(-1)[..., None]
    price = price / xp.where(total > 0, total, xp.ones_like(total))
    return best_coordinate(regularizer, g - price + bend * p, bend, low, high, p) - p


def _of(regularizer: Any, chosen: Array, p: Array) -> Any:
    """Return omega of the chosen coordinate, one-hot [..., k], of each example."""
    return regularizer.part(lambda x: dot(chosen, x), p)


def _trade(gains: Any, gives: Any, slope: Array, h: Array, x: Array, y: Array, room: Array) -> Array:
    """Return argmax_{0 <= d <= room} slope d - h d^2 / 2 - omega(x + d) - omega(y - d), elementwise; the
    omegas may differ."""
    xp = backend_of(x).xp
    if gains.quadratic:
        c = gains.curvature
        pull, bend = slope - c * (x - y), h + 2 * c
        free = pull / xp.where(bend > 0, bend, xp.ones_like(bend))
        return clip(xp.where(bend > 0, free, xp.where(pull > 0, room, 0 * room)), 0.0, room)

    backend = backend_of(x)
    eps = backend.eps(x)

    def second(omega: Any, z: Array) -> Array:
        """Return omega''(z), from the slope of omega's argmax map."""
        slope = omega.coordinate_slope(omega.grad(z), -1.0, float("inf"))
        return 1 / xp.where(slope > 0, slope, xp.ones_like(slope))

    def rise(d: Array, slope: Array, h: Array, x: Array, y: Array) -> Array:
        return slope - h * d - gains.grad(x + d) + gives.grad(y - d)

    fixed = backend.stop_gradient((slope, h, x, y))

    def body(now: tuple[Array, ...]) -> tuple[Array, ...]:
        d, left, right, _, count = now
        up = rise(d, *fixed)
        left, right = xp.where(up > 0, d, left), xp.where(up > 0, right, d)
        ahead = d + up / (fixed[1] + second(gains, fixed[2] + d) + second(gives, fixed[3] - d))
        inside = (ahead > left) & (ahead < right) & (count % 3 < 2)
        close = (right - left <= 2 * eps * right) | (
            xp.abs(ahead - d) <= 2 * eps * xp.minimum(d, fixed[3] - d)
        )
        # A root whose distance from the end of the range is rounding is taken to be that end.
        close = close | (end - d <= 2 * eps * end) | (up == 0)
        return (
            xp.where(close, d, xp.where(inside, ahead, left + (right - left) / 2)),
            left,
            right,
            close,
            count + 1,
        )

    end = backend.stop_gradient(room)
    begin = (end / 2, xp.zeros_like(end), end, ~(end > 0), xp.sum(xp.zeros_like(end)))
    d = backend.while_loop(lambda now: xp.any(~now[3]) & (now[4] < _MOST_STEPS), body, begin)[0]
    # One more Newton step adds the derivative of the root.
    more = rise(d, slope, h, x, y) / (fixed[1] + second(gains, fixed[2] + d) + second(gives, fixed[3] - d))
    d = clip(xp.where(xp.isfinite(more), d + more, d), 0.0, room)
    still = rise(room, slope, h, x, y)
    return xp.where(still >= 0, room, d)


def _at(bound: Any, j: Array) -> Any:
    return bound if isinstance(bound, float) else bound[..., j]
