"""Define Shannon's and Tsallis' negentropies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gfy.backend import namespace
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import clip, logsumexp, relu, sigmoid, softmax, softplus, xlogx
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.regularizers.base import Separable
from gfy.regularizers.quadratic import check_positive
from gfy.sets.base import ConvexSet
from gfy.sets.box import Box

_UNIT_BOX = Box(0.0, 1.0)


@dataclass(frozen=True)
class Shannon(Separable):
    """Represent Shannon's negentropy Omega(p) = gamma <p, log p>, whose argmax map on the simplex is the softmax.

    Its Fenchel-Young loss is gamma KL(y, softmax(v / gamma)), the cross-entropy for one-hot y.

    Args:
        gamma: the temperature, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a gamma that is not positive.

    Reference: Blondel et al. (2022), Section 2.

    Example:
        >>> gfy.Shannon().argmax(array([0.0, 1.0]), gfy.Simplex()).tolist()
        [0.269, 0.731]
    """

    gamma: float = 1.0
    entropy = "shannon"
    least = 0.0

    def __post_init__(self) -> None:
        check_positive(self.gamma, "Shannon.gamma")

    def coordinate_flatness(self, p: Array) -> Array:
        return p / self.gamma

    def coordinate_value(self, p: Array) -> Array:
        return self.gamma * xlogx(p)

    def grad(self, p: Array) -> Array:
        return self.gamma * (_log(p) + 1)

    def coordinate_argmax(self, theta: Array, low: Any, high: Any) -> Array:
        xp = namespace(theta)
        exponent = theta / self.gamma - 1
        # The bound is applied before the exponential, which could overflow.
        if not isinstance(high, float):
            exponent = clip(exponent, -math.inf, _log(high))
        else:
            exponent = clip(exponent, -math.inf, math.log(high) if high > 0 else -math.inf)
        return clip(xp.exp(exponent), low, high)

    def coordinate_slope(self, theta: Array, low: Any, high: Any) -> Array:
        xp = namespace(theta)
        exponent = theta / self.gamma - 1
        # The exponent is clipped one above the bound, so that p is still seen to lie outside it.
        if not isinstance(high, float):
            exponent = clip(exponent, -math.inf, _log(high) + 1)
        elif 0 < high < math.inf:
            exponent = clip(exponent, -math.inf, math.log(high) + 1)
        p = xp.exp(exponent)
        return xp.where((p >= low) & (p <= high), p / self.gamma, xp.zeros_like(p))

    def divergence(self, p: Array, q: Array) -> tuple[Array, Array]:
        found, near = _relative_entropy(p, q)
        return self.gamma * found, near

    def multiplier(self, theta: Array, domain: ConvexSet) -> Array:
        if not domain.simplex:
            return super().multiplier(theta, domain)
        return self.gamma * (logsumexp(theta / self.gamma, keepdims=True) - 1)

    def no_argmax(self, domain: ConvexSet) -> str | None:
        return self.unsuited(domain) if domain.ranked else super().no_argmax(domain)

    @in_single
    def argmax(self, theta: Array, domain: ConvexSet) -> Array:
        if domain.ranked and self.no_argmax(domain) is None:
            return domain.entropic(theta / self.gamma)
        return softmax(theta / self.gamma) if domain.simplex else super().argmax(theta, domain)

    @in_single
    def conjugate(self, theta: Array, domain: ConvexSet) -> Array:
        if domain.simplex:
            return self.gamma * logsumexp(theta / self.gamma)
        return super().conjugate(theta, domain)

    @in_single
    def slopes(self, theta: Array, domain: ConvexSet) -> Array:
        if not domain.simplex:
            return super().slopes(theta, domain)
        return softmax(theta / self.gamma) / self.gamma

    def strong_convexity(self, domain: ConvexSet) -> float:
        peak = domain.extent()[1]  # omega'' = gamma / p
        return self.gamma / peak if peak > 0 else math.inf


@dataclass(frozen=True)
class BinaryShannon(Separable):
    """Represent Shannon's negentropy of k yes-or-no labels, gamma sum p log p + (1 - p) log(1 - p).

    Its Fenchel-Young loss on [0, 1]^k is the binary logistic loss.

    Args:
        gamma: the temperature, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a gamma that is not positive.

    Example:
        >>> gfy.BinaryShannon().argmax(array([0.0, 1.0]), gfy.Box(0.0, 1.0)).tolist()
        [0.5, 0.731]
    """

    gamma: float = 1.0
    entropy = "binary"
    least = 0.0
    most = 1.0

    def __post_init__(self) -> None:
        check_positive(self.gamma, "BinaryShannon.gamma")

    def coordinate_flatness(self, p: Array) -> Array:
        return p * (1 - p) / self.gamma

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

    def divergence(self, p: Array, q: Array) -> tuple[Array, Array]:
        (first, near), (second, close) = _relative_entropy(p, q), _relative_entropy(1 - p, 1 - q)
        return self.gamma * (first + second), near & close

    def coordinate_loss(self, t: Array, q: Array, p: Array, eps: float) -> tuple[Array, Array]:
        loss, error = super().coordinate_loss(t, q, p, eps)
        # 1 - q is accurate to eps only. Where it is about as small as eps, q differs from the argmax, and the
        # loss by what is added here.
        xp = namespace(t)
        rest = 1 - q
        missed = xp.where(
            rest > 0,
            self.gamma * eps**2 / xp.where(rest > 0, rest, xp.ones_like(rest)),
            self.gamma * softplus(-t / self.gamma),
        )
        return loss, error + missed

    @in_single
    def conjugate(self, theta: Array, domain: ConvexSet) -> Array:
        if domain == _UNIT_BOX:
            return self.gamma * softplus(theta / self.gamma).sum(-1)
        return super().conjugate(theta, domain)

    def strong_convexity(self, domain: ConvexSet) -> float:
        return 4 * self.gamma


@dataclass(frozen=True)
class Tsallis(Separable):
    """Represent Tsallis' negentropy gamma sum (p^alpha - p) / (alpha (alpha - 1)); it gives the entmax.

    alpha = 2 is `Gini`, and the limit alpha = 1 is `Shannon`.

    Args:
        alpha: the exponent, above 1; 1.5 by default.
        gamma: the weight, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for an alpha that is not above 1, or a gamma that is not positive.

    Reference: Peters, Niculae and Martins (2019).

    Example:
        >>> gfy.Tsallis(alpha=1.5).argmax(array([1.0, 0.5, -2.0]), gfy.Simplex()).tolist()
        [0.674, 0.326, 0.0]
    """

    alpha: float = 1.5
    gamma: float = 1.0
    entropy = "tsallis"
    least = 0.0

    def __post_init__(self) -> None:
        check_positive(self.gamma, "Tsallis.gamma")
        if not 1 < self.alpha < math.inf:
            raise GfyValueError(
                f"Tsallis.alpha must be above 1, got {self.alpha!r}; the limit alpha = 1 is Shannon"
            )

    def coordinate_flatness(self, p: Array) -> Array:
        # It is computed from p, because a small p is lost by way of the gradient.
        return p ** (2 - self.alpha) / self.gamma

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

    def divergence(self, p: Array, q: Array) -> tuple[Array, Array]:
        share, near = _relative(p, q)
        xp = namespace(p)
        rise = xp.expm1(self.alpha * xp.log1p(share)) - self.alpha * share
        return self.gamma / (self.alpha * (self.alpha - 1)) * _power(q, self.alpha) * rise, near

    def strong_convexity(self, domain: ConvexSet) -> float:
        if self.alpha > 2:
            return 0.0  # omega'' = gamma p^(alpha - 2) vanishes at 0
        peak = domain.extent()[1]
        return float(self.gamma * peak ** (self.alpha - 2)) if peak > 0 else math.inf


def _relative(p: Array, q: Array) -> tuple[Array, Array]:
    """Return (p - q) / q where its size is at most 1/2 and 0 elsewhere, and where that is."""
    xp = namespace(p)
    near = (q > 0) & (xp.abs(p - q) <= 0.5 * q)
    return xp.where(near, (p - q) / xp.where(near, q, xp.ones_like(q)), xp.zeros_like(q)), near


def _relative_entropy(p: Array, q: Array) -> tuple[Array, Array]:
    """Return p log(p / q) - p + q for p near q, and where that is."""
    share, near = _relative(p, q)
    return q * ((1 + share) * namespace(p).log1p(share) - share), near


def _log(p: Array) -> Array:
    """Return log p, with -inf at 0 and without a warning."""
    xp = namespace(p)
    safe = xp.where(p > 0, p, xp.ones_like(p))
    return xp.where(p > 0, xp.log(safe), xp.full_like(p, -math.inf))


def _power(p: Array, exponent: float) -> Array:
    """Return p^exponent for p >= 0; the derivative recorded at 0 is finite (0)."""
    xp = namespace(p)
    safe = xp.where(p > 0, p, xp.ones_like(p))
    return xp.where(p > 0, safe**exponent, xp.zeros_like(p))
