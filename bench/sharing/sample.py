"""Choose which rows of a pack are certified again; the rows themselves decide it, so that nobody can choose them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.sharing.again import why_not
from bench.sharing.pack import Row, row_digest
from bench.store import content_hash

SHARE = 0.1  # part of the rows that can be certified again
FEWEST = 5


def sampled(rows: Sequence[Row], share: float = SHARE) -> list[str]:
    """Return the keys of the rows to certify again.

    The draw is seeded with the content of all rows. Whoever changes a row to move another one into the sample or out of
    it therefore gets a new sample.

    Args:
        rows: The rows of a run.
        share: The fraction of those that can be certified again; five at least are drawn where there are as many.

    Returns:
        Their keys, sorted.
    """
    able = [row for row in rows if why_not(row) is None]
    count = min(len(able), max(FEWEST, math.ceil(share * len(able))))
    seed = content_hash(sorted(row_digest(row) for row in rows))
    drawn = sorted(able, key=lambda row: content_hash([seed, row["key"]]))[:count]
    return sorted(str(row["key"]) for row in drawn)
