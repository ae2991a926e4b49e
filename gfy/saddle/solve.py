"""Find the saddle point of a concave energy with kinks: p and the multipliers s of its rectifiers, for a whole batch.

The dual problem min_{s in S} D(s) (see `gfy.energies.kinks`) is first tried by a few cheap Newton steps, where these
exist (`gfy.saddle.newton`). Examples that they do not solve continue by an interior-point method
(`gfy.saddle.interior`). After each of its steps, the nearby kinks are taken as equations and solved by one Newton
step, which finds them exactly near the end. Multipliers are always feasible, so that D(s) is an upper bound of the
maximum at every step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.energies.kinks import Stacked, stacked
from gfy.numerics.arithmetic import dot, relu
from gfy.protocols import Array
from gfy.saddle import interior, newton
from gfy.saddle.response import Parts, parts, respond

_TRIES = 12  # cheap Newton steps before the interior-point method takes over
# Interior-point steps. A problem that these do not solve is not solved by more of them.
_STEPS = 60


class Saddle(NamedTuple):
    """Hold p [..., k], the multipliers s [..., n], their distance from a saddle point [...], and the state of
    the search."""

    p: Array
    s: Array
    error: Array  # the larger of the worst rectifier's violation of optimality and the relative duality gap
    noise: Array  # the part of the error that rounding causes
    gap: Array  # D(s) minus the value at p, an upper bound of p's suboptimality
    tries: Array  # cheap Newton steps so far
    inner: interior.Inner


def saddle_of(
    energy: Any, v: Any, regularizer: Any, domain: Any, p: Array | None = None, at: Array | None = None
) -> tuple[Stacked, Saddle]:
    """Return the kinks of an energy and the saddle point they make with Omega on the set; no derivative passes.

    p [..., k] is a guess. `at` [..., k] is the point at which an energy that is not concave is examined.
    """
    backend = backend_of(v)
    v, p, at = backend.stop_gradient((v, p, at))
    shape = tuple(energy.batch_shape(v)) if at is None else tuple(at.shape[:-1])
    st = stacked(energy.kinks(v, at), shape)
    return st, find(parts(st, regularizer, domain), p)


def find(given: Parts, p: Array | None = None) -> Saddle:
    """Return the saddle point, as near as `_STEPS` steps and rounding allow."""
    backend = backend_of(given.st.slope)
    xp = backend.xp

    def going(now: tuple[Saddle, Array]) -> Array:
        return xp.any(now[0].error > now[0].noise) & (now[1] < _TRIES + _STEPS)

    with np.errstate(all="ignore"):  # A finished example may divide by zero; its step is not taken.
        first = start(given, p)
        state = (first, xp.sum(0 * first.noise))
        found: Saddle = backend.while_loop(going, lambda now: (step(given, now[0]), now[1] + 1), state)[0]
    return found


def start(given: Parts, p: Array | None = None) -> Saddle:
    """Return the multipliers of the tangent at p, or in the middle of the set."""
    st, backend = given.st, backend_of(given.st.slope)
    xp = backend.xp
    inner = interior.start(given)
    a = st.inner(given.domain.center(st.slope) if p is None else p + 0 * st.slope) + 0 * inner.s
    on = xp.where(a > 0, xp.ones_like(a), xp.where(a < 0, 0 * a, 0.5 + 0 * a))
    s = st.spread(on, 0 * on)
    p = respond(given, st.scores(s), inner.x)
    found = _measure(given, s, p)
    tries = xp.astype(0 * found[0], xp.int32)
    return Saddle(p, s, *found, tries if newton.serves(given) else tries + _TRIES, inner)


def step(given: Parts, state: Saddle) -> Saddle:
    """Take one Newton step for the examples that still use them, and one interior-point step for the others."""
    backend = backend_of(state.s)
    active = state.error > state.noise
    trying = active & (state.tries < _TRIES)
    rest = active & ~trying
    same = lambda now: now  # noqa: E731
    if newton.serves(given):
        state = backend.cond(backend.xp.any(trying), lambda now: _try(given, now, trying), same, state)
    return backend.cond(backend.xp.any(rest), lambda now: _go_inside(given, now, rest), same, state)


def _try(given: Parts, state: Saddle, trying: Array) -> Saddle:
    xp = backend_of(state.s).xp
    s, p, fell = newton.step(given, state.s, state.p)
    moved = _taken(state, trying & fell, p, s, _measure(given, s, p))
    tries = xp.where(fell, state.tries + 1, 0 * state.tries + _TRIES)
    return moved._replace(tries=xp.where(trying, tries, state.tries))


def _taken(state: Saddle, where: Array, p: Array, s: Array, measured: tuple[Array, Array, Array]) -> Saddle:
    """Return the state with another point in the examples `where` [...]."""
    pick = backend_of(s).xp.where
    error, noise, gap = measured
    return state._replace(
        p=pick(where[..., None], p, state.p),
        s=pick(where[..., None], s, state.s),
        error=pick(where, error, state.error),
        noise=pick(where, noise, state.noise),
        gap=pick(where, gap, state.gap),
    )


def _go_inside(given: Parts, state: Saddle, going: Array) -> Saddle:
    """Take one interior step; keep its multipliers, and those of the nearby kinks, where they are nearer to a
    saddle."""
    st, xp = given.st, backend_of(state.s).xp
    new = interior.step(given, state.inner)
    for part in new:  # An example stays where it is when rounding has made its step infinite or NaN.
        going = going & xp.isfinite(part.sum(-1))
    pairs = zip(new, state.inner, strict=True)
    inner = interior.Inner(*(xp.where(going[..., None], after, before) for after, before in pairs))
    s = st.feasible(0 * inner.s, xp.stack([inner.s, interior.finish(given, inner)]))
    p = respond(given, st.scores(s), inner.x)
    measured = _measure(given, s, p)
    state = state._replace(inner=inner)
    for i in range(2):
        one = measured[0][i], measured[1][i], measured[2][i]
        state = _taken(state, going & (one[0] < state.error), p[i], s[i], one)
    return state


def _measure(given: Parts, s: Array, p: Array) -> tuple[Array, Array, Array]:
    """Return the distance of feasible multipliers s [..., n] and their p from a saddle, the part of rounding,
    and the gap.

    D(s) minus the value at p is sum s y + r z. Here y and z are the negative and the positive parts of the
    pre-activations, and r is the distance from s to the upper end of its range. No digits cancel in this sum.
    """
    st, backend = given.st, backend_of(s)
    xp = backend.xp
    theta, a = st.scores(s), st.inner(p)
    r = relu(st.asked(s) - s)
    y, z = relu(-a), relu(a)
    apart = xp.maximum(xp.minimum(s, y), xp.minimum(r, z))
    gap = dot(s, y) + dot(r, z)
    if given.omega.zero:
        gap = gap + relu(given.domain.support(theta) - dot(theta, p))
    value = xp.abs(dot(theta, p) - dot(s, st.b))
    # `size` stands for the rounding of a and s, and `blur` for that of theta, which moves p by at most its
    # size / gamma.
    size = 1 + xp.max(xp.abs(a) + xp.abs(st.b), axis=-1) + xp.max(s, axis=-1)
    gamma = given.omega.strong_convexity(given.domain) or 1.0
    blur = xp.max(xp.abs(theta), axis=-1) * xp.max(xp.sum(xp.abs(st.M), axis=-1), axis=-1) / gamma
    noise = backend.eps(s) * ((256 if given.omega.zero else 16) * size + blur)
    return xp.maximum(xp.max(apart, axis=-1), gap / (1 + value)), noise, gap
