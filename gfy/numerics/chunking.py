"""Choose how many examples are computed at a time: on a processor, as many as its cache holds.

Work that reads an example's matrix more than once is then one trip to memory, not one for every reading.
"""

from __future__ import annotations

SIZE = 2**20  # bytes
HEAVY = 2**15  # bytes an example: work on lighter ones is calls more than reads


def holds(weight: int, batch: int) -> int | None:
    """Return how many of `batch` examples of `weight` bytes each are computed together, or None for all of them."""
    few = max(1, SIZE // max(weight, 1))
    return few if weight >= HEAVY and few < batch else None
