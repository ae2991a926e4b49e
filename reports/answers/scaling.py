"""Fit how a choice's time grows with the size: a power law in k and in batch with its uncertainty.

    log t = a + b log k + c log batch + noise,     b ~ N(1, 0.7^2),  c ~ N(0.7, 0.35^2)  before anything is measured

The posterior of (a, b, c) is Gaussian and has a closed form. Sizes that were measured narrow it; where one size alone
was measured the exponents are the assumed ones, so that the interval of an estimate widens with the distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PRIOR_MEAN = np.array([0.0, 1.0, 0.7])
PRIOR_SD = np.array([1e3, 0.7, 0.35])
MISFIT = 0.15  # standard deviation of log t about a power law between sizes of one program
INTERVAL = 2.0  # standard deviations to each side


@dataclass(frozen=True)
class Scaling:
    """Hold the fitted growth: mean of (a, b, c) and its covariance."""

    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]

    def at(self, k: float, batch: float) -> tuple[float, float, float]:
        """Return the estimated time at a size with the two ends of its interval: (time, low, high)."""
        x = np.array([1.0, *_logs(k, batch)])
        log = float(x @ self.mean)
        width = INTERVAL * math.sqrt(float(x @ np.array(self.covariance) @ x) + MISFIT**2)
        return math.exp(log), math.exp(log - width), math.exp(log + width)


def fit(points: Sequence[tuple[float, float, float, float]]) -> Scaling:
    """Return the growth behind measured points (k, batch, time, upper end of the time's interval), at least one."""
    x = np.array([[1.0, *_logs(k, batch)] for k, batch, _, _ in points])
    y = np.log([time for _, _, time, _ in points])
    half = np.array([math.log(max(high, time) / time) / 2.0 for _, _, time, high in points])
    weight = 1.0 / (MISFIT**2 + half**2)
    precision = np.diag(PRIOR_SD**-2.0) + (x.T * weight) @ x
    covariance = np.linalg.inv(precision)
    mean = covariance @ (PRIOR_MEAN * PRIOR_SD**-2.0 + (x.T * weight) @ y)
    return Scaling(tuple(map(float, mean)), tuple(tuple(map(float, line)) for line in covariance))


def _logs(k: float, batch: float) -> tuple[float, float]:
    return math.log(k) if k >= 1 else 0.0, math.log(batch) if batch >= 1 else 0.0


def decades(k: float, batch: float, other_k: float, other_batch: float) -> float:
    """Return how far two sizes are apart: |log10| of the ratio of k, and half that of batch."""
    (a, b), (c, d) = _logs(k, batch), _logs(other_k, other_batch)
    return (abs(a - c) + 0.5 * abs(b - d)) / math.log(10.0)
