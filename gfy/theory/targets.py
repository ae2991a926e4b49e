"""Define target losses with a decomposition L(yhat, y) = <phi(yhat), V phi(y) + b> + c(y), and their decoders.

A network is trained with a Fenchel-Young loss and measured by one of these targets. The decoder that is calibrated
for a target maps p to the yhat that minimises <phi(yhat), V phi(p) + b>. Shapes: p, y [..., k]; losses [...].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of
from gfy.errors import GfyTypeError, GfyValueError
from gfy.numerics.arithmetic import dot, matvec
from gfy.protocols import Array
from gfy.sets.base import ConvexSet
from gfy.sets.simplex import CappedSimplex


class Target:
    """This class is the base of a target loss, which judges predictions and decodes p into the best one.

    Example:
        >>> target = gfy.AffineLoss(V=[[0.0, 1.0], [1.0, 0.0]])
        >>> isinstance(target, gfy.Target), target.loss(array([1.0, 0.0]), array([0.0, 1.0])).item()
        (True, 1.0)
    """

    @property
    def name(self) -> str:
        return type(self).__name__

    def unsuited(self, domain: ConvexSet) -> str | None:
        """Return the reason why predictions cannot be decoded from this set, in a sentence, or None where they can."""
        return None

    def decode(self, p: Array, domain: ConvexSet) -> Array:
        raise NotImplementedError(f"{self.name} must define the method decode")

    def loss(self, yhat: Array, y: Array) -> Array:
        """Return L(yhat, y), [...]."""
        raise NotImplementedError(f"{self.name} must define the method loss")

    def sigma(self, domain: ConvexSet, k: int) -> float:
        """Return sup |V^T phi(yhat)| over the predictions (Euclidean norm)."""
        raise NotImplementedError(f"{self.name} must define the method sigma")

    def half_diameter(self, domain: ConvexSet, k: int) -> float:
        """Return half of sup |V^T (phi(a) - phi(b))| over pairs of predictions: never above sigma, and enough
        for the bound.
        """
        raise NotImplementedError(f"{self.name} must define the method half_diameter")


class Scaled(Target):
    """Represent losses with phi(y) = y and V = -scale I, which are decoded by one call of a linear oracle."""

    def scale(self, k: int) -> float:
        raise NotImplementedError(f"{self.name} must define the method scale")

    def offset(self, k: int) -> float:
        """Return b, which is the same for every coordinate."""
        return 0.0

    def predictions(self, domain: ConvexSet) -> ConvexSet:
        """Return the set whose vertices are the predictions."""
        return domain

    def decode(self, p: Array, domain: ConvexSet) -> Array:
        k = int(p.shape[-1])
        return self.predictions(domain).linear_oracle(self.scale(k) * p - self.offset(k))

    def sigma(self, domain: ConvexSet, k: int) -> float:
        return self.scale(k) * self.predictions(domain).largest_norm(k)

    def half_diameter(self, domain: ConvexSet, k: int) -> float:
        return self.scale(k) * self.predictions(domain).diameter(k) / 2


@dataclass(frozen=True)
class ZeroOne(Scaled):
    """Compute 1 where the class is wrong: 1 - <yhat, y> on one-hot rows; p is decoded by its largest coordinate."""

    def unsuited(self, domain: ConvexSet) -> str | None:
        if domain.simplex:
            return None
        return (
            f"zero_one is affine for classes (Simplex), not on {domain.name}: use hamming, or an AffineLoss"
        )

    def scale(self, k: int) -> float:
        return 1.0

    def loss(self, yhat: Array, y: Array) -> Array:
        return 1 - dot(yhat, y)


@dataclass(frozen=True)
class Hamming(Scaled):
    """Compute the fraction of wrong coordinates, y in {0, 1}^k; p on the unit box is decoded by p > 1/2."""

    def unsuited(self, domain: ConvexSet) -> str | None:
        if not domain.compact:
            return f"hamming needs a set whose vertices are 0/1 vectors, {domain.name} is unbounded"
        if domain.banded:
            low, high = domain.bounds(np.zeros(1))
            if np.any(np.asarray(low) != 0) or np.any(np.asarray(high) != 1):
                return f"hamming compares 0/1 vectors: use Box(0, 1), got {domain.name}({low}, {high})"
        return None

    def scale(self, k: int) -> float:
        return 2 / k

    def offset(self, k: int) -> float:
        return 1 / k

    def loss(self, yhat: Array, y: Array) -> Array:
        k = yhat.shape[-1]
        return (yhat + y - 2 * yhat * y).sum(-1) / k


@dataclass(frozen=True)
class PrecisionAtK(Scaled):
    """Compute 1 - (relevant among the k predicted) / k, y in {0, 1}^K; p is decoded by its k largest coordinates."""

    k: int = 1

    def __post_init__(self) -> None:
        if self.k < 1 or self.k != int(self.k):
            raise GfyValueError(f"precision_at_k needs a whole number k >= 1, got {self.k!r}")

    def scale(self, k: int) -> float:
        return 1 / self.k

    def predictions(self, domain: ConvexSet) -> ConvexSet:
        return CappedSimplex(self.k)

    def loss(self, yhat: Array, y: Array) -> Array:
        return 1 - dot(yhat, y) / self.k


@dataclass(frozen=True)
class Ndcg(Target):
    """Compute 1 - NDCG of a ranking; it is decoded by sorting p, the expected *normalised* gain of each item
    (see `gains`).

    A ranking is an array of item indices, best first. phi(y) are the gains (2^y - 1), divided by the discounted sum
    of the best ranking. phi(yhat) are the discounts 1 / log2(1 + rank) of the items, and V = -I.
    """

    def discounts(self, k: int) -> np.ndarray:
        return np.asarray(1 / np.log2(2 + np.arange(k)))

    def gains(self, y: Array) -> Array:
        """Return phi(y), the vector of C to train on for relevances y [..., k]; it is in [0, 1], and 0 where
        nothing is relevant.
        """
        backend = backend_of(y)
        xp = backend.xp
        gain = 2.0**y - 1
        best = -xp.sort(-gain, axis=-1)
        total = (best * backend.asarray(self.discounts(y.shape[-1]), like=gain)).sum(-1)[..., None]
        return gain / xp.where(total > 0, total, xp.ones_like(total))

    def decode(self, p: Array, domain: ConvexSet) -> Array:
        return backend_of(p).xp.argsort(-p, axis=-1)

    def loss(self, yhat: Array, y: Array) -> Array:
        backend = backend_of(y)
        gains = self.gains(y)
        shape = np.broadcast_shapes(tuple(yhat.shape), tuple(gains.shape))
        xp = backend.xp
        ranked = xp.take_along_axis(xp.broadcast_to(gains, shape), xp.broadcast_to(yhat, shape), axis=-1)
        return 1 - (ranked * backend.asarray(self.discounts(y.shape[-1]), like=ranked)).sum(-1)

    def sigma(self, domain: ConvexSet, k: int) -> float:
        return float(np.linalg.norm(self.discounts(k)))

    def half_diameter(self, domain: ConvexSet, k: int) -> float:
        return float(np.linalg.norm(self.discounts(k) - self.discounts(k)[::-1])) / 2


@dataclass(frozen=True, eq=False)
class AffineLoss(Target):
    """Represent a target loss of the form L(yhat, y) = <phi(yhat), V phi(y) + b> + c(y).

    Args:
        V: a matrix [n, n].
        b: a vector [n] or one number; 0.0 by default.
        varphi: phi, a function from [..., k] to [..., n]; None, the default, is the identity.
        outputs: the list of predictions [m, k]; None, the default, takes the vertices of C, and phi must then be the
            identity.
        c: a function of y that returns [...]; None, the default, is zero.

    Raises:
        GfyValueError: for a V that is no finite matrix.
        GfyTypeError: for a varphi without outputs.

    Reference: Blondel et al. (2022), Equation 11.

    Example:
        >>> costs = gfy.AffineLoss(V=[[0.0, 1.0], [5.0, 0.0]])  # predicting class 1 wrongly costs 5
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> gfy.decode(problem, array([[0.4, 0.6]]), costs).tolist()
        [[1.0, 0.0]]
    """

    V: Any
    b: Any = 0.0
    varphi: Callable[[Array], Array] | None = None
    outputs: Any = None
    c: Callable[[Array], Array] | None = None

    def __post_init__(self) -> None:
        V = np.asarray(self.V, dtype=np.float64)
        if V.ndim != 2 or not np.isfinite(V).all():
            raise GfyValueError(f"AffineLoss.V must be a finite matrix, got shape {V.shape}")
        if self.varphi is not None and self.outputs is None:
            raise GfyTypeError("AffineLoss with a varphi needs outputs=..., the list of predictions [m, k]")
        object.__setattr__(self, "V", V)
        object.__setattr__(
            self, "b", np.broadcast_to(np.asarray(self.b, dtype=np.float64), (V.shape[0],)).copy()
        )

    def embed(self, y: Array) -> Array:
        return y if self.varphi is None else self.varphi(y)

    def costs(self, p: Array) -> Array:
        """Return V phi(p) + b, [..., n]."""
        backend = backend_of(p)
        return matvec(backend.asarray(self.V, like=p), self.embed(p)) + backend.asarray(self.b, like=p)

    def decode(self, p: Array, domain: ConvexSet) -> Array:
        if self.outputs is None:
            return domain.linear_oracle(-self.costs(p))
        backend = backend_of(p)
        outputs = backend.asarray(np.asarray(self.outputs, dtype=np.float64), like=p)
        scores = matvec(self.embed(outputs), self.costs(p))
        return outputs[backend.xp.argmin(scores, axis=-1)]

    def loss(self, yhat: Array, y: Array) -> Array:
        value = dot(self.embed(yhat), self.costs(y))
        return value if self.c is None else value + self.c(y)

    def sigma(self, domain: ConvexSet, k: int) -> float:
        return float(np.linalg.norm(self._rows(domain, k), axis=-1).max())

    def half_diameter(self, domain: ConvexSet, k: int) -> float:
        rows = self._rows(domain, k)
        return max(float(np.linalg.norm(rows - row, axis=-1).max()) for row in rows) / 2

    def _rows(self, domain: ConvexSet, k: int) -> np.ndarray:
        outputs = domain.vertices(k) if self.outputs is None else np.asarray(self.outputs, dtype=np.float64)
        return np.asarray(self.embed(outputs)) @ self.V
