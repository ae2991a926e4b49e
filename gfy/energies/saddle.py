"""The saddle point of a concave energy with kinks: p and the multipliers s of its rectifiers, for a batch at once.

The dual problem min_{s in S} D(s) (see `gfy.energies.kinks`) is solved by a primal-dual interior-point method
(Mehrotra's predictor and corrector). Sets that are described by inequalities have multipliers of their own on the
way, so that the number of steps hardly depends on Omega's strong convexity, and Omega = 0 is served; on other sets p
is the argmax map of the current scores. After each step the kinks that p* seems to lie on are taken as equations and
solved by one Newton step on D: near the end this finds them exactly. The best multipliers seen are kept; they are
always feasible, so D(s) is an upper bound of the maximum at every step.
References: Mehrotra (1992), "On the implementation of a primal-dual interior point method"; Wright (1997).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.energies.kinks import Stacked, stacked
from gfy.numerics.arithmetic import dot, matvec, relu, transpose
from gfy.protocols import Array
from gfy.regularizers.base import Separable
from gfy.regularizers.quadratic import SquaredNorm, Zero
from gfy.sets.ball import Ball
from gfy.sets.interior import Polyhedron, described, polyhedron

_INSIDE = 0.995  # how far towards a bound a step may go
_STEPS = 60
_RIDGE = 1_000  # units of rounding on a unit diagonal: more kinks than free coordinates make a system singular


class Saddle(NamedTuple):
    """The best p [..., k] and multipliers s [..., n] so far, how far they are from a saddle [...], and the way there."""

    p: Array
    s: Array
    error: Array
    noise: Array
    inner: Any  # Inner


class Inner(NamedTuple):
    """The interior point: multipliers s of a <= z and y, z >= 0 of the rectifiers [..., n]; x, its bounds' and sums'."""

    s: Array
    y: Array
    z: Array
    x: Array
    bounds: Array
    sums: Array


class Parts(NamedTuple):
    """What stays the same from step to step."""

    st: Stacked
    omega: Any
    domain: Any
    room: Polyhedron | None


def parts(st: Stacked, regularizer: Any, domain: Any) -> Parts:
    """The problem in the form that `start` and `step` take."""
    room = polyhedron(domain, st.slope) if isinstance(regularizer, Separable | Zero) else None
    return Parts(st, regularizer, domain, room)


def unsupported(regularizer: Any, domain: Any) -> str | None:
    """Why no saddle point can be found with Omega on the set, in a sentence; None where it can."""
    if isinstance(regularizer, Zero) and not isinstance(domain, Ball) and not described(domain):
        return (
            f"without a regularizer the kinks on {domain.name} have no multipliers to solve for: the set is known by "
            "its oracle alone; use SquaredNorm, or a ConvexHull of its points"
        )
    return str(reason) if (reason := regularizer.no_argmax(domain)) else None


def saddle_of(
    energy: Any, v: Any, regularizer: Any, domain: Any, p: Array | None = None
) -> tuple[Stacked, Saddle]:
    """The kinks of an energy that has some, and the saddle point they make with Omega on the set; no derivative passes.

    p [..., k] is where an energy that is not concave is looked at.
    """
    backend = backend_of(v)
    v, p = backend.stop_gradient((v, p))
    shape = tuple(energy.batch_shape(v)) if p is None else tuple(p.shape[:-1])
    st = stacked(energy.kinks(v, p), shape)
    return st, find(parts(st, regularizer, domain))


def find(given: Parts, steps: int = _STEPS) -> Saddle:
    """The saddle point, as near as `steps` steps and rounding allow."""
    xp = backend_of(given.st.slope).xp

    def going(now: tuple[Saddle, Array]) -> Array:
        return xp.any(now[0].error > now[0].noise) & (now[1] < steps)

    with np.errstate(all="ignore"):  # a finished example may divide by nothing: its step is not taken
        first = start(given)
        state = (first, xp.sum(0 * first.noise))
        loop = backend_of(given.st.slope).while_loop
        found: Saddle = loop(going, lambda now: (step(given, now[0]), now[1] + 1), state)[0]
    return found


def start(given: Parts) -> Saddle:
    """Half of each multiplier's range, and the middle of the set."""
    st, backend = given.st, backend_of(given.st.slope)
    xp = backend.xp
    half = 0.5 + 0 * matvec(st.M, 0 * st.slope) + 0 * st.b
    s = st.spread(half, 0 * half)
    theta = st.scores(s)
    if given.room is None:
        p = x = _respond(given, theta, 0 * theta)
        bounds = sums = theta[..., :0]
    else:
        x = given.room.start + 0 * given.room.pull(theta)
        p = given.room.point(x)
        push = given.room.pull(theta - _omega(given.omega, p)[0]) @ transpose(given.room.G)
        bounds = relu(-push) + _mean(push)
        sums = (0 * push).sum(-1)[..., None] + 0 * given.room.a
    a = matvec(st.M, p) + st.b + 0 * s
    inner = Inner(s, relu(-a) + _mean(a), relu(a) + _mean(a), x, bounds, sums)
    large = xp.full_like(theta[..., 0], float("inf"))
    return _better(given, Saddle(p, s, large, 0 * theta[..., 0], inner), s[None])


def step(given: Parts, state: Saddle) -> Saddle:
    """One interior step, and one Newton step on the kinks that are in sight from where it ends."""
    new = _interior_step(given, state.inner)
    # a finished example rests, and so does one whose step rounding has spoilt
    going = state.error > state.noise
    for part in new:
        going = going & backend_of(part).xp.isfinite(part.sum(-1))
    where = backend_of(state.s).xp.where
    inner = Inner(*(where(going[..., None], after, before) for after, before in zip(new, state.inner, strict=True)))
    candidates = backend_of(state.s).xp.stack([inner.s, _finish(given, inner)])
    return _better(given, state._replace(inner=inner), candidates)


def _interior_step(given: Parts, now: Inner) -> Inner:
    st, room = given.st, given.room
    backend = backend_of(now.s)
    xp = backend.xp
    s, y, z, x = now.s, now.y, now.z, now.x
    theta = st.scores(s)
    r = _room_above(st, s)
    if room is None:
        p = x
        rows = st.M + 0 * theta[..., None, :]
        moved = _jacobian(given, theta, x, rows)
        slack, pushed, missing = now.bounds, 0 * theta, now.sums
    else:
        p = room.point(x)
        slope, curvature = _omega(given.omega, p)
        slack = room.slack(x)
        balance = room.system(curvature, now.bounds / slack)
        rows = room.pull(st.M) + 0 * x[..., None, :]
        moved, _ = balance(rows, 0.0)
        pushed = room.pull(theta - slope) + now.bounds @ room.G - now.sums @ room.A
        missing = room.a - x @ transpose(room.A)
    lack = -(matvec(st.M, p) + st.b) - y - _turn_back(st, z)
    eye = backend.asarray(np.eye(s.shape[-1]), like=s)
    turn = eye if st.N is None else eye - st.N
    system = rows @ transpose(moved) + (y / s)[..., None] * eye + (turn * (z / r)[..., None, :]) @ transpose(turn)
    solve_units = _scaled_solve(system)

    def direction(t_s: Array, t_r: Array, t_x: Array) -> tuple[Array, ...]:
        """The step that makes s y, r z and the bounds' products grow by the targets t."""
        rhs = t_s / s + _turn_back(st, t_r / r) - lack
        if room is None:
            ds = solve_units(rhs)
            dx, dsums, dslack, dbounds = 0 * x, now.sums, now.bounds, now.bounds
        else:
            force = pushed + (t_x / slack) @ room.G
            still, _ = balance(force[..., None, :], missing[..., None, :])
            ds = solve_units(rhs + matvec(rows, still[..., 0, :]))
            force = force - matvec(transpose(rows), ds)
            dx, dsums = (part[..., 0, :] for part in balance(force[..., None, :], missing[..., None, :]))
            dslack = dx @ transpose(room.G)
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
    d = direction(-s * y, -r * z, -slack * now.bounds)
    far = length(d)
    left = dot(s + far * d[0], y + far * d[2]) + dot(r + far * d[1], z + far * d[3])
    left = left + dot(slack + far * d[5], now.bounds + far * d[6])
    share = left[..., None] / count / mu
    aim = mu * xp.minimum(share * share * share, xp.ones_like(share))
    d = direction(aim - s * y - d[0] * d[2], aim - r * z - d[1] * d[3], aim - slack * now.bounds - d[5] * d[6])
    far = length(d)
    s = s + far * d[0]
    x = _respond(given, st.scores(s), x) if room is None else x + far * d[4]
    return Inner(s, y + far * d[2], z + far * d[3], x, now.bounds + far * d[6], now.sums + far * d[7])


def _finish(given: Parts, now: Inner) -> Array:
    """Multipliers [..., n] by one Newton step on D: rectifiers are off, on, or kinks, where a = 0 is an equation."""
    st, backend = given.st, backend_of(now.s)
    xp = backend.xp
    off = now.s < now.y
    on = xp.astype(~off & (_room_above(st, now.s) < now.z), now.s.dtype)
    kink = xp.astype(~off, now.s.dtype) * (1 - on)
    theta = st.scores(st.feasible(on, kink * now.s))
    p = _respond(given, theta, now.x)
    Q = st.linear(on)
    system = kink[..., :, None] * (Q @ transpose(_jacobian(given, theta, now.x, Q))) * kink[..., None, :]
    a = matvec(st.M, p) + st.b
    for _ in st.rounds():
        a = matvec(st.M, p) + st.b + matvec(st.N, on * a)
    moved = _scaled_solve(system)(kink * a)
    return st.feasible(on, kink * (now.s + moved))


def _better(given: Parts, state: Saddle, s: Array) -> Saddle:
    """The state with the best of several multipliers s [m, ..., n], made feasible, where it is nearer to a saddle point."""
    st, backend = given.st, backend_of(s)
    xp = backend.xp
    s = st.feasible(0 * s, s)
    theta = st.scores(s)
    p = _respond(given, theta, state.inner.x)
    a = st.inner(p)
    r = relu(st.asked(s) - s)
    y, z = relu(-a), relu(a)
    apart = xp.maximum(xp.minimum(s, y), xp.minimum(r, z))
    gap = dot(s, y) + dot(r, z)
    if isinstance(given.omega, Zero):
        gap = gap + relu(given.domain.support(theta) - dot(theta, p))
    value = xp.abs(dot(theta, p) - dot(s, st.b))
    error = xp.maximum(xp.max(apart, axis=-1), gap / (1 + value))
    # the rounding of a and s, and that of theta, which p answers to with 1 / gamma
    size = 1 + xp.max(xp.abs(a) + xp.abs(st.b), axis=-1) + xp.max(s, axis=-1)
    gamma = given.omega.strong_convexity(given.domain) or 1.0
    blur = xp.max(xp.abs(theta), axis=-1) * xp.max(xp.sum(xp.abs(st.M), axis=-1), axis=-1) / gamma
    noise = backend.eps(s) * ((256 if isinstance(given.omega, Zero) else 16) * size + blur)
    for i in range(s.shape[0]):
        nearer = error[i] < state.error
        keep = nearer[..., None]
        state = Saddle(
            xp.where(keep, p[i], state.p),
            xp.where(keep, s[i], state.s),
            xp.where(nearer, error[i], state.error),
            xp.where(nearer, noise[i], state.noise),
            state.inner,
        )
    return state


def _respond(given: Parts, theta: Array, x: Array) -> Array:
    """argmax of <theta, p> - Omega(p); without Omega, of <theta, p> less a small square of the distance to x.

    Where p* is a vertex and x is near it, that square changes nothing, and the answer is the vertex.
    """
    if isinstance(given.omega, Zero) and given.room is not None:
        return SquaredNorm().argmax(given.room.point(x) + theta / _small(theta), given.domain)
    return given.omega.argmax(theta, given.domain)


def _jacobian(given: Parts, theta: Array, x: Array, rows: Array) -> Array:
    """J applied to each row of [..., n, k], J the derivative of `_respond` in theta."""
    rows = rows + 0 * theta[..., None, :]
    if isinstance(given.omega, Zero) and given.room is not None:
        small = _small(theta)
        near = (given.room.point(x) + theta / small)[..., None, :]
        return SquaredNorm().jacobian_product(near, given.domain, rows) / small[..., None]
    return given.omega.jacobian_product(theta[..., None, :], given.domain, rows)


def _small(theta: Array) -> Array:
    return backend_of(theta).xp.max(backend_of(theta).xp.abs(theta), axis=-1)[..., None] + 1e-30


def _omega(regularizer: Any, p: Array) -> tuple[Array, Array]:
    """Omega's gradient and second derivatives at a point inside, [..., k] each."""
    xp = backend_of(p).xp
    if isinstance(regularizer, Zero):
        return 0 * p, 0 * p
    slope = regularizer.grad(p)
    spread = regularizer.coordinate_slope(slope, -float("inf"), float("inf"))
    return slope, 1 / xp.where(spread > 0, spread, xp.ones_like(spread))


def _room_above(st: Stacked, s: Array) -> Array:
    """c(s) - s, above zero also for rectifiers that nothing asks for."""
    return st.asked(s) - s + 1e-12


def _turn(st: Stacked, ds: Array) -> Array:
    """The change of c(s) - s with s."""
    return -ds if st.N is None else matvec(transpose(st.N), ds) - ds


def _turn_back(st: Stacked, z: Array) -> Array:
    """The transpose of `_turn`."""
    return -z if st.N is None else matvec(st.N, z) - z


def _mean(x: Array) -> Array:
    xp = backend_of(x).xp
    return xp.mean(xp.abs(x), axis=-1)[..., None] + 1e-3


def _scaled_solve(matrix: Array) -> Callable[[Array], Array]:
    """Solve a symmetric positive semi-definite [..., n, n], scaled to a unit diagonal; finite whatever it holds."""
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

    inverse = xp.linalg.inv(scaled)
    return lambda rhs: scale * matvec(inverse, scale * rhs)
