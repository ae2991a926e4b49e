"""Solve isotonic regression by pooling adjacent violators, for decreasing rows of scores and a decreasing profile w.

A pool is a run of neighbours that share one multiplier. In each pool the answer sums to the sum of w: it is s less
the mean of s - w (Euclidean), or exp(s) scaled to the sum of w (entropic). Neighbours are merged until the
multipliers decrease along the row.
References: Best, Chakravarti and Ubhaya (2000), minimising separable convex functions subject to simple chain
constraints; Blondel, Teboul, Berthet and Djolonga (2020), fast differentiable sorting and ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gfy.numerics import native


def pooled(s: np.ndarray, w: np.ndarray, entropic: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (p, first, after), [n, k] each: the answers for rows s, and where the pool of each position
    starts and ends.

    s [n, k] decreases along each row, and so does w [k] (w is at least 0 where `entropic`).
    """
    p = np.empty(s.shape)
    first, after = np.empty(s.shape, dtype=np.int64), np.empty(s.shape, dtype=np.int64)
    _loop()(np.ascontiguousarray(s, dtype=np.float64), np.asarray(w, np.float64), entropic, p, first, after)
    return p, first, after


@cache
def _loop() -> Callable[..., None]:
    return native.compiled(_pool) if native.installed() else _pool


def _pool(s: Any, w: Any, entropic: bool, p: Any, first: Any, after: Any) -> None:
    rows, k = s.shape
    begin = np.empty(k, np.int64)
    gained, owed, level = np.empty(k), np.empty(k), np.empty(k)  # one number per pool that was found so far
    for row in range(rows):
        top = s[row, 0]
        count = 0
        for i in range(k):
            begin[count] = i
            if entropic:
                gained[count] = s[row, i] - top  # the logarithm of a sum of exponentials
                owed[count] = w[i]
                level[count] = gained[count] - (math.log(w[i]) if w[i] > 0 else -math.inf)
            else:
                gained[count] = s[row, i] - w[i]
                owed[count] = 1.0
                level[count] = gained[count]
            while count > 0 and not level[count - 1] > level[count]:
                here, before = gained[count], gained[count - 1]
                count -= 1
                owed[count] += owed[count + 1]
                if entropic:
                    high = max(here, before)
                    gained[count] = high + math.log1p(math.exp(min(here, before) - high))
                    level[count] = gained[count] - (math.log(owed[count]) if owed[count] > 0 else -math.inf)
                else:
                    gained[count] = before + here
                    level[count] = gained[count] / owed[count]
            count += 1
        for pool in range(count):
            end = begin[pool + 1] if pool + 1 < count else k
            for i in range(begin[pool], end):
                first[row, i], after[row, i] = begin[pool], end
                p[row, i] = math.exp(s[row, i] - top - level[pool]) if entropic else s[row, i] - level[pool]
