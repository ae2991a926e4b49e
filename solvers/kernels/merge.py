"""Merge a mapped axis into the batch, for `jax.vmap` and `torch.func.vmap` alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def merge(xp: Any, size: int, dims: Sequence[int | None], args: Sequence[Any]) -> tuple[Any, ...]:
    """Return (u, matrix, start, facts) of size * B examples, from arguments mapped over the axes `dims`
    (None: not mapped).

    A matrix that all examples share is not copied. Facts belong to the problem, so they are the same for all
    examples, and one copy of them is taken.
    """
    u, matrix, start, facts = args
    count = u.shape[0] if dims[0] is None else u.shape[1 if dims[0] == 0 else 0]

    def whole(x: Any, dim: int | None, rows: int) -> Any:
        x = x[None] if dim is None else xp.moveaxis(x, dim, 0)
        x = xp.broadcast_to(x, (size, rows, *x.shape[2:]))
        return x.reshape(size * rows, *x.shape[2:])

    shared = matrix.shape[0] == 1 and dims[1] is None
    none = dims[2] is None and start.shape[0] == 0
    return (
        whole(u, dims[0], count),
        matrix if shared else whole(matrix, dims[1], count),
        start if none else whole(start, dims[2], 0 if _empty(start, dims[2]) else count),
        facts if dims[3] is None else xp.moveaxis(facts, dims[3], 0)[0],
    )


def _empty(start: Any, dim: int | None) -> bool:
    return bool(start.shape[1 if dim == 0 else 0] == 0)
