"""Define the convex hull of finitely many points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot, solve, transpose
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.sets.base import ConvexSet
from gfy.sets.simplex import Simplex


@dataclass(frozen=True, eq=False)
class ConvexHull(ConvexSet):
    """Represent the convex hull of finitely many points, for an output space that is small enough to list.

    Args:
        points: the points, one per row, [n, k].

    Raises:
        GfyValueError: for points that are no finite array [n, k].

    Example:
        >>> hull = gfy.ConvexHull([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> hull.project(array([1.0, 1.0])).tolist()
        [0.5, 0.5]
    """

    points: Any
    finite = True

    def __post_init__(self) -> None:
        points = np.array(self.points, dtype=np.float64)
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise GfyValueError(
                f"ConvexHull.points must be a finite array [n, k] with n, k >= 1, got shape {points.shape}"
            )
        object.__setattr__(self, "points", points)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConvexHull) and np.array_equal(self.points, other.points)

    def __hash__(self) -> int:
        return hash((self.points.shape, self.points.tobytes()))

    @in_single
    def weights(self, x: Array) -> Array:
        """Return sparse weights w [..., n] on the points for which w @ points is the projection of x."""
        return _project_weights(self._points(x), x)

    @in_single
    def project(self, x: Array) -> Array:
        return self.weights(x) @ self._points(x)

    @in_single
    def linear_oracle(self, scores: Array) -> Array:
        points = self._points(scores)
        return Simplex().linear_oracle(scores @ transpose(points)) @ points

    @in_single
    def support(self, scores: Array) -> Array:
        return namespace(scores).max(scores @ transpose(self._points(scores)), axis=-1)

    @in_single
    def violation(self, p: Array) -> Array:
        """Return the distance from p to the hull."""
        gap = self.project(p) - p
        return namespace(p).sqrt(dot(gap, gap))

    def center(self, like: Array) -> Array:
        return namespace(like).zeros_like(like) + backend_of(like).asarray(self.points.mean(0), like=like)

    def extent(self) -> tuple[float, float]:
        return float(self.points.min()), float(self.points.max())

    def diameter(self, k: int) -> float:
        self.check_dim(k)
        apart = ((self.points[:, None] - self.points[None]) ** 2).sum(-1)
        return float(np.sqrt(apart.max()))

    def vertices(self, k: int) -> np.ndarray:
        """Return the points that were given (some may not be extreme)."""
        self.check_dim(k)
        points: np.ndarray = self.points.copy()
        return points

    def check_dim(self, k: int) -> None:
        if self.points.shape[1] != k:
            raise GfyValueError(f"ConvexHull.points have {self.points.shape[1]} coordinates but p has {k}")

    def _points(self, like: Array) -> Array:
        return backend_of(like).asarray(self.points, like=like)


def _project_weights(points: Array, x: Array) -> Array:
    """Return argmin_{w in simplex} |w @ points - x|^2 by an active-set method on the host; the face it found
    is solved here.

    On its face the projection is affine in x, so one Newton step there is exact and gives the derivative.
    """
    backend = backend_of(x)
    xp = backend.xp
    target = x @ transpose(points)
    fixed = backend.stop_gradient(x)
    weights = backend.callback(_nearest, backend.stop_gradient(target), points, fixed)
    gram = points @ transpose(points)
    active = xp.astype(weights > 0, x.dtype)
    ridge = 64 * backend.eps(x) * (1 + xp.max(xp.abs(gram)))
    eye = backend.asarray(np.eye(gram.shape[-1]), like=x)
    system = active[..., :, None] * gram * active[..., None, :] + eye * (1 - active + ridge)[..., None, :]
    residual = active * (target - weights @ gram)
    along, ones = solve(system, residual), solve(system, active)
    shift = active * (along - ones * (along.sum(-1) / ones.sum(-1))[..., None])
    polished = weights + shift
    inside = xp.min(polished, axis=-1)[..., None] >= 0
    return xp.where(inside, polished, weights + shift - backend.stop_gradient(shift))


def _nearest(points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return weights of the point of the hull nearest to each row of x.

    It solves non-negative least squares on the points minus x, with one more equation that asks for a sum of 1. The
    solution misses that sum and is scaled to it afterwards, because the other equations are homogeneous.
    """
    from scipy.optimize import nnls

    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
    out = np.empty((len(rows), len(points)))
    scale = max(float(np.abs(points).max()), 1e-300)
    for weights, row in zip(out, rows, strict=True):
        seen = np.vstack([(points.astype(np.float64) - row).T, np.full((1, len(points)), scale)])
        goal = np.zeros(len(seen))
        goal[-1] = scale
        found = nnls(seen, goal)[0]
        weights[:] = found / found.sum()
    return out.reshape(*x.shape[:-1], len(points))
