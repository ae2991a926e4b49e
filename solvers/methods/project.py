"""Project the end of a gradient step; on the simplex without a sort and without a bracket.

sum relu(x - tau) is convex and decreasing in tau. Newton's steps on its equation with 1 therefore increase from the
left to the root, and end there after finitely many steps (Michelot's method). Each step is one pass over x.
Reference: Michelot (1986); Condat (2016).
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.protocols import Array
from gfy.sets import ConvexSet

_MAX_STEPS = 100


class _State(NamedTuple):
    tau: Array  # [..., 1]
    held: Array  # [..., 1] how many coordinates are above tau
    moved: Array  # [] bool: whether any example is still moving
    step: Array


def project(domain: ConvexSet, x: Array) -> Array:
    """Return argmin_{p in C} |p - x|, [..., k]; it is differentiable."""
    if not domain.simplex:
        return domain.project(x)
    backend = backend_of(x)
    xp = backend.xp
    fixed = backend.stop_gradient(x)

    def body(state: _State) -> _State:
        above = xp.astype(fixed > state.tau, x.dtype)
        held = above.sum(-1)[..., None]
        excess = (above * (fixed - state.tau)).sum(-1)[..., None] - 1
        tau = state.tau + excess / xp.where(held > 0, held, xp.ones_like(held))
        return _State(tau, held, xp.any(held != state.held), state.step + 1)

    # The start is the larger of the tau for the largest coordinate alone and the tau for all coordinates. At
    # both the sum is at least 1.
    start = xp.maximum(xp.max(fixed, axis=-1)[..., None] - 1, (fixed.sum(-1)[..., None] - 1) / x.shape[-1])
    first = _State(start, 0 * start - 1, xp.any(start == start), xp.sum(0 * start))
    tau = backend.while_loop(lambda s: s.moved & (s.step < _MAX_STEPS), body, first).tau
    above = xp.astype(fixed > backend.stop_gradient(tau), x.dtype)
    held = above.sum(-1)[..., None]
    exact = ((above * x).sum(-1)[..., None] - 1) / xp.where(held > 0, held, xp.ones_like(held))
    return xp.where(x > exact, x - exact, 0 * x)
