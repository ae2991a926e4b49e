"""How many examples at a time: on a processor, as many as stay in the cache beside it.

Work that reads an example's matrix more than once is then one trip to memory, not one for every reading.
"""

from __future__ import annotations

SIZE = 2**20  # bytes
HEAVY = 2**15  # bytes an example: work on lighter ones is calls more than reads


def holds(weight: int, batch: int) -> int | None:
    """How many of `batch` examples of `weight` bytes each are to be taken together; None for all of them."""
    few = max(1, SIZE // max(weight, 1))
    return few if weight >= HEAVY and few < batch else None
