"""Find where a history changed: places in a series of measurements at which its level moved beyond noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.store.history import METRICS, series

DOUBT = 1e-3  # chance at which pure noise of a whole series may be called a change
SHORTEST = 2  # measurements on either side of a change
FLOOR = 1e-17  # gaps and errors below are rounding
# How much the level must move to be told: a tenth of a time, and the tenfold of a gap or an error.
LEAST = {"steady_s": 1.1, "backward_s": 1.1, "gap_rel": 10.0, "grad_error": 10.0}
STEADY = 0.002  # least standard deviation of a measurement, in decades: equal values are not infinitely sure


@dataclass(frozen=True)
class Change:
    """Describe a place in a history: the commit at which a metric took another level."""

    cell: str
    metric: str
    commit: str
    created: str
    before: float
    after: float
    row: str

    @property
    def factor(self) -> float:
        return self.after / self.before

    @property
    def worse(self) -> bool:
        return self.after > self.before


def splits(values: Sequence[float], least: float) -> list[int]:
    """Return the places at which a series takes another level: the index of the first measurement after each change.

    The series is split where Student's t of the logarithms of the two sides is largest; the split is kept where that is
    beyond doubt, corrected for the number of places that were tried, and both sides are then split in turn. A level is
    the median of its measurements, so that one outlier makes none.

    Args:
        values: Measurements in the order of time; zero counts as 1e-17.
        least: The least factor between two levels that is told.

    Returns:
        Indices, in order.

    Example:
        >>> splits([1.0, 1.01, 0.99, 1.0, 2.0, 2.02, 1.98, 2.0], 1.1)
        [4]
    """
    logs = np.log10(np.maximum(np.asarray(values, dtype=float), FLOOR))
    return _within(logs, 0, float(np.log10(least)), DOUBT)


def _within(logs: np.ndarray, offset: int, least: float, doubt: float) -> list[int]:
    from scipy.stats import t as student

    count = len(logs)
    places = range(SHORTEST, count - SHORTEST + 1)
    if not len(places):
        return []
    best, strongest = 0, -1.0
    for i in places:
        a, b = logs[:i], logs[i:]
        pooled = (((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()) / (count - 2)
        strength = abs(a.mean() - b.mean()) / np.sqrt(max(pooled, STEADY**2) * (1 / i + 1 / (count - i)))
        if strength > strongest:
            best, strongest = i, float(strength)
    chance = 2 * float(student.sf(strongest, count - 2)) * len(places)
    if chance > doubt or abs(np.median(logs[best:]) - np.median(logs[:best])) < least:
        return []
    left = _within(logs[:best], offset, least, doubt / 2)
    return [*left, offset + best, *_within(logs[best:], offset + best, least, doubt / 2)]


def known(part: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of a history that measure a metric; times that were taken under load are left out."""
    usable = part[metric].notna() & np.isfinite(part[metric].astype(float))
    if metric.endswith("_s"):
        usable &= part["loaded"].fillna(0) == 0
    return part[usable]


def changes(frame: pd.DataFrame) -> list[Change]:
    """Return every change in the histories of some rows, the newest first."""
    found = []
    for cell, part in series(frame).items():
        for metric in METRICS:
            rows = known(part, metric)
            values = rows[metric].astype(float).to_numpy()
            at = splits(values, LEAST[metric])
            edges = [0, *at, len(values)]
            for low, here, high in zip(edges, at, edges[2:], strict=False):
                row = rows.iloc[here]
                before, after = (
                    max(float(np.median(values[a:b])), FLOOR) for a, b in ((low, here), (here, high))
                )
                where = str(row.git_commit), str(row.created)
                found.append(Change(cell, metric, *where, before, after, str(row.key)))
    return sorted(found, key=lambda change: change.created, reverse=True)
