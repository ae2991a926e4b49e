"""Run a second solver on the examples that a first one leaves unsolved.

Staging a second method would cost every user its compilation time, although very few examples need it. On a processor
the second solver therefore runs on the host, in NumPy and float64, on those examples alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gfy.backend import backend_of, leaves, tree_map
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers.host import shaped, unflat


def again(
    solver: Any, problem: InnerProblem, v: Input, p0: Array | None, stop: Stop, solved: Array
) -> Solution:
    """Return the solver's answers; the answers of examples that are already `solved` [...] may be anything."""
    backend = backend_of(v)
    if not (in_numpy(problem) and backend.on_host(*leaves(v))):
        return solver.solve(problem, v, p0, stop)  # type: ignore[no-any-return]
    point = problem.initial_point(v, p0)

    def host(v: Any, point: np.ndarray, solved: np.ndarray) -> Solution:
        k = point.shape[-1]
        # Under a map over an axis that the start does not have, the start has length 1 along that axis.
        batch = np.broadcast_shapes(point.shape[:-1], np.shape(solved))
        left = np.flatnonzero(~np.broadcast_to(solved, batch).ravel())
        flat = np.broadcast_to(point, (*batch, k)).reshape(-1, k).astype(np.float64)
        steps, result = np.zeros((2, len(flat)), dtype=np.int32)
        found = Solution(flat.copy(), np.full(len(flat), np.inf), steps, steps > 0, result)
        if len(left):
            with np.errstate(all="ignore"):
                part = solver.solve(problem, _examples(problem, v, batch, left), flat[left], stop)
            for whole, new in zip(found, part, strict=True):
                whole[left] = new
        return unflat(found, batch)

    return backend.by_platform(  # type: ignore[no-any-return]
        lambda v, point, solved: backend.callback(host, shaped(point), v, point, solved, batched=True),
        lambda v, point, solved: solver.solve(problem, v, point, stop),
        v, point, solved,
    )  # fmt: skip


def better(problem: InnerProblem, v: Input, first: Solution, second: Solution) -> Solution:
    """Return for each example the answer that converged, and of two that did not the one with the higher value."""
    backend = backend_of(v)
    xp = backend.xp
    if backend.is_concrete(second) and bool(xp.all(first.converged | second.converged)):
        taken = ~first.converged  # no value needs to be computed
    else:
        higher = problem.value(v, second.p) > problem.value(v, first.p)
        taken = ~first.converged & (second.converged | higher)

    def pick(new: Array, old: Array) -> Array:
        mask = taken[..., None] if new.ndim > taken.ndim else taken
        return xp.where(mask, xp.astype(new, old.dtype), old)

    chosen = tree_map(pick, second, first)
    # The steps of an example are the sum of both.
    spent = xp.where(first.converged, first.steps, xp.maximum(first.steps, 0 * first.steps) + second.steps)
    return chosen._replace(steps=spent)


def in_numpy(problem: InnerProblem) -> bool:
    """Return whether a solve needs no framework: derivatives are formulas, or kinks are solved by multipliers."""
    energy = problem.energy
    return energy.array_api and (energy.explicit_hessian or energy.kinked) and hasattr(energy, "ranks")


def _examples(problem: InnerProblem, v: Any, batch: tuple[int, ...], which: np.ndarray) -> Any:
    """Return some examples of a batch along one axis, in float64; what the batch shares stays shared."""
    ranks = problem.energy.ranks

    def take(leaf: np.ndarray, rank: int) -> np.ndarray:
        leaf = np.asarray(leaf, dtype=np.float64)
        event = leaf.shape[leaf.ndim - rank :]
        if leaf.size == int(np.prod(event)):
            return leaf.reshape(event)
        return np.broadcast_to(leaf, (*batch, *event)).reshape(-1, *event)[which]

    return type(v)(**{field: take(getattr(v, field), rank) for field, rank in ranks.items()})
