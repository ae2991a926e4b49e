"""Choose how many examples are computed at a time: on a processor, as many as its cache holds.

Work that reads the matrix of an example several times then fetches it from memory once.
"""

from __future__ import annotations

SIZE = 2**20  # bytes
# Bytes per example. For lighter examples the time per call matters more than the time of reading.
HEAVY = 2**15


def holds(weight: int, batch: int) -> int | None:
    """Return how many of `batch` examples of `weight` bytes each are computed together, or None for all of them."""
    few = max(1, SIZE // max(weight, 1))
    return few if weight >= HEAVY and few < batch else None
