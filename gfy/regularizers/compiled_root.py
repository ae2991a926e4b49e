"""Find the argmax map of an f-divergence where sum p is fixed by one compiled call, where frameworks run eagerly."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.numerics import native
from gfy.protocols import Array
from gfy.regularizers.generators import Generator, JensenShannon, Power
from gfy.sets.base import ConvexSet
from gfy.sets.threshold import Multiplier


class Root(NamedTuple):
    """Hold p and its slopes D [..., k], and the multiplier of the constraint on the sum."""

    p: Array
    slopes: Array
    multiplier: Multiplier


def find(generator: Generator, gamma: float, weights: Any, theta: Array, domain: ConvexSet) -> Root | None:
    """Return the root for scores whose values can be read here and now, or None where they cannot.

    Args:
        generator: f, with its slopes measured from their finite end.
        gamma: The strength.
        weights: The prior q, one number or [k].
        theta: Scores, [..., k].
        domain: A set with a fixed sum and with bounds.

    Returns:
        The root, without a derivative; None in a staged framework, on other devices, without numba, for scores that are
        not finite, and for an f that is unknown to compiled code.
    """
    backend = backend_of(theta)
    if backend.staged or not native.installed() or 0 in theta.shape or not backend.on_host(theta):
        return None
    facts = _facts(generator)
    if facts is None:
        return None
    from gfy.numerics.divergence_root import roots

    given = np.asarray(backend.to_numpy(theta))
    k, shape = given.shape[-1], given.shape
    scores = np.ascontiguousarray(given.reshape(-1, k), dtype=np.float64)
    q, low, high = (_row(backend, x, k) for x in (weights, *domain.bounds(theta)))
    p, slopes, ends = np.empty(scores.shape), np.empty(scores.shape), np.empty((scores.shape[0], 4))
    if not roots(scores, q, low, high, float(domain.total or 0.0), float(gamma), *facts, p, slopes, ends):
        return None

    if given.dtype != np.float64:
        # The part of tau that is lost in rounding to this dtype is added to `finer`, the number that is added
        # to tau.
        tau, eps = ends[:, 0].astype(given.dtype), backend.eps(theta)
        ends[:, 1] += ends[:, 0] - tau
        ends[:, 0] = tau
        room = 4 * eps * (np.abs(ends[:, 1]) + eps * np.abs(tau))
        ends[:, 2] -= room
        ends[:, 3] += room

    def back(x: np.ndarray) -> Array:
        return backend.asarray(x.reshape(*shape[:-1], x.shape[-1]), like=theta)

    return Root(back(p), back(slopes), Multiplier(*(back(ends[:, i : i + 1]) for i in range(4))))


def _row(backend: Any, x: Any, k: int) -> np.ndarray:
    """Return one number or one per coordinate as k numbers of float64."""
    if isinstance(x, float):
        return np.full(k, x)
    return np.ascontiguousarray(np.broadcast_to(backend.to_numpy(x), (k,)), dtype=np.float64)


def _facts(generator: Generator) -> tuple[int, float, float] | None:
    """Return what compiled code has to know of f: its kind, alpha - 1 and its scale."""
    if isinstance(generator, JensenShannon) and generator.ended:
        return 0, 0.0, 1.0
    if isinstance(generator, Power):
        return 1 if generator.ended else 2, float(generator.alpha - 1), float(generator.scale)
    return None
