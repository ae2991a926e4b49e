"""Take interior-point steps towards a saddle point, and the Newton step on the nearby kinks that ends them.

The steps are Mehrotra's predictor and corrector on the optimality conditions of min_{s in S} D(s). Sets that are
described by inequalities get multipliers of their own during the search. The number of steps then hardly depends on
Omega's strong convexity, and Omega = 0 can be solved. On other sets p is the argmax map of the current scores.
References: Mehrotra (1992), "On the implementation of a primal-dual interior point method"; Wright (1997).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.energies.kinks import Stacked
from gfy.numerics.arithmetic import dot, matvec, relu, transpose
from gfy.numerics.spd import positive_solver
from gfy.protocols import Array
from gfy.saddle.response import Parts, jacobian, omega_at, respond

# The least share of the mean product that is aimed at while x is farther outside a ball than its slack.
_APART = 0.7
_INSIDE = 0.995  # the share of the way to a bound that a step may go
# A rectifier whose range c(s) is zero still gets this much room during the search.
_ROOM = 1e-12
# In units of rounding, relative to a unit diagonal. More kinks than free coordinates make a system singular.
_RIDGE = 1_000


class Inner(NamedTuple):
    """Hold the interior point: multipliers s of a <= z and y, z >= 0 of the rectifiers [..., n]; x, slack, bounds and
    sums.

    The slack [..., m] of the set's inequalities is positive, also while x is still outside a ball.
    """

    s: Array
    y: Array
    z: Array
    x: Array
    slack: Array
    bounds: Array
    sums: Array


def start(given: Parts) -> Inner:
    """Return the start: half of each multiplier's range, and the middle of the set."""
    st = given.st
    half = 0.5 + 0 * matvec(st.M, 0 * st.slope) + 0 * st.b
    s = st.spread(half, _ROOM * half)
    theta = st.scores(s)
    if given.room is None:
        p = x = respond(given, theta, 0 * theta)
        slack = bounds = sums = theta[..., :0]
    else:
        x = given.room.start + 0 * given.room.pull(theta)
        p = given.room.point(x)
        push = given.room.change(x, given.room.pull(theta - omega_at(given.omega, p)[0]))
        slack = given.room.slack(x)
        bounds = relu(-push) + _mean(push)
        sums = (0 * push).sum(-1)[..., None] + 0 * given.room.a
    a = matvec(st.M, p) + st.b + 0 * s
    return Inner(s, relu(-a) + _mean(a), relu(a) + _mean(a), x, slack, bounds, sums)


def step(given: Parts, now: Inner) -> Inner:
    st, room = given.st, given.room
    backend = backend_of(now.s)
    xp = backend.xp
    s, y, z, x, slack = now.s, now.y, now.z, now.x, now.slack
    theta = st.scores(s)
    r = _room_above(st, s)
    if room is None:
        p = x
        rows = st.M + 0 * theta[..., None, :]
        moved = jacobian(given, theta, x, rows)
        pushed, missing, over = 0 * theta, now.sums, now.bounds
    else:
        p = room.point(x)
        slope, curvature = omega_at(given.omega, p)
        balance = room.system(curvature, x, now.bounds, slack)
        rows = room.pull(st.M) + 0 * x[..., None, :]
        moved, _ = balance(rows, 0.0)
        pushed = room.pull(theta - slope) + room.push(x, now.bounds) - now.sums @ room.A
        missing, over = room.a - x @ transpose(room.A), room.slack(x) - slack
    lack = -(matvec(st.M, p) + st.b) - y - _turn_back(st, z)
    eye = backend.asarray(np.eye(s.shape[-1]), like=s)
    turn = eye if st.N is None else eye - st.N
    system = (
        rows @ transpose(moved) + (y / s)[..., None] * eye + (turn * (z / r)[..., None, :]) @ transpose(turn)
    )
    solve_units = _scaled_solve(system)

    def direction(t_s: Array, t_r: Array, t_x: Array) -> tuple[Array, ...]:
        """Return the step that makes s y, r z and the products of the bounds grow by the targets t."""
        rhs = t_s / s + _turn_back(st, t_r / r) - lack
        if room is None:
            ds = solve_units(rhs)
            dx, dsums, dslack, dbounds = 0 * x, now.sums, now.bounds, now.bounds
        else:
            force = pushed + room.push(x, (t_x - now.bounds * over) / slack)
            still, _ = balance(force[..., None, :], missing[..., None, :])
            ds = solve_units(rhs + matvec(rows, still[..., 0, :]))
            force = force - matvec(transpose(rows), ds)
            dx, dsums = (part[..., 0, :] for part in balance(force[..., None, :], missing[..., None, :]))
            dslack = room.change(x, dx) + over
            dbounds = (t_x - now.bounds * dslack) / slack
        dr = _turn(st, ds)
        return ds, dr, (t_s - y * ds) / s, (t_r - z * dr) / r, dx, dslack, dbounds, dsums

    def length(d: tuple[Array, ...]) -> Array:
        pairs = ((s, d[0]), (r, d[1]), (y, d[2]), (z, d[3]), (slack, d[5]), (now.bounds, d[6]))
        wanted = [xp.max(-change / value, axis=-1) for value, change in pairs if value.shape[-1]]
        worst = wanted[0]
        for other in wanted[1:]:
            worst = xp.maximum(worst, other)
        return (_INSIDE / xp.maximum(worst, _INSIDE + 0 * worst))[..., None]

    count = 2 * s.shape[-1] + slack.shape[-1]
    mu = ((dot(s, y) + dot(r, z) + dot(slack, now.bounds)) / count)[..., None]

    def aimed(before: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
        """Return the direction for a given mean product, with second-order terms of the last direction, and
        the next mean."""
        aim, d = before
        d = direction(
            aim - s * y - d[0] * d[2], aim - r * z - d[1] * d[3], aim - slack * now.bounds - d[5] * d[6]
        )
        far = length(d)
        left = dot(s + far * d[0], y + far * d[2]) + dot(r + far * d[1], z + far * d[3])
        left = left + dot(slack + far * d[5], now.bounds + far * d[6])
        share = left[..., None] / count / mu
        share = share * share * share
        return mu * xp.maximum(xp.minimum(share, xp.ones_like(share)), least), d

    least = (
        0 * mu
        if room is None
        else _APART * xp.astype(xp.max(xp.abs(over) - slack, axis=-1) > 0, s.dtype)[..., None]
    )
    still = tuple(0 * part for part in (s, s, s, s, x, slack, slack, now.sums))
    _, d = aimed(aimed((0 * mu, still)))  # the first call gives the predictor, the second the corrector
    far = length(d)
    s = s + far * d[0]
    x = respond(given, st.scores(s), x) if room is None else x + far * d[4]
    slack = slack + far * d[5]
    return Inner(s, y + far * d[2], z + far * d[3], x, slack, now.bounds + far * d[6], now.sums + far * d[7])


def finish(given: Parts, now: Inner) -> Array:
    """Return multipliers [..., n] after one Newton step on D: rectifiers are off, on, or kinks, where a = 0
    is an equation."""
    st, backend = given.st, backend_of(now.s)
    xp = backend.xp
    off = now.s < now.y
    on = xp.astype(~off & (_room_above(st, now.s) < now.z), now.s.dtype)
    kink = xp.astype(~off, now.s.dtype) * (1 - on)
    theta = st.scores(st.feasible(on, kink * now.s))
    p = respond(given, theta, now.x)
    Q = st.linear(on)
    system = kink[..., :, None] * (Q @ transpose(jacobian(given, theta, now.x, Q))) * kink[..., None, :]
    a = matvec(st.M, p) + st.b
    for _ in st.rounds():
        a = matvec(st.M, p) + st.b + matvec(st.N, on * a)
    moved = _scaled_solve(system)(kink * a)
    return st.feasible(on, kink * (now.s + moved))


def _room_above(st: Stacked, s: Array) -> Array:
    """Return c(s) - s, kept above zero also for rectifiers whose c(s) is zero."""
    return st.asked(s) - s + _ROOM


def _turn(st: Stacked, ds: Array) -> Array:
    """Return the change of c(s) - s with s."""
    return -ds if st.N is None else matvec(transpose(st.N), ds) - ds


def _turn_back(st: Stacked, z: Array) -> Array:
    """Return the transpose of `_turn`."""
    return -z if st.N is None else matvec(st.N, z) - z


def _mean(x: Array) -> Array:
    xp = backend_of(x).xp
    return xp.mean(xp.abs(x), axis=-1)[..., None] + 1e-3


def _scaled_solve(matrix: Array) -> Callable[[Array], Array]:
    """Solve a symmetric positive semi-definite system [..., n, n], scaled to a unit diagonal; the result is
    always finite."""
    backend = backend_of(matrix)
    xp = backend.xp
    eye = backend.asarray(np.eye(matrix.shape[-1]), like=matrix)
    diagonal = (matrix * eye).sum(-1)
    empty = ~(diagonal > 0)
    scale = xp.where(empty, 0 * diagonal, 1 / xp.sqrt(xp.where(empty, xp.ones_like(diagonal), diagonal)))
    scaled = scale[..., :, None] * matrix * scale[..., None, :]
    ridge = _RIDGE * backend.eps(matrix) + xp.astype(empty, matrix.dtype)
    scaled = scaled + ridge[..., None] * eye
    sound = xp.isfinite(scaled.sum(-1).sum(-1))[..., None, None]
    scaled = xp.where(sound, scaled, eye)

    solve = positive_solver(scaled)
    return lambda rhs: scale * solve((scale * rhs)[..., None])[..., 0]
