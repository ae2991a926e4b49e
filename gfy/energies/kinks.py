"""Rectifier priors seen from the dual: choose the slopes of the hidden units.

w relu(z) = max_{0 <= s <= w} s z, so for a concave SPEN

    max_{p in C} Phi(v, p) - Omega(p)  =  min_{0 <= s <= w}  D(s) = Omega*(u - W^T s) - <s, b> - b2,

and D(s) is an upper bound for every s. D is convex and smooth where Omega is strongly convex; its gradient is
-(W p_Omega(u - W^T s) + b) and its Hessian W J W^T. A projected Newton method with a line search minimises it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import clip, dot, matvec, solve, transpose
from gfy.protocols import Array

if TYPE_CHECKING:
    from gfy.energies.network import ConcaveSpen

_HALVINGS = 40


class Slopes(NamedTuple):
    """Where the dual method stands: slopes s [..., h], the p they induce, D(s) and the projected gradient's size."""

    s: Array
    p: Array  # [..., k]
    bound: Array  # [...]
    error: Array  # [...]
    steps: Array  # [...]
    count: Array  # [] steps so far


def slopes_at(energy: ConcaveSpen, v: Any, p: Array) -> Array:
    """The slopes of the tangent at p, [..., h]; half-way on a kink."""
    z = energy.hidden(v, p)
    xp = backend_of(z).xp
    on = xp.where(z > 0, xp.ones_like(z), xp.where(z < 0, xp.zeros_like(z), xp.zeros_like(z) + 0.5))
    return energy.weights(v) * on


def start(energy: ConcaveSpen, v: Any, s: Array, regularizer: Any, domain: Any) -> Slopes:
    """The dual method's state at slopes s."""
    p, bound = _respond(energy, v, s, regularizer, domain)
    error = _error(energy, v, s, p)
    zero = 0 * error
    return Slopes(s, p, bound, error, zero, zero.sum())


def step(energy: ConcaveSpen, v: Any, state: Slopes, regularizer: Any, domain: Any) -> Slopes:
    """One projected Newton step on D with backtracking; examples that cannot be improved stay where they are."""
    backend = backend_of(v)
    xp = backend.xp
    top = energy.weights(v) + 0 * state.s
    gradient = -energy.hidden(v, state.p)
    free = ~((state.s <= 0) & (gradient > 0)) & ~((state.s >= top) & (gradient < 0))
    mask = xp.astype(free, state.s.dtype)
    theta = v.u - matvec(transpose(v.W1), state.s)
    curved = regularizer.jacobian_product(theta[..., None, :], domain, v.W1 + 0 * theta[..., None, :])
    hessian = curved @ transpose(v.W1)
    h = state.s.shape[-1]
    eye = backend.asarray([[float(i == j) for j in range(h)] for i in range(h)], like=state.s)
    size = (hessian * eye).sum(-1).sum(-1) / h
    ridge = 1e-10 * size + backend.eps(state.s)
    system = (
        mask[..., :, None] * hessian * mask[..., None, :] + eye * (1 - mask + ridge[..., None])[..., None, :]
    )
    direction = -solve(system, mask * gradient)

    def attempt(scale: Array) -> tuple[Array, ...]:
        s = clip(state.s + scale[..., None] * direction, 0.0 * top, top)
        p, bound = _respond(energy, v, s, regularizer, domain)
        promised = state.bound + 1e-4 * dot(gradient, s - state.s)
        return scale, s, p, bound, bound > promised + 4 * backend.eps(bound) * (1 + xp.abs(bound))

    def shorten(trial: tuple[Array, ...]) -> tuple[Array, ...]:
        return (*attempt(xp.where(trial[4], trial[0] / 2, trial[0])), trial[5] + 1)

    one = xp.ones_like(state.error)
    scale, s, p, bound, bad, _ = backend.while_loop(
        lambda trial: xp.any(trial[4]) & (trial[5] < _HALVINGS), shorten, (*attempt(one), 0 * one.sum())
    )
    s, p = xp.where(bad[..., None], state.s, s), xp.where(bad[..., None], state.p, p)
    bound = xp.where(bad, state.bound, bound)
    error = _error(energy, v, s, p)
    return Slopes(s, p, bound, error, state.steps + 1, state.count + 1)


def best_slopes(
    energy: ConcaveSpen, v: Any, p: Array, regularizer: Any, domain: Any, steps: int = 60
) -> Array:
    """Slopes s [..., h] whose bound D(s) is as small as `steps` Newton steps from the tangent at p make it."""
    backend = backend_of(v, p)
    xp = backend.xp
    state = start(energy, v, slopes_at(energy, v, p), regularizer, domain)
    tol = 64 * backend.eps(p)
    final = backend.while_loop(
        lambda s: xp.any(s.error > tol) & (s.count < steps),
        lambda s: step(energy, v, s, regularizer, domain),
        state,
    )
    return final.s


def _respond(energy: ConcaveSpen, v: Any, s: Array, regularizer: Any, domain: Any) -> tuple[Array, Array]:
    theta = v.u - matvec(transpose(v.W1), s)
    p = regularizer.argmax(theta, domain)
    return p, dot(theta, p) - regularizer.value(p) - dot(s, v.b1) - v.b2


def _error(energy: ConcaveSpen, v: Any, s: Array, p: Array) -> Array:
    """How far a unit gradient step would still move s, in the worst unit."""
    xp = backend_of(p).xp
    top = energy.weights(v) + 0 * s
    moved = clip(s + energy.hidden(v, p), 0.0 * top, top) - s
    return xp.max(xp.abs(moved), axis=-1)
