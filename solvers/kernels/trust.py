"""Decide whether rounding explains the rest of a solve by the rule of `solvers.verdict`, one example at a time.

A residual of the size of rounding proves nothing where rounding may move p anywhere in the set. In float64 this
happens with scores of 1e12 and a gamma of 1e-5. The duality gap at p then separates a p that is as accurate as its
digits allow from one that is not.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels.respond import BINARY, QUADRATIC

_UNITS = 16.0  # units in the last place by which a score and a sum may be wrong, as in `solvers.verdict`
_SURE = 0.25  # The gap must be at most this share of the floor, because the gap is rounded itself.


@piece
def negentropy(x):
    return x * np.log(x) if x > 0 else 0.0


@piece
def omega(kind, c, x):
    """Return one coordinate's part of Omega; a tilt is part of the scores."""
    if kind == QUADRATIC:
        return 0.5 * c * x * x
    if kind == BINARY:
        return c * (negentropy(x) + negentropy(1.0 - x))
    return c * negentropy(x)


@piece
def explained(theta, terms, low, high, kind, c, p, best, eps):
    """Return whether rounding of the scores theta [k], sums of terms of size `terms` [k], can cause the gap at p.

    best is p_Omega(theta), and eps the relative precision with which p is held.
    """
    gap, floor, unit = 0.0, 0.0, _UNITS * eps
    for j in range(p.shape[0]):
        far = best[j] - p[j]
        if kind == QUADRATIC:
            gap += far * (theta[j] - 0.5 * c * (best[j] + p[j]))
            mu = c
        else:
            gap += far * theta[j] - omega(kind, c, best[j]) + omega(kind, c, p[j])
            mu = 4.0 * c if kind == BINARY else c / max(best[j], p[j], eps)
        off = unit * terms[j]
        wide = high[j] - low[j]
        floor += min(0.5 * off * off / mu, off * wide) if off > 0 else 0.0
        floor += unit * (abs(theta[j] * p[j]) + abs(omega(kind, c, p[j])) + mu * min(1.0, wide))
    return gap <= _SURE * floor
