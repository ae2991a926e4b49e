"""Define the probability simplex and the capped simplex."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import namespace
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.arithmetic import one_hot_of_largest
from gfy.protocols import Array
from gfy.sets.base import BandSet

_MOST_VERTICES = 1_000_000


@dataclass(frozen=True)
class Simplex(BandSet):
    """Represent the probability simplex {p >= 0 : sum p = 1}, the set of distributions over k classes.

    Example:
        >>> gfy.Simplex().project(array([[0.8, 0.6, -1.0]])).tolist()
        [[0.6, 0.4, 0.0]]
    """

    total = 1.0
    simplex = True

    def bounds(self, like: Array) -> tuple[Any, Any]:
        return 0.0, 1.0

    def linear_oracle(self, scores: Array) -> Array:
        return one_hot_of_largest(scores)

    def center(self, like: Array) -> Array:
        return namespace(like).zeros_like(like) + 1.0 / like.shape[-1]

    def largest_norm(self, k: int) -> float:
        return 1.0

    def diameter(self, k: int) -> float:
        return math.sqrt(2.0) if k > 1 else 0.0

    def vertices(self, k: int) -> np.ndarray:
        return np.eye(k)

    def check_dim(self, k: int) -> None:
        if k < 1:
            raise GfyValueError("Simplex needs at least one coordinate, got k = 0")


@dataclass(frozen=True)
class CappedSimplex(BandSet):
    """Represent the capped simplex {0 <= p <= 1 : sum p = k}, the set for choosing k labels among all.

    Args:
        k: what the coordinates sum to, a positive number that need not be whole; 1 by default.

    Raises:
        GfyValueError: for a k that is not positive, or above the number of coordinates.

    Example:
        >>> gfy.CappedSimplex(2).linear_oracle(array([[0.3, 2.0, 1.0]])).tolist()  # the two largest
        [[0.0, 1.0, 1.0]]
    """

    k: float = 1

    def __post_init__(self) -> None:
        if not 0 < self.k < math.inf:
            raise GfyValueError(f"CappedSimplex.k must be a positive number, got {self.k!r}")

    @property
    def total(self) -> float:  # type: ignore[override]
        return float(self.k)

    def bounds(self, like: Array) -> tuple[Any, Any]:
        return 0.0, 1.0

    def linear_oracle(self, scores: Array) -> Array:
        xp = namespace(scores)
        order = xp.argsort(-scores, axis=-1)
        rank = xp.argsort(order, axis=-1)
        share = self.k - xp.astype(rank, scores.dtype)
        return xp.where(share > 1, xp.ones_like(share), xp.where(share < 0, xp.zeros_like(share), share))

    def center(self, like: Array) -> Array:
        return namespace(like).zeros_like(like) + self.k / like.shape[-1]

    def largest_norm(self, k: int) -> float:
        whole = math.floor(self.k)
        return math.sqrt(whole + (self.k - whole) ** 2)

    def diameter(self, k: int) -> float:
        moved = min(self.k, k - self.k)
        return math.sqrt(2.0 * math.floor(moved) + 2.0 * (moved - math.floor(moved)) ** 2)

    def vertices(self, k: int) -> np.ndarray:
        if self.k != int(self.k) or math.comb(k, int(self.k)) > _MOST_VERTICES:
            raise UnsupportedError(
                f"CappedSimplex({self.k}) in R^{k}: its vertices are too many or not 0/1 to list"
            )
        chosen = list(itertools.combinations(range(k), int(self.k)))
        corners = np.zeros((len(chosen), k))
        for row, labels in enumerate(chosen):
            corners[row, list(labels)] = 1.0
        return corners

    def check_dim(self, k: int) -> None:
        if self.k > k:
            raise GfyValueError(
                f"CappedSimplex({self.k}) needs at least {math.ceil(self.k)} coordinates, p has {k}"
            )
