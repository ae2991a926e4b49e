"""Define the set of doubly stochastic matrices."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.arithmetic import clip
from gfy.protocols import Array
from gfy.sets.base import ConvexSet

_MOST_ROWS = 8


@dataclass(frozen=True)
class Birkhoff(ConvexSet):
    """Represent the Birkhoff polytope: n x n matrices with non-negative entries whose rows and columns sum to 1.

    Its vertices are the permutation matrices. Points are stored row by row in the last axis, [..., n * n]; `matrix`
    and `flat` convert between the two forms.

    Raises:
        GfyValueError: where the last axis of a point is no square number.

    Example:
        >>> gfy.Birkhoff().linear_oracle(array([1.0, 3.0, 2.0, 1.0])).tolist()  # the best permutation of 2 x 2 scores
        [0.0, 1.0, 1.0, 0.0]
    """

    stochastic = True

    @staticmethod
    def side(k: int) -> int:
        """Return n for k = n * n."""
        n = math.isqrt(k)
        if n * n != k or n == 0:
            raise GfyValueError(
                f"Birkhoff stores n x n matrices row by row: the last axis must be a square number, got {k}; "
                "reshape [..., n, n] to [..., n * n]"
            )
        return n

    def matrix(self, p: Array) -> Array:
        """Reshape [..., n * n] -> [..., n, n]."""
        n = self.side(p.shape[-1])
        return namespace(p).reshape(p, (*p.shape[:-1], n, n))

    def flat(self, matrix: Array) -> Array:
        """Reshape [..., n, n] -> [..., n * n]."""
        return namespace(matrix).reshape(matrix, (*matrix.shape[:-2], matrix.shape[-1] * matrix.shape[-2]))

    def project(self, x: Array) -> Array:
        from gfy.regularizers.quadratic import SquaredNorm  # The projection is the argmax map of SquaredNorm.

        return SquaredNorm().argmax(x, self)

    def linear_oracle(self, scores: Array) -> Array:
        """Return the best permutation of each example, by SciPy's assignment solver on the host."""
        self.side(scores.shape[-1])
        backend = backend_of(scores)
        return backend.callback(_assign, scores, backend.stop_gradient(scores))

    def violation(self, p: Array) -> Array:
        xp = namespace(p)
        matrix = self.matrix(p)
        negative = clip(xp.max(-p, axis=-1), 0.0, float("inf"))
        rows = xp.max(xp.abs(matrix.sum(-1) - 1), axis=-1)
        columns = xp.max(xp.abs(matrix.sum(-2) - 1), axis=-1)
        return xp.maximum(negative, xp.maximum(rows, columns))

    def center(self, like: Array) -> Array:
        return namespace(like).zeros_like(like) + 1.0 / self.side(like.shape[-1])

    def extent(self) -> tuple[float, float]:
        return 0.0, 1.0

    def largest_norm(self, k: int) -> float:
        return math.sqrt(self.side(k))

    def diameter(self, k: int) -> float:
        n = self.side(k)
        return math.sqrt(2.0 * n) if n > 1 else 0.0

    def vertices(self, k: int) -> np.ndarray:
        n = self.side(k)
        if n > _MOST_ROWS:
            raise UnsupportedError(
                f"Birkhoff of {n} x {n} has {n}! vertices: they are listed up to n = {_MOST_ROWS}"
            )
        return np.array([np.eye(n)[list(order)].ravel() for order in itertools.permutations(range(n))])

    def check_dim(self, k: int) -> None:
        self.side(k)


def _assign(scores: np.ndarray) -> np.ndarray:
    from scipy.optimize import linear_sum_assignment

    n = math.isqrt(scores.shape[-1])
    flat = scores.reshape(-1, n, n)
    out = np.zeros_like(flat)
    for matrix, best in zip(flat, out, strict=True):
        best[linear_sum_assignment(matrix, maximize=True)] = 1.0
    return out.reshape(scores.shape)
