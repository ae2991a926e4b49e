"""Take projected Newton steps on the dual D(s) without matrices: a few solve most well-conditioned problems.

Multipliers at a bound that the gradient pushes outwards are held there, and the others take a Newton step. Its system
Q J Q^T is solved by conjugate gradients, on products with matrices that a batch shares. A line search along the
projected path makes D decrease.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.energies.kinks import Stacked
from gfy.numerics.arithmetic import dot, matvec, transpose
from gfy.protocols import Array
from gfy.saddle.response import Parts, diagonal_jacobian, respond

_HALVINGS = 20
_MOST_PRODUCTS = 100


def serves(given: Parts) -> bool:
    """Return whether products with J are cheap: on boxes and simplices J is a diagonal, less one multiplier."""
    return bool(given.omega.separable and given.domain.banded)


def step(given: Parts, s: Array, p: Array) -> tuple[Array, Array, Array]:
    """Return s [..., n] and p [..., k] after one step, and whether D fell [...]; feasible s, p = p_Omega(theta(s))."""
    st, backend = given.st, backend_of(s)
    xp = backend.xp
    on, free, a = _held(st, s, p)
    direction = _direction(given, s, on, free, free * a)
    before = _dual(given, st.scores(s), p, s)
    allowed = before + 4 * backend.eps(s) * (1 + xp.abs(before))

    def attempt(scale: Array) -> tuple[Array, ...]:
        new = st.feasible(on, free * (s + scale[..., None] * direction))
        theta = st.scores(new)
        q = respond(given, theta, p)
        return scale, new, q, _dual(given, theta, q, new) > allowed - 1e-4 * dot(free * a, new - s)

    def shorten(trial: tuple[Array, ...]) -> tuple[Array, ...]:
        return (*attempt(xp.where(trial[3], trial[0] / 2, trial[0])), trial[4] + 1)

    one = xp.ones_like(before)
    _, new, q, bad, _ = backend.while_loop(
        lambda trial: xp.any(trial[3]) & (trial[4] < _HALVINGS), shorten, (*attempt(one), xp.sum(0 * one))
    )
    keep = ~bad[..., None]
    return xp.where(keep, new, s), xp.where(keep, q, p), ~bad


def _held(st: Stacked, s: Array, p: Array) -> tuple[Array, Array, Array]:
    """Return which multipliers are at their upper bound, which are free (1.0 or 0.0), and minus D's gradient
    in the free ones."""
    xp = backend_of(s).xp
    base = matvec(st.M, p) + st.b
    full = s >= st.asked(s)
    a = base
    for _ in st.rounds():
        a = base + matvec(st.N, xp.where(full & (a > 0), a, 0 * a))
    on = full & (a > 0)
    off = (s <= 0) & (a < 0) & ~on
    return xp.astype(on, s.dtype), xp.astype(~on & ~off, s.dtype), a


def _dual(given: Parts, theta: Array, p: Array, s: Array) -> Array:
    return dot(theta, p) - given.omega.value(p) - dot(s, given.st.b)


class _Krylov(NamedTuple):
    x: Array
    r: Array
    d: Array
    rho: Array
    count: Array


def _direction(given: Parts, s: Array, on: Array, free: Array, rhs: Array) -> Array:
    """Return x with (Q J Q^T + ridge) x = rhs on the free multipliers, 0 elsewhere."""
    st, backend = given.st, backend_of(s)
    xp = backend.xp
    J = diagonal_jacobian(given, st.scores(s))
    ridge = 1e-11 * xp.max((st.M * st.M).sum(-1), axis=-1)[..., None] + backend.eps(s)

    def product(x: Array) -> Array:
        down = x
        for _ in st.rounds():
            down = x + on * matvec(transpose(st.N), down)
        base = matvec(st.M, J(matvec(transpose(st.M), down)))
        up = base
        for _ in st.rounds():
            up = base + matvec(st.N, on * up)
        return free * up + ridge * x

    def ratio(a: Array, b: Array) -> Array:
        return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), 0 * b)[..., None]

    def body(now: _Krylov) -> _Krylov:
        moved = product(now.d)
        alpha = ratio(now.rho, dot(now.d, moved))
        x, r = now.x + alpha * now.d, now.r - alpha * moved
        rho = dot(r, r)
        return _Krylov(x, r, r + ratio(rho, now.rho) * now.d, rho, now.count + 1)

    rho = dot(rhs, rhs)
    limit = 1e-10 * rho + 1e-300
    first = _Krylov(0 * rhs, rhs, rhs, rho, xp.sum(0 * rho))
    most = min(_MOST_PRODUCTS, 2 * s.shape[-1] + 4)
    return backend.while_loop(lambda now: xp.any(now.rho > limit) & (now.count < most), body, first).x
