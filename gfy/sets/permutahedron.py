"""Define the hull of the permutations of a vector, which relaxes rankings."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.isotonic import pooled
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.sets.base import ConvexSet, as_bound

_MOST_COORDINATES = 8


@dataclass(frozen=True)
class Permutahedron(ConvexSet):
    """Represent the hull of all permutations of w [k] (permutahedron), whose vertices are rankings of k items.

    Its linear oracle sorts. Its Euclidean projection sorts and then pools neighbours (isotonic regression) in
    O(k log k). So does its entropic projection, which is the argmax map of Shannon's entropy and needs w >= 0.
    Sorting and pooling run on the host, compiled where numba is installed; derivatives are those of the pools, and
    are computed in the framework.

    Args:
        w: the numbers that are permuted, one per coordinate [k] in any order; k, k - 1, ..., 1 by default, so that the
            item with the largest score gets the coordinate k.

    Raises:
        GfyValueError: where w is not a finite vector.

    Example:
        >>> ranks = gfy.Permutahedron()
        >>> ranks.linear_oracle(array([0.3, -1.0, 2.0])).tolist()
        [2.0, 1.0, 3.0]
    """

    ranked = True
    w: Any = None

    def __post_init__(self) -> None:
        if self.w is None:
            return
        w = as_bound(self.w, "Permutahedron.w")
        if not isinstance(w, tuple) or not np.isfinite(w).all():
            raise GfyValueError(
                f"Permutahedron.w must be a vector of finite numbers, one per coordinate, got {self.w!r}"
            )
        object.__setattr__(self, "w", tuple(sorted(w, reverse=True)))

    def profile(self, k: int) -> np.ndarray:
        """Return w in decreasing order, [k]."""
        self.check_dim(k)
        return np.arange(k, 0, -1.0) if self.w is None else np.asarray(self.w)

    @in_single
    def project(self, x: Array) -> Array:
        pools = _Pools(self, x, entropic=False)
        # `moved` is zero: p is right already, and only its derivative is added.
        moved = x - backend_of(x).stop_gradient(x)
        return pools.p + (moved - pools.sums(moved) / pools.count)

    @in_single
    def entropic(self, x: Array) -> Array:
        """Return argmax_{p in C} <x, p> - <p, log p>, [..., k] -> [..., k], differentiable: exp(x), scaled in
        each pool."""
        backend = backend_of(x)
        pools = _Pools(self, x, entropic=True)
        weight = pools.p * backend.xp.exp(x - backend.stop_gradient(x))
        total = pools.sums(weight)
        empty = total <= 0
        share = backend.stop_gradient(total) / backend.xp.where(empty, backend.xp.ones_like(total), total)
        return weight * backend.xp.where(empty, backend.xp.zeros_like(share), share)

    def linear_oracle(self, scores: Array) -> Array:
        backend = backend_of(scores)
        w = self.profile(scores.shape[-1])

        def ranked(x: np.ndarray) -> np.ndarray:
            found = np.empty(x.shape)
            np.put_along_axis(found, np.argsort(-x, axis=-1, kind="stable"), np.broadcast_to(w, x.shape), -1)
            return found

        return backend.callback(ranked, scores, backend.stop_gradient(scores), batched=True)

    @in_single
    def violation(self, p: Array) -> Array:
        xp = namespace(p)
        w = backend_of(p).asarray(self.profile(p.shape[-1]), like=p)
        over = xp.cumulative_sum(-xp.sort(-p, axis=-1) - w, axis=-1)
        return xp.maximum(xp.max(over, axis=-1), xp.abs(over[..., -1]))

    def center(self, like: Array) -> Array:
        return namespace(like).zeros_like(like) + float(np.mean(self.profile(like.shape[-1])))

    def extent(self) -> tuple[float, float]:
        return (1.0, math.inf) if self.w is None else (self.w[-1], self.w[0])

    def largest_norm(self, k: int) -> float:
        return float(np.linalg.norm(self.profile(k)))

    def diameter(self, k: int) -> float:
        w = self.profile(k)
        return float(np.linalg.norm(w - w[::-1]))

    def vertices(self, k: int) -> np.ndarray:
        if k > _MOST_COORDINATES:
            raise UnsupportedError(
                f"Permutahedron in R^{k} has {k}! vertices: they are listed up to k = {_MOST_COORDINATES}"
            )
        return np.unique(np.array(list(itertools.permutations(self.profile(k)))), axis=0)

    def check_dim(self, k: int) -> None:
        if self.w is not None and len(self.w) != k:
            raise GfyValueError(f"Permutahedron.w has {len(self.w)} numbers but p has {k} coordinates")
        if k < 1:
            raise GfyValueError("Permutahedron needs at least one coordinate, got k = 0")


class _Pools:
    """Return p [..., k] for scores x, without a derivative, and the pools it was found with."""

    def __init__(self, domain: Permutahedron, x: Array, entropic: bool) -> None:
        backend = backend_of(x)
        w = domain.profile(x.shape[-1])
        place = backend.xp.broadcast_to(backend.indices(x.shape[-1], x), x.shape)

        def found(x: np.ndarray) -> tuple[np.ndarray, ...]:
            order = np.argsort(-x, axis=-1, kind="stable")
            rows = np.take_along_axis(x, order, -1).reshape(-1, x.shape[-1])
            parts = (part.reshape(x.shape) for part in pooled(rows, w, entropic))
            inverse = np.argsort(order, axis=-1, kind="stable")
            return (*(np.take_along_axis(part, inverse, -1) for part in parts), order)

        like = (x, place, place, place)
        self.p, self.first, self.after, self.order = backend.callback(
            found, like, backend.stop_gradient(x), batched=True
        )
        self.count = backend.xp.astype(self.after - self.first, x.dtype)

    def sums(self, x: Array) -> Array:
        """Return the sum of x over the pool of each coordinate, [..., k]."""
        xp = namespace(x)
        total = xp.cumulative_sum(xp.take_along_axis(x, self.order, axis=-1), axis=-1)
        total = xp.concat([xp.zeros_like(total[..., :1]), total], axis=-1)
        return xp.take_along_axis(total, self.after, axis=-1) - xp.take_along_axis(total, self.first, axis=-1)
