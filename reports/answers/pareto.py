"""Find accuracy-speed Pareto fronts: the rows that no other row beats in both time and certified gap."""

from __future__ import annotations

import numpy as np


def front(time: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return True for points for which no other is at least as good in both and better in one; never for nan."""
    time, gap = np.asarray(time, dtype=float), np.asarray(gap, dtype=float)
    good = np.zeros(len(time), dtype=bool)
    known = np.flatnonzero(np.isfinite(time) & np.isfinite(gap))
    best_gap, best_time = np.inf, -np.inf
    for i in known[np.lexsort((gap[known], time[known]))]:
        if gap[i] < best_gap:
            best_gap, best_time = gap[i], time[i]
            good[i] = True
        elif gap[i] == best_gap and time[i] == best_time:
            good[i] = True  # an exact copy of a point of the front is on it too
    return good
