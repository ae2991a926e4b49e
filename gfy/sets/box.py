"""Define R^k and boxes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError, UnsupportedError
from gfy.protocols import Array
from gfy.sets.base import BandSet, as_bound, bound_array

_MOST_VERTICES = 20


@dataclass(frozen=True)
class Reals(BandSet):
    """Represent the whole space R^k, where the inner problem has no constraints.

    Example:
        >>> gfy.SquaredNorm(gamma=2.0).argmax(array([3.0, -1.0]), gfy.Reals()).tolist()
        [1.5, -0.5]
    """

    compact = False
    whole = True

    def bounds(self, like: Array) -> tuple[Any, Any]:
        return -math.inf, math.inf

    def linear_oracle(self, scores: Array) -> Array:
        raise UnsupportedError(
            "Reals is unbounded: a linear function has no maximum on it; use a compact set"
        )


@dataclass(frozen=True)
class Box(BandSet):
    """Represent the box {p : low <= p <= high}; [0, 1]^k, the default, is the set of k yes-or-no labels.

    Args:
        low: the lower bound, one number or one per coordinate [k]; 0.0 by default.
        high: the upper bound, one number or one per coordinate [k]; 1.0 by default.

    Raises:
        GfyValueError: where a bound is no number, or low is above high.

    Example:
        >>> gfy.Box(0.0, [1.0, 2.0]).project(array([[1.5, 1.5]])).tolist()
        [[1.0, 1.5]]
    """

    low: Any = 0.0
    high: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", as_bound(self.low, "Box.low"))
        object.__setattr__(self, "high", as_bound(self.high, "Box.high"))
        if not np.all(np.asarray(self.low) <= np.asarray(self.high)):
            raise GfyValueError(f"Box.low must not exceed Box.high, got low={self.low}, high={self.high}")

    @property
    def compact(self) -> bool:  # type: ignore[override]
        return bool(np.all(np.isfinite(self.low)) and np.all(np.isfinite(self.high)))

    def bounds(self, like: Array) -> tuple[Any, Any]:
        return bound_array(self.low, like), bound_array(self.high, like)

    def linear_oracle(self, scores: Array) -> Array:
        if not self.compact:
            raise UnsupportedError(
                "Box is unbounded: a linear function has no maximum on it; give finite bounds"
            )
        low, high = self.bounds(scores)
        xp = namespace(scores)
        zero = xp.zeros_like(scores)
        return xp.where(scores > 0, zero + high, zero + low)

    def center(self, like: Array) -> Array:
        xp = namespace(like)
        low = np.asarray(self.low)
        high = np.asarray(self.high)
        finite = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
        middle = np.where(
            np.isfinite(low) & np.isfinite(high), (finite[0] + finite[1]) / 2, finite[0] + finite[1]
        )
        return xp.zeros_like(like) + backend_of(like).asarray(np.clip(middle, low, high), like=like)

    def largest_norm(self, k: int) -> float:
        worst = np.maximum(np.abs(np.asarray(self.low)), np.abs(np.asarray(self.high)))
        return float(np.linalg.norm(np.broadcast_to(worst, (k,))))

    def diameter(self, k: int) -> float:
        return float(np.linalg.norm(np.broadcast_to(np.asarray(self.high) - np.asarray(self.low), (k,))))

    def vertices(self, k: int) -> np.ndarray:
        if k > _MOST_VERTICES or not self.compact:
            raise UnsupportedError(
                f"Box in R^{k} has 2^{k} vertices: they are listed up to k = {_MOST_VERTICES}"
            )
        corners = np.array(list(itertools.product((0, 1), repeat=k)), dtype=float)
        low, high = (np.broadcast_to(np.asarray(b), (k,)) for b in (self.low, self.high))
        return low + corners * (high - low)

    def check_dim(self, k: int) -> None:
        for bound in (self.low, self.high):
            if isinstance(bound, tuple) and len(bound) != k:
                raise GfyValueError(f"Box has {len(bound)} bounds but p has {k} coordinates")
