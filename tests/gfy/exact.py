"""Exact maxima of concave quadratics on small sets, by listing every face: nothing of the library is used.

max_{p in C} <u, p> - 1/2 <p, M p> with M positive definite: on the face that the maximum lies on, it is where the
gradient vanishes along the face. All faces are tried, and the best of the points that lie in C is the maximum.
"""

from __future__ import annotations

import itertools

import numpy as np

_INSIDE = 1e-11


def _stationary(u: np.ndarray, M: np.ndarray, base: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The maximum over base + span(along), along [k, r]."""
    if along.shape[1] == 0:
        return base
    steps = np.linalg.lstsq(along.T @ M @ along, along.T @ (u - M @ base), rcond=None)[0]
    return base + along @ steps


def _best(u: np.ndarray, M: np.ndarray, points: list[np.ndarray]) -> np.ndarray:
    return max(points, key=lambda p: u @ p - 0.5 * p @ M @ p)


def band(
    u: np.ndarray, M: np.ndarray, low: np.ndarray, high: np.ndarray, total: float | None = None
) -> np.ndarray:
    """{low <= p <= high}, and sum p = total where it is given."""
    k = len(u)
    found = []
    for sides in itertools.product((-1, 0, 1), repeat=k):
        free = np.array(sides) == 0
        base = np.where(np.array(sides) < 0, low, np.where(np.array(sides) > 0, high, 0.0))
        along = np.eye(k)[:, free]
        if total is not None:
            if free.any():
                base = base + free * (total - base.sum()) / free.sum()
                along = along[:, 1:] - along[:, :1]
            elif abs(base.sum() - total) > _INSIDE:
                continue
        p = _stationary(u, M, base, along)
        if (p >= low - _INSIDE).all() and (p <= high + _INSIDE).all():
            found.append(p)
    return _best(u, M, found)


def hull(u: np.ndarray, M: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The convex hull of the rows of `points`."""
    found = []
    for size in range(1, min(len(points), len(u) + 1) + 1):
        for chosen in itertools.combinations(range(len(points)), size):
            corners = points[list(chosen)]
            along = (corners[1:] - corners[0]).T
            p = _stationary(u, M, corners[0], along)
            weights = np.linalg.lstsq(along, p - corners[0], rcond=None)[0] if size > 1 else np.zeros(0)
            if (weights >= -_INSIDE).all() and weights.sum() <= 1 + _INSIDE:
                found.append(p)
    return _best(u, M, found)


def doubly_stochastic(u: np.ndarray, M: np.ndarray) -> np.ndarray:
    """n x n matrices row by row, by every support."""
    n = round(len(u) ** 0.5)
    sums = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    found = []
    for support in itertools.product((False, True), repeat=n * n):
        free = np.array(support)
        if free.sum() < n:
            continue
        base = np.zeros(n * n)
        base[free] = np.linalg.lstsq(sums[:, free], np.ones(2 * n), rcond=None)[0]
        if np.abs(sums @ base - 1).max() > _INSIDE:
            continue
        _, sizes, rows = np.linalg.svd(sums[:, free])
        null = rows[(sizes > 1e-9).sum() :].T
        along = np.zeros((n * n, null.shape[1]))
        along[free] = null
        p = _stationary(u, M, base, along)
        if (p >= -_INSIDE).all():
            found.append(p)
    return _best(u, M, found)


def ball(u: np.ndarray, M: np.ndarray, radius: float) -> np.ndarray:
    """{|p| <= radius}: (M + lam I) p = u with lam = 0 inside, |p| = radius else."""
    values, vectors = np.linalg.eigh(M)
    along = vectors.T @ u
    if np.linalg.norm(along / values) <= radius:
        return vectors @ (along / values)
    low, high = 0.0, np.linalg.norm(u) / radius
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.linalg.norm(along / (values + middle)) > radius else (low, middle)
    return vectors @ (along / (values + (low + high) / 2))
