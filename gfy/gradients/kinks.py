"""Differentiate at kinks: the maximum is a saddle point, whose multipliers say which slope each rectifier has.

Replace relu(a) by t a (see `gfy.energies.kinks`). Then max_p Phi - Omega = min_t max_p F(v, p, t) - Omega(p), with t
in a set that does not depend on v. Where the multipliers t* are unique, the derivative of the maximum is dF/dv at
(p*, t*), by the envelope theorem at the saddle point. p* moves with v so that it stays on its kinks. They are
equations of the implicit function theorem, with their multipliers as further unknowns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from gfy import saddle
from gfy.backend import backend_of, get_backend
from gfy.energies.kinks import Stacked, stacked
from gfy.errors import UnsupportedError
from gfy.gradients.cusp import at_cusp
from gfy.gradients.linear import System, kink_system
from gfy.numerics.arithmetic import matvec
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input


def unsupported(problem: InnerProblem) -> str | None:
    """Return a sentence why the multipliers of the energy's kinks cannot be found, or None where they can or
    need not be."""
    return saddle.unsupported(problem.regularizer, problem.domain) if problem.energy.kinked else None


def at_saddle(problem: InnerProblem, v: Input, p: Array, value: Array, moving: bool = False) -> Array:
    """Return value [...], computed at the solution p, with the derivative in v that the maximum has there.

    Nothing changes for energies without kinks. The multipliers are found where a derivative is needed. `moving` gives
    them their own derivative in v, which second derivatives need.
    """
    if not problem.energy.kinked:
        return at_cusp(problem, v, p, value)
    reason = unsupported(problem)
    if reason is not None:
        raise UnsupportedError(f"the derivative of the maximum on {problem.name}: {reason}")
    energy = problem.energy
    backend = backend_of(v)

    def change(both: tuple[Input, Array], _: Array) -> Array:
        """Return the change from replacing relu(a) by t a: it is zero at p, but its derivatives are not."""
        v, p = both
        fixed = backend.stop_gradient((v, p))
        s = multipliers(problem, *fixed)
        t = _stacked(problem, *fixed).ratio(s)
        if moving:
            _, s = attached(problem, v, fixed[1], s)
            t = _stacked(problem, v, fixed[1]).ratio(s)
        found = energy.kinks(v, fixed[1])
        assert found is not None
        return found.unfolded(p, t) - energy.value(v, p)

    same = lambda x: x  # noqa: E731
    return value + backend.attach(
        0 * backend.stop_gradient(value), (v, p), change, lambda *_: (same, same, same)
    )


def multipliers(problem: InnerProblem, v: Input, p: Array) -> Array:
    """Return the multipliers s [..., n] of the saddle point as a constant; p [..., k] is the solution. It
    gives a first guess of the signs, and an energy that is not concave is examined there."""
    try:
        staged = _staged(problem, backend_of(v).name)
    except TypeError:  # A part of the problem cannot be hashed, so the staged function cannot be kept.
        return _solve(problem, v, p)
    return staged(v, p)


@lru_cache(maxsize=256)
def _staged(problem: InnerProblem, backend: str) -> Callable[[Input, Array], Array]:
    """Return the dual solve as one staged function: outside jit a loop would be compiled at every call."""
    return get_backend(backend).jit(lambda v, p: _solve(problem, v, p))


def _solve(problem: InnerProblem, v: Input, p: Array) -> Array:
    at = None if problem.energy.concave else p
    _, found = saddle.saddle_of(problem.energy, v, problem.regularizer, problem.domain, p, at)
    return backend_of(v).stop_gradient(found.s)


def attached(problem: InnerProblem, v: Input, p: Array, s: Array) -> tuple[Array, Array]:
    """Return p [..., k] and the multipliers s [..., n], given as constants, with their derivatives in v attached."""
    backend = backend_of(v)
    k = p.shape[-1]

    def image(v: Input, x: Array) -> Array:
        """Return the right-hand side of the saddle point's equations x = image(v, x): p = p_Omega(theta), a =
        0 at the kinks."""
        states = _states(problem, v, x, k)
        st = _stacked(problem, v, backend.stop_gradient(x)[..., :k])
        theta = st.scores(st.spread(states.on, states.kink * x[..., k:]))
        base = matvec(st.M, x[..., :k]) + st.b
        a = base
        for _ in st.rounds():
            a = base + matvec(st.N, states.on * a)
        held = backend.stop_gradient(x[..., k:])
        rest = states.kink * (x[..., k:] + a) + (1 - states.kink) * held
        return backend.xp.concat([problem.regularizer.argmax(theta, problem.domain), rest], axis=-1)

    def system(v: Input, x: Array) -> System:
        states = _states(problem, v, x, k)
        st = _stacked(problem, v, backend.stop_gradient(x)[..., :k])
        theta = st.scores(st.spread(states.on, states.kink * x[..., k:]))
        return kink_system(problem, theta, states.kink[..., None] * st.linear(states.on), states.kink)

    x = backend.attach(backend.xp.concat([p, s + 0 * p[..., :1]], axis=-1), v, image, system)
    states = _states(problem, v, x, k)
    st = _stacked(problem, v, backend.stop_gradient(p))
    return x[..., :k], st.spread(states.on, states.kink * x[..., k:])


class _States(NamedTuple):
    """Hold which rectifiers pass, and on which kinks p lies: 1.0 or 0.0, [..., n]."""

    on: Array
    kink: Array


def _states(problem: InnerProblem, v: Input, x: Array, k: int) -> _States:
    """Call a rectifier a kink where its pre-activation is nearer to zero than its multiplier is to its bounds."""
    backend = backend_of(v, x)
    xp = backend.xp
    v, x = backend.stop_gradient((v, x))
    p, s = x[..., :k], x[..., k:]
    st = _stacked(problem, v, p)
    a, t = st.inner(p), st.ratio(s)
    size = matvec(xp.abs(st.M), xp.abs(p)) + xp.abs(st.b) + backend.eps(s)
    kink = (st.asked(s) > 0) & (xp.abs(a) <= size * xp.minimum(t, 1 - t))
    return _States(xp.astype((a > 0) & ~kink, s.dtype), xp.astype(kink, s.dtype))


def _stacked(problem: InnerProblem, v: Input, p: Array) -> Stacked:
    found: Any = problem.energy.kinks(v, p)
    return stacked(found, tuple(p.shape[:-1]))
