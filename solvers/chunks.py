"""Solve heavy examples in chunks that fit the cache, so that their inputs are read from memory once.

A step on a dense U reads all of U. With the whole batch in every step, U is read from memory once per step. With a
few examples whose U fits in the cache, it is read once for all their steps. The few examples also stop as soon as
they are done.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gfy.backend import backend_of
from gfy.numerics import chunking
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution


def in_chunks(
    problem: InnerProblem, v: Input, p0: Array | None, solve: Callable[[Input, Array | None], Solution]
) -> Solution:
    """Return solve(v, p0), in chunks where that is faster (one processor, one batch axis); the answers are the same."""
    ranks: dict[str, int] = getattr(problem.energy, "ranks", {})
    size = _chunk(problem, v, p0, ranks)
    if size is None:
        return solve(v, p0)
    batched = {f: x for f, x in v._asdict().items() if x.ndim > ranks[f]} | ({} if p0 is None else {"": p0})

    def part(some: dict[str, Array]) -> Solution:
        start = some.get("")
        return solve(v._replace(**{field: x for field, x in some.items() if field}), start)

    return Solution(*backend_of(v).in_parts(part, size, batched))


def _chunk(problem: InnerProblem, v: Input, p0: Array | None, ranks: dict[str, int]) -> int | None:
    """Return how many examples are solved at a time, or None for all of them at once."""
    backend = backend_of(v)
    if not ranks or not backend.staged or not backend.on_host(*v):
        return None
    shape = problem.energy.batch_shape(v)
    heavy = [x for f, x in v._asdict().items() if x.ndim > ranks[f]]
    if len(shape) != 1 or any(x.shape[0] != shape[0] for x in heavy):
        return None
    if p0 is not None and p0.ndim != 2:
        return None
    weight = sum(math.prod(x.shape[1:]) * x.dtype.itemsize for x in heavy)
    return chunking.holds(weight, shape[0])
