"""Keep the active set of Frank-Wolfe: n slots of atoms [..., n, k] with weights [..., n]; an empty slot has
weight 0."""

from __future__ import annotations

from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import matvec, one_hot_of_largest
from gfy.protocols import Array


class Move(NamedTuple):
    """Hold a direction d [..., k], its longest step [...], and the slots that it takes weight from and gives
    weight to."""

    direction: Array
    most: Array
    source: Array  # [..., n]: weights lose size * source
    target: Array  # [..., n]: weights gain size * target
    slot: Array  # [..., n] one-hot: where a new vertex would be written
    enters: Array  # [...] bool: whether the vertex is given weight


def choose(variant: str, state: Any, vertex: Array, gap: Array) -> Move:
    """Return the direction that the variant takes at this state."""
    xp = backend_of(vertex).xp
    weights, atoms = state.weights, state.atoms
    held = weights > 0
    scores = matvec(atoms, state.g)
    far = xp.full_like(scores, float("inf"))
    worst = one_hot_of_largest(xp.where(held, -scores, -far))
    slot, room = _slot(xp, weights, atoms, vertex)
    share = (worst * weights).sum(-1)
    bad = (worst[..., None] * atoms).sum(-2)
    one = xp.ones_like(gap)
    best = one_hot_of_largest(xp.where(held, scores, -far))
    good = (best[..., None] * atoms).sum(-2)
    local = (state.g * (good - bad)).sum(-1)
    forward = Move(vertex - state.p, one, weights, slot, slot, room)
    # a move among the atoms that have a weight
    inside = Move(good - bad, share, worst, best, slot, room & False)
    if variant == "classic":
        return _either(xp, room, forward, inside)
    if variant == "blended":
        return _either(xp, (local >= gap) | ~room, inside, forward)
    if variant == "pairwise":
        return _either(xp, room, Move(vertex - bad, share, worst, slot, slot, room), inside)
    back = (state.g * (state.p - bad)).sum(-1)
    away = (back > gap) & (share < 1)
    longest = share / xp.where(away, 1 - share, one)
    leave = Move(state.p - bad, longest, worst - weights, 0 * slot, slot, room & False)
    return _either(xp, away, leave, _either(xp, room, forward, inside))


def _either(xp: Any, which: Array, a: Move, b: Move) -> Move:
    """Return a where `which`, and b elsewhere."""

    def pick(x: Array, y: Array) -> Array:
        return xp.where(which[..., None], x, y) if x.ndim > which.ndim else xp.where(which, x, y)

    return Move(*(pick(x, y) for x, y in zip(a, b, strict=True)))


def apply(move: Move, state: Any, vertex: Array, size: Array) -> tuple[Array, Array]:
    """Return the weights and atoms after a step of this size."""
    xp = backend_of(vertex).xp
    used = move.enters & (size > 0)
    write = (move.slot > 0) & used[..., None]
    atoms = xp.where(write[..., None], vertex[..., None, :], state.atoms)
    weights = state.weights - size[..., None] * (move.source - move.target)
    weights = xp.where(weights > 1e-15, weights, 0 * weights)
    total = weights.sum(-1)[..., None]
    return weights / xp.where(total > 0, total, xp.ones_like(total)), atoms


def _slot(xp: Any, weights: Array, atoms: Array, vertex: Array) -> tuple[Array, Array]:
    """Return the slot that holds or could hold the vertex (one-hot [..., n]), and whether there is such a
    slot [...]."""
    apart = xp.max(xp.abs(atoms - vertex[..., None, :]), axis=-1)
    same = (apart <= 1e-12) & (weights > 0)
    known = xp.any(same, axis=-1)
    empty = xp.where(weights > 0, weights, 0 * weights - 1)
    slot = one_hot_of_largest(xp.where(same, 2 + 0 * weights, -empty))
    return slot, known | xp.any(weights <= 0, axis=-1)
