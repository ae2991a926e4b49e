"""The active set of Frank-Wolfe: n slots of atoms [..., n, k] with weights [..., n]; an empty slot has weight 0."""

from __future__ import annotations

from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.math import matvec
from gfy.protocols import Array


class Move(NamedTuple):
    """A direction d [..., k], its longest step [...], and what it takes weight from and gives weight to."""

    direction: Array
    most: Array
    source: Array  # [..., n]: weights lose size * source
    target: Array  # [..., n]: weights gain size * target
    slot: Array  # [..., n] one-hot: where a new vertex would be written
    enters: Array  # [...] bool: whether the vertex is given weight


def choose(variant: str, state: Any, vertex: Array, gap: Array) -> Move:
    """The direction that the variant takes at this state."""
    xp = backend_of(vertex).xp
    weights, atoms = state.weights, state.atoms
    held = weights > 0
    scores = matvec(atoms, state.g)
    far = xp.full_like(scores, float("inf"))
    worst = _hot(xp, xp.where(held, -scores, -far))
    slot, room = _slot(xp, weights, atoms, vertex)
    share = (worst * weights).sum(-1)
    bad = (worst[..., None] * atoms).sum(-2)
    enters = room
    one = xp.ones_like(gap)
    if variant == "classic":
        # a full set can still mix what it holds: p itself then becomes an atom
        return Move(vertex - state.p, one, weights, slot, slot, enters | ~room)
    if variant == "away":
        back = (state.g * (state.p - bad)).sum(-1)
        away = (back > gap) & (share < 1)
        longest = xp.where(away, share / xp.where(away, 1 - share, one), one)
        d = xp.where(away[..., None], state.p - bad, vertex - state.p)
        source = xp.where(away[..., None], worst - weights, weights)
        return Move(d, longest, source, xp.where(away[..., None], 0 * slot, slot), slot, ~away)
    if variant == "pairwise":
        return Move(vertex - bad, share, worst, slot, slot, gap > -1e300)
    best = _hot(xp, xp.where(held, scores, -far))
    good = (best[..., None] * atoms).sum(-2)
    local = (state.g * (good - bad)).sum(-1)
    inside = (local >= gap) | ~room
    d = xp.where(inside[..., None], good - bad, vertex - state.p)
    source = xp.where(inside[..., None], worst, weights)
    target = xp.where(inside[..., None], best, slot)
    return Move(d, xp.where(inside, share, one), source, target, slot, ~inside)


def apply(move: Move, state: Any, vertex: Array, size: Array) -> tuple[Array, Array]:
    """Weights and atoms after a step of this size."""
    xp = backend_of(vertex).xp
    used = move.enters & (size > 0)
    write = (move.slot > 0) & used[..., None]
    atoms = xp.where(write[..., None], vertex[..., None, :], state.atoms)
    weights = state.weights - size[..., None] * (move.source - move.target)
    weights = xp.where(weights > 1e-15, weights, 0 * weights)
    total = weights.sum(-1)[..., None]
    return weights / xp.where(total > 0, total, xp.ones_like(total)), atoms


def _slot(xp: Any, weights: Array, atoms: Array, vertex: Array) -> tuple[Array, Array]:
    """Where the vertex is, or could be, kept (one-hot [..., n]), and whether there is such a place [...]."""
    apart = xp.max(xp.abs(atoms - vertex[..., None, :]), axis=-1)
    same = (apart <= 1e-12) & (weights > 0)
    known = xp.any(same, axis=-1)
    empty = xp.where(weights > 0, weights, 0 * weights - 1)
    slot = _hot(xp, xp.where(same, 2 + 0 * weights, -empty))
    return slot, known | xp.any(weights <= 0, axis=-1)


def _hot(xp: Any, scores: Array) -> Array:
    best = xp.argmax(scores, axis=-1)[..., None]
    place = {"device": scores.device} if hasattr(scores, "is_cuda") else {}
    return xp.astype(xp.arange(scores.shape[-1], **place) == best, scores.dtype)
