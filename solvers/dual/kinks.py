"""A concave SPEN with rectifiers, from the dual: the slopes of its hidden units are the unknowns.

w relu(z) = max_{0 <= s <= w} s z, so max_p Phi - Omega = min_{0 <= s <= w} Omega*(u - W^T s) - <s, b> - b2: smooth,
with gradient -(W p + b) and Hessian W J W^T. A projected Newton method minimises it; its systems are solved by
conjugate gradients on products with W, which a batch shares: no h x h matrix is formed.
See `gfy.energies.kinks` for the same dual as a certificate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.energies import kinks
from gfy.numerics.arithmetic import clip, dot, matvec, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from gfy.sets import BandSet
from solvers.methods.newton_system import slope_at

_HALVINGS = 40
_MOST_PRODUCTS = 100


class State(NamedTuple):
    """p [..., k], slopes s [..., h], the dual bound and the projected gradient's size [...]."""

    p: Array
    s: Array
    bound: Array
    error: Array
    noise: Array


class _Krylov(NamedTuple):
    x: Array
    r: Array
    d: Array
    rho: Array
    count: Array


def init(problem: InnerProblem, v: Input, p0: Array | None) -> State:
    energy: Any = problem.energy
    s = kinks.slopes_at(energy, v, problem.initial_point(v, p0))
    return _state(problem, v, s, *_respond(problem, v, s))


def step(problem: InnerProblem, v: Input, state: State) -> State:
    backend = backend_of(v)
    xp = backend.xp
    energy: Any = problem.energy
    top = energy.weights(v) + 0 * state.s
    gradient = -(_times(v.W1, state.p) + v.b1)
    held = ((state.s <= 0) & (gradient > 0)) | ((state.s >= top) & (gradient < 0))
    free = xp.astype(~held, state.s.dtype)
    direction = -_newton(problem, v, state, free, gradient)
    eps = backend.eps(state.s)

    def attempt(scale: Array) -> tuple[Array, ...]:
        s = clip(state.s + scale[..., None] * direction, 0 * top, top)
        p, bound = _respond(problem, v, s)
        promised = state.bound + 1e-4 * dot(gradient, s - state.s)
        return scale, s, p, bound, bound > promised + 4 * eps * (1 + xp.abs(bound))

    def shorten(trial: tuple[Array, ...]) -> tuple[Array, ...]:
        return (*attempt(xp.where(trial[4], trial[0] / 2, trial[0])), trial[5] + 1)

    one = xp.ones_like(state.error)
    _, s, p, bound, bad, _ = backend.while_loop(
        lambda trial: xp.any(trial[4]) & (trial[5] < _HALVINGS), shorten, (*attempt(one), 0 * one.sum())
    )
    s, p = xp.where(bad[..., None], state.s, s), xp.where(bad[..., None], state.p, p)
    return _state(problem, v, s, p, xp.where(bad, state.bound, bound))


def _newton(problem: InnerProblem, v: Input, state: State, free: Array, gradient: Array) -> Array:
    """x with (W J W^T + ridge) x = gradient on the free units, 0 elsewhere."""
    backend = backend_of(v)
    xp = backend.xp
    if isinstance(problem.domain, BandSet):
        D = slope_at(problem, state.p)
        weight = D.sum(-1)[..., None]
        weight = xp.where(weight > 0, weight, xp.ones_like(weight))
        fixed = problem.domain.total is not None

        def J(x: Array) -> Array:
            return D * (x - dot(D, x)[..., None] / weight) if fixed else D * x
    else:
        theta = v.u - _times(transpose(v.W1), state.s)

        def J(x: Array) -> Array:
            return problem.regularizer.jacobian_product(theta, problem.domain, x)

    rows = (v.W1 * v.W1).sum(-1)
    ridge = 1e-11 * xp.max(rows, axis=-1)[..., None] + backend.eps(state.s)

    def product(x: Array) -> Array:
        return free * _times(v.W1, J(_times(transpose(v.W1), x))) + ridge * x

    def ratio(a: Array, b: Array) -> Array:
        return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), 0 * b)[..., None]

    def body(now: _Krylov) -> _Krylov:
        moved = product(now.d)
        alpha = ratio(now.rho, dot(now.d, moved))
        x, r = now.x + alpha * now.d, now.r - alpha * moved
        rho = dot(r, r)
        return _Krylov(x, r, r + ratio(rho, now.rho) * now.d, rho, now.count + 1)

    rhs = free * gradient
    rho = dot(rhs, rhs)
    limit = 1e-10 * rho + 1e-300
    start = _Krylov(0 * rhs, rhs, rhs, rho, xp.sum(0 * rho))
    most = min(_MOST_PRODUCTS, 2 * state.s.shape[-1] + 4)
    return backend.while_loop(lambda now: xp.any(now.rho > limit) & (now.count < most), body, start).x


def _respond(problem: InnerProblem, v: Input, s: Array) -> tuple[Array, Array]:
    theta = v.u - _times(transpose(v.W1), s)
    p = problem.regularizer.argmax(theta, problem.domain)
    return p, dot(theta, p) - problem.regularizer.value(p) - dot(s, v.b1) - v.b2


def _times(matrix: Array, x: Array) -> Array:
    """matrix [n, k] shared by the batch, or [..., n, k], times x [..., k]."""
    return x @ transpose(matrix) if matrix.ndim == 2 else matvec(matrix, x)


def _state(problem: InnerProblem, v: Input, s: Array, p: Array, bound: Array) -> State:
    """How far a unit gradient step would still move s in the worst unit, and how much of it is rounding."""
    backend = backend_of(v)
    xp = backend.xp
    top = problem.energy.weights(v) + 0 * s  # type: ignore[attr-defined]
    z = _times(v.W1, p) + v.b1
    error = xp.max(xp.abs(clip(s + z, 0 * top, top) - s), axis=-1)
    size = xp.max(xp.abs(z), axis=-1) + xp.max(xp.abs(s), axis=-1)
    return State(p, s, bound, error, 8 * backend.eps(p) * (1 + size))
