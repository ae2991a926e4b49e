"""Shannon and Tsallis negentropies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gfy.backend import namespace
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import clip, logsumexp, relu, sigmoid, softmax, softplus, xlogx
from gfy.protocols import Array
from gfy.regularizers.base import Separable, peak_coordinate
from gfy.regularizers.quadratic import check_positive
from gfy.sets.base import BandSet, ConvexSet
from gfy.sets.box import Box
from gfy.sets.simplex import Simplex

_UNIT_BOX = Box(0.0, 1.0)


@dataclass(frozen=True)
class Shannon(Separable):
    """Shannon's negentropy gamma <p, log p>: softmax on the simplex, loss gamma KL(y, softmax(v / gamma))."""

    gamma: float = 1.0
    least = 0.0

    def __post_init__(self) -> None:
        check_positive(self.gamma, "Shannon.gamma")

    def coordinate_value(self, p: Array) -> Array:
        return self.gamma * xlogx(p)

    def grad(self, p: Array) -> Array:
        return self.gamma * (_log(p) + 1)

    def coordinate_argmax(self, theta: Array, low: Any, high: Any) -> Array:
        xp = namespace(theta)
        exponent = theta / self.gamma - 1
        if isinstance(high, float):  # before the exponential, which would overflow
            exponent = clip(exponent, -math.inf, math.log(high) if high > 0 else -math.inf)
        return clip(xp.exp(exponent), low, high)

    def coordinate_slope(self, theta: Array, low: Any, high: Any) -> Array:
        xp = namespace(theta)
        exponent = theta / self.gamma - 1
        if isinstance(high, float) and 0 < high < math.inf:
            exponent = clip(exponent, -math.inf, math.log(high) + 1)  # far enough to be seen outside
        p = xp.exp(exponent)
        return xp.where((p >= low) & (p <= high), p / self.gamma, xp.zeros_like(p))

    def argmax(self, theta: Array, domain: ConvexSet) -> Array:
        return softmax(theta / self.gamma) if isinstance(domain, Simplex) else super().argmax(theta, domain)

    def conjugate(self, theta: Array, domain: ConvexSet) -> Array:
        if isinstance(domain, Simplex):
            return self.gamma * logsumexp(theta / self.gamma)
        return super().conjugate(theta, domain)

    def slopes(self, theta: Array, domain: BandSet) -> Array:
        if not isinstance(domain, Simplex):
            return super().slopes(theta, domain)
        return softmax(theta / self.gamma) / self.gamma

    def strong_convexity(self, domain: ConvexSet) -> float:
        peak = peak_coordinate(domain)  # omega'' = gamma / p
        return self.gamma / peak if peak > 0 else math.inf


@dataclass(frozen=True)
class BinaryShannon(Separable):
    """Omega(p) = gamma sum p log p + (1 - p) log(1 - p): the sigmoid, and the binary logistic loss."""

    gamma: float = 1.0
    least = 0.0
    most = 1.0

    def __post_init__(self) -> None:
        check_positive(self.gamma, "BinaryShannon.gamma")

    def coordinate_value(self, p: Array) -> Array:
        return self.gamma * (xlogx(p) + xlogx(1 - p))

    def grad(self, p: Array) -> Array:
        return self.gamma * (_log(p) - _log(1 - p))

    def coordinate_argmax(self, theta: Array, low: Any, high: Any) -> Array:
        return clip(sigmoid(theta / self.gamma), low, high)

    def coordinate_slope(self, theta: Array, low: Any, high: Any) -> Array:
        xp = namespace(theta)
        t = theta / self.gamma
        p = sigmoid(t)
        inside = xp.astype((p >= low) & (p <= high), theta.dtype)
        return inside * p * sigmoid(-t) / self.gamma

    def conjugate(self, theta: Array, domain: ConvexSet) -> Array:
        if domain == _UNIT_BOX:
            return self.gamma * softplus(theta / self.gamma).sum(-1)
        return super().conjugate(theta, domain)

    def strong_convexity(self, domain: ConvexSet) -> float:
        return 4 * self.gamma


@dataclass(frozen=True)
class Tsallis(Separable):
    """Tsallis' negentropy gamma sum (p^alpha - p) / (alpha (alpha - 1)), alpha > 1: entmax (alpha = 2 is Gini)."""

    alpha: float = 1.5
    gamma: float = 1.0
    least = 0.0

    def __post_init__(self) -> None:
        check_positive(self.gamma, "Tsallis.gamma")
        if not 1 < self.alpha < math.inf:
            raise GfyValueError(
                f"Tsallis.alpha must be above 1, got {self.alpha!r}; the limit alpha = 1 is Shannon"
            )

    def coordinate_value(self, p: Array) -> Array:
        return self.gamma * (_power(p, self.alpha) - p) / (self.alpha * (self.alpha - 1))

    def grad(self, p: Array) -> Array:
        return self.gamma * (_power(p, self.alpha - 1) - 1 / self.alpha) / (self.alpha - 1)

    def coordinate_argmax(self, theta: Array, low: Any, high: Any) -> Array:
        base = relu((self.alpha - 1) * theta / self.gamma + 1 / self.alpha)
        if isinstance(high, float) and math.isfinite(high):
            base = clip(base, 0.0, high ** (self.alpha - 1))
        return clip(_power(base, 1 / (self.alpha - 1)), low, high)

    def coordinate_slope(self, theta: Array, low: Any, high: Any) -> Array:
        xp = namespace(theta)
        base = (self.alpha - 1) * theta / self.gamma + 1 / self.alpha
        p = _power(relu(base), 1 / (self.alpha - 1))
        free = (base > 0) & (p >= low) & (p <= high)
        safe = xp.where(free, p, xp.ones_like(p))
        return xp.where(free, safe ** (2 - self.alpha), xp.zeros_like(p)) / self.gamma

    def strong_convexity(self, domain: ConvexSet) -> float:
        if self.alpha > 2:
            return 0.0  # omega'' = gamma p^(alpha - 2) vanishes at 0
        peak = peak_coordinate(domain)
        return float(self.gamma * peak ** (self.alpha - 2)) if peak > 0 else math.inf


def _log(p: Array) -> Array:
    """log p, -inf at 0 without a warning."""
    xp = namespace(p)
    safe = xp.where(p > 0, p, xp.ones_like(p))
    return xp.where(p > 0, xp.log(safe), xp.full_like(p, -math.inf))


def _power(p: Array, exponent: float) -> Array:
    """p^exponent for p >= 0 with a finite derivative (0) recorded at 0."""
    xp = namespace(p)
    safe = xp.where(p > 0, p, xp.ones_like(p))
    return xp.where(p > 0, safe**exponent, xp.zeros_like(p))
