"""The convex hull of finitely many points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError
from gfy.math import dot, solve, transpose
from gfy.protocols import Array
from gfy.sets.base import ConvexSet
from gfy.sets.simplex import Simplex

_MAX_STEPS = 5_000


@dataclass(frozen=True, eq=False)
class ConvexHull(ConvexSet):
    """The convex hull of the rows of `points` [n, k], as marginal polytopes are given for a small output space."""

    points: Any

    def __post_init__(self) -> None:
        points = np.array(self.points, dtype=np.float64)
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise GfyValueError(
                f"ConvexHull.points must be a finite array [n, k] with n, k >= 1, got shape {points.shape}"
            )
        object.__setattr__(self, "points", points)

    def weights(self, x: Array) -> Array:
        """Weights w [..., n] on the points with w @ points the projection of x; sparse."""
        return _project_weights(self._points(x), x)

    def project(self, x: Array) -> Array:
        return self.weights(x) @ self._points(x)

    def linear_oracle(self, scores: Array) -> Array:
        points = self._points(scores)
        return Simplex().linear_oracle(scores @ transpose(points)) @ points

    def support(self, scores: Array) -> Array:
        return namespace(scores).max(scores @ transpose(self._points(scores)), axis=-1)

    def violation(self, p: Array) -> Array:
        """The distance from p to the hull."""
        gap = self.project(p) - p
        return namespace(p).sqrt(dot(gap, gap))

    def center(self, like: Array) -> Array:
        return namespace(like).zeros_like(like) + backend_of(like).asarray(self.points.mean(0), like=like)

    def diameter(self, k: int) -> float:
        self.check_dim(k)
        apart = ((self.points[:, None] - self.points[None]) ** 2).sum(-1)
        return float(np.sqrt(apart.max()))

    def vertices(self, k: int) -> np.ndarray:
        """The points given (some may not be extreme)."""
        self.check_dim(k)
        points: np.ndarray = self.points.copy()
        return points

    def check_dim(self, k: int) -> None:
        if self.points.shape[1] != k:
            raise GfyValueError(f"ConvexHull.points live in R^{self.points.shape[1]} but p has {k} coordinates")

    def _points(self, like: Array) -> Array:
        return backend_of(like).asarray(self.points, like=like)


class _State(NamedTuple):
    weights: Array
    momentum: Array
    t: Array
    step: Array
    move: Array


def _project_weights(points: Array, x: Array) -> Array:
    """argmin_{w in simplex} |w @ points - x|^2: FISTA with restarts, then an exact solve on the face it found."""
    backend = backend_of(x)
    xp = backend.xp
    fixed, simplex, eps = backend.stop_gradient(x), Simplex(), backend.eps(x)
    gram = points @ transpose(points)
    rate = 1.0 / (xp.sum(gram * gram) ** 0.5 + eps)
    target = fixed @ transpose(points)

    def body(state: _State) -> _State:
        ahead = simplex.project(state.momentum - rate * (state.momentum @ gram - target))
        uphill = dot(state.momentum - ahead, ahead - state.weights)[..., None] > 0
        t = xp.where(uphill, xp.ones_like(state.t), (1 + xp.sqrt(1 + 4 * state.t**2)) / 2)
        beta = xp.where(uphill, xp.zeros_like(t), (state.t - 1) / t)
        change = ahead - state.weights
        return _State(ahead, ahead + beta * change, t, state.step + 1, xp.max(xp.abs(change), axis=-1)[..., None])

    start = simplex.center(target)
    one = xp.ones_like(target[..., :1])
    state = _State(start, start, one, xp.sum(xp.zeros_like(one)), one)
    running = lambda s: xp.any(s.move > 4 * eps) & (s.step < _MAX_STEPS)  # noqa: E731
    weights = backend.stop_gradient(backend.while_loop(running, body, state).weights)
    # On its face the projection is affine in x: one ridge-regularised Newton step there is exact and differentiable.
    active = xp.astype(weights > 8 * eps, x.dtype)
    ridge = 64 * eps * (1 + xp.max(xp.abs(gram)))
    n = gram.shape[-1]
    eye = backend.asarray(np.eye(n), like=x)
    system = active[..., :, None] * gram * active[..., None, :] + eye * (1 - active + ridge)[..., None, :]
    residual = active * (x @ transpose(points) - weights @ gram)
    along, ones = solve(system, residual), solve(system, active)
    shift = along - ones * (along.sum(-1) / ones.sum(-1))[..., None]
    polished = weights + active * shift
    return xp.where(xp.min(polished, axis=-1)[..., None] >= 0, polished, weights + active * (shift - backend.stop_gradient(shift)))


