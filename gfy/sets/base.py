"""Define what a convex set must provide. Points are [..., k]: the last axis is the point, leading axes are
batch axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.arithmetic import clip, dot
from gfy.protocols import Array


class ConvexSet:
    """This class is the base of every closed convex set C of R^k that p is searched in; points are [..., k].

    The attributes are facts. Solvers, regularizers and certificates read these facts and never ask for the class.

    Example:
        >>> domain = gfy.Simplex()
        >>> domain.project(array([0.8, 0.6])).tolist(), domain.linear_oracle(array([0.8, 0.6])).tolist()
        ([0.6, 0.4], [1.0, 0.0])
        >>> bool(domain.contains(array([0.8, 0.6])))
        False
    """

    compact: bool = True
    whole: bool = False  # C is all of R^k
    banded: bool = False  # C = {low <= p <= high, and sum p = total where there is one}: see `bounds`
    # the sum of the coordinates of every p in C, where C is banded with a fixed sum
    total: float | None = None
    simplex: bool = False  # C = {p >= 0, sum p = 1}
    stochastic: bool = False  # C holds n x n matrices with rows and columns of sum 1: see `matrix` and `flat`
    ball: bool = False  # C = {|p| <= radius}, the Euclidean ball
    radius: float  # the radius of the ball
    finite: bool = False  # C is the hull of `points` [n, k]
    ranked: bool = False  # C is the hull of the permutations of `profile(k)`: see `entropic`

    @property
    def name(self) -> str:
        return type(self).__name__

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection argmin_{p in C} |p - x|, [..., k] -> [..., k]; it is differentiable."""
        raise NotImplementedError(f"{self.name} must define the method project")

    def linear_oracle(self, scores: Array) -> Array:
        """Return a vertex in argmax_{p in C} <scores, p>, [..., k] -> [..., k]."""
        raise NotImplementedError(f"{self.name} must define the method linear_oracle")

    def support(self, scores: Array) -> Array:
        """Return max_{p in C} <scores, p>, [..., k] -> [...]."""
        return dot(scores, self.linear_oracle(scores))

    def violation(self, p: Array) -> Array:
        """Return how far p lies outside C in its worst constraint, [..., k] -> [...]; it is 0 inside."""
        raise NotImplementedError(f"{self.name} must define the method violation")

    def contains(self, p: Array, tol: float = 1e-6) -> Array:
        """Return whether p satisfies every constraint up to tol, [..., k] -> [...] bool."""
        return self.violation(p) <= tol

    def matrix(self, p: Array) -> Array:
        """Reshape [..., n * n] -> [..., n, n], for a stochastic set."""
        raise UnsupportedError(f"the points of {self.name} are not matrices")

    def flat(self, matrix: Array) -> Array:
        """Reshape [..., n, n] -> [..., n * n], for a stochastic set."""
        raise UnsupportedError(f"the points of {self.name} are not matrices")

    def profile(self, k: int) -> np.ndarray:
        """Return the numbers [k] that a ranked set permutes, in decreasing order."""
        raise UnsupportedError(f"{self.name} is not the hull of the permutations of a vector")

    def entropic(self, x: Array) -> Array:
        """Return argmax_{p in C} <x, p> - <p, log p>, [..., k] -> [..., k], for a ranked set."""
        raise UnsupportedError(f"{self.name} is not the hull of the permutations of a vector")

    def bounds(self, like: Array) -> tuple[Any, Any]:
        """Return (low, high) of a banded set: numbers, or arrays [k] of like's framework, dtype and device."""
        raise UnsupportedError(f"{self.name} is not given by bounds on each coordinate")

    def extent(self) -> tuple[float, float]:
        """Return the smallest and the largest coordinate that a point of C can have."""
        return -math.inf, math.inf

    def largest_norm(self, k: int) -> float:
        """Return sup |p| over C in R^k (Euclidean); it is infinite where it is not known."""
        try:
            return float(np.linalg.norm(self.vertices(k), axis=-1).max())
        except UnsupportedError:
            return math.inf

    def diameter(self, k: int) -> float:
        """Return max |p - q| over p, q in C (Euclidean)."""
        return float("inf")

    def vertices(self, k: int) -> np.ndarray:
        """Return all vertices, [n, k], where there are finitely many."""
        raise UnsupportedError(f"{self.name} has no finite list of vertices")

    def center(self, like: Array) -> Array:
        """Return a point of C to start from, with the shape of `like` [..., k]."""
        return self.project(namespace(like).zeros_like(like))

    def check_dim(self, k: int) -> None:
        """Raise where C does not exist in R^k."""


class BandSet(ConvexSet):
    """Represent {p : low <= p <= high, and sum p = total where a total is given}.

    Reals, boxes and (capped) simplices all have this form, so a separable regularizer has the same argmax map on
    them: it is taken per coordinate, after the scores are shifted by one multiplier (see `threshold`).
    """

    banded = True

    def extent(self) -> tuple[float, float]:
        low, high = self.bounds(np.zeros(1))
        return float(np.min(low)), float(np.max(high))

    def violation(self, p: Array) -> Array:
        xp = namespace(p)
        low, high = self.bounds(p)
        if isinstance(low, float) and isinstance(high, float):
            # Two passes over p make no further array of its size.
            outside = xp.maximum(low - xp.min(p, axis=-1), xp.max(p, axis=-1) - high)
        else:
            outside = xp.max(xp.maximum(low - p, p - high), axis=-1)
        worst = clip(outside, 0.0, float("inf"))
        if self.total is None:
            return worst
        return xp.maximum(worst, xp.abs(p.sum(-1) - self.total))

    def project(self, x: Array) -> Array:
        if self.total is None:
            return clip(x, *self.bounds(x))
        from gfy.regularizers.quadratic import SquaredNorm  # The projection is the argmax map of SquaredNorm.

        return SquaredNorm().argmax(x, self)


def bound_array(bound: float | tuple[float, ...], like: Array) -> Any:
    """Return a bound as a plain number, or as an array beside `like` where it differs between coordinates."""
    return bound if isinstance(bound, float) else backend_of(like).asarray(bound, like=like)


def as_bound(value: Any, argument: str) -> float | tuple[float, ...]:
    """Return a bound, given as a number or a sequence, in a hashable form."""
    try:
        array = np.asarray(value)
        # NumPy reads numbers in texts too, which nobody means as a bound; a large Python integer is an object to it.
        numbers = array.dtype.kind in "biuf" or all(isinstance(x, int | float) for x in array.ravel())
        array = array.astype(float) if numbers else np.full((1, 1), np.nan)
    except (TypeError, ValueError, OverflowError):
        array = np.full((1, 1), np.nan)
    if array.ndim > 1 or not array.size or np.isnan(array).any():
        raise GfyValueError(f"{argument} must be a number or one number per coordinate, got {value!r}")
    return float(array) if array.ndim == 0 else tuple(array.tolist())
