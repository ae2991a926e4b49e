"""Define quadratic regularizers: omega(p) = curvature / 2 p^2 - tilt p. Their argmax map is a projection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.arithmetic import clip, dot
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.regularizers.base import Regularizer, Separable
from gfy.regularizers.bounds import GapBound
from gfy.sets.base import ConvexSet


class Quadratic(Separable):
    """Represent omega(p) = curvature / 2 p^2 - tilt p with curvature > 0."""

    gamma: float
    quadratic = True

    @property
    def curvature(self) -> float:  # type: ignore[override]
        raise NotImplementedError(f"{self.name} must define the method curvature")

    def __post_init__(self) -> None:
        check_positive(self.gamma, f"{self.name}.gamma")

    def coordinate_value(self, p: Array) -> Array:
        return (0.5 * self.curvature * p - self.tilt) * p

    def grad(self, p: Array) -> Array:
        return self.curvature * p - self.tilt

    def chord(self, p: Array, q: Array) -> Array:
        slope = p + q
        slope *= -0.5 * self.curvature  # in place, where the framework allows it
        slope += self.tilt
        return slope

    def coordinate_argmax(self, theta: Array, low: Any, high: Any) -> Array:
        return clip((theta + self.tilt) / self.curvature, low, high)

    def coordinate_slope(self, theta: Array, low: Any, high: Any) -> Array:
        xp = namespace(theta)
        p = (theta + self.tilt) / self.curvature
        inside = xp.astype((p >= low) & (p <= high), theta.dtype)
        return inside / self.curvature

    def coordinate_flatness(self, p: Array) -> Array:
        return namespace(p).full_like(p, 1 / self.curvature)

    def divergence(self, p: Array, q: Array) -> tuple[Array, Array]:
        # Nothing cancels in this form, so gaps far below the rounding of the values remain accurate.
        return 0.5 * self.curvature * (p - q) ** 2, p == p

    def excess(self, theta: Array, best: Array, p: Array) -> Array:
        # Nothing cancels in this product, so gaps far below the rounding of the values remain accurate.
        return ((best - p) * (theta + self.tilt - 0.5 * self.curvature * (best + p))).sum(-1)

    def gap(self, theta: Array, p: Array, domain: ConvexSet, blur: Array | float = 0.0) -> GapBound:
        bound = super().gap(theta, p, domain, blur)
        if not domain.ball:
            return bound
        # The projection onto a ball is a closed formula, which is accurate to rounding.
        wrong = blur + 4 * backend_of(theta).eps(theta) * namespace(theta).abs(theta)
        size = namespace(theta).sqrt(dot(wrong, wrong)) / self.curvature
        return bound._replace(off=size + 16 * backend_of(theta).eps(theta) * domain.radius)

    def no_argmax(self, domain: ConvexSet) -> str | None:
        return None

    @in_single
    def argmax(self, theta: Array, domain: ConvexSet) -> Array:
        if domain.banded or domain.stochastic:
            return super().argmax(theta, domain)
        return domain.project((theta + self.tilt) / self.curvature)

    @in_single
    def conjugate(self, theta: Array, domain: ConvexSet) -> Array:
        # p is not detached, because second derivatives of the conjugate need the derivative of the
        # projection.
        p = self.argmax(theta, domain)
        return dot(theta, p) - self.value(p)

    def strong_convexity(self, domain: ConvexSet) -> float:
        return self.curvature

    def lipschitz(self, domain: ConvexSet, k: int) -> float:
        if not domain.compact:
            return math.inf
        if domain.ball and self.tilt == 0:
            return float(self.curvature * domain.radius)
        low, high = domain.extent()
        worst = max(abs(self.curvature * low - self.tilt), abs(self.curvature * high - self.tilt))
        return worst * math.sqrt(k)


@dataclass(frozen=True)
class SquaredNorm(Quadratic):
    """Represent the regularizer Omega(p) = gamma / 2 |p|^2, whose argmax map is the projection of theta / gamma onto C.

    On R^k its Fenchel-Young loss is the squared loss, on the simplex the sparsemax loss.

    Args:
        gamma: the weight, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a gamma that is not positive.

    Example:
        >>> gfy.SquaredNorm().value(array([3.0, 4.0])).item()
        12.5
        >>> gfy.SquaredNorm().argmax(array([0.5, 2.0]), gfy.Box(0.0, 1.0)).tolist()
        [0.5, 1.0]
    """

    gamma: float = 1.0

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return self.gamma


@dataclass(frozen=True)
class Gini(Quadratic):
    """Represent Gini's negentropy Omega(p) = gamma / 2 <p, p - 1>, whose argmax map on the simplex is the sparsemax.

    The paper prints the opposite sign, with which Omega would be concave.

    Args:
        gamma: the weight, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a gamma that is not positive.

    Reference: Martins and Astudillo (2016); Blondel et al. (2022), Section 2.

    Example:
        >>> gfy.Gini().argmax(array([1.0, 0.5, -2.0]), gfy.Simplex()).tolist()
        [0.75, 0.25, 0.0]
    """

    gamma: float = 1.0

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return self.gamma

    @property
    def tilt(self) -> float:  # type: ignore[override]
        return self.gamma / 2


@dataclass(frozen=True)
class BinaryGini(Quadratic):
    """Represent Gini's negentropy of k yes-or-no labels, Omega(p) = gamma <p, p - 1>; it is 2 gamma-strongly convex.

    On [0, 1]^k its argmax map is the sparse sigmoid clip((theta / gamma + 1) / 2, 0, 1).

    Args:
        gamma: the weight, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a gamma that is not positive.

    Reference: Blondel et al. (2022), Section 6.

    Example:
        >>> gfy.BinaryGini().argmax(array([0.0, 0.5, 3.0]), gfy.Box(0.0, 1.0)).tolist()
        [0.5, 0.75, 1.0]
    """

    gamma: float = 1.0

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return 2 * self.gamma

    @property
    def tilt(self) -> float:  # type: ignore[override]
        return self.gamma


@dataclass(frozen=True)
class Zero(Regularizer):
    """Represent no regularizer, Omega = 0 on a compact C; the loss is then the generalized perceptron loss.

    Raises:
        UnsupportedError: when used on a set that is not compact.

    Reference: Blondel et al. (2022), Section 5.

    Example:
        >>> gfy.Zero().argmax(array([1.0, 0.5, -2.0]), gfy.Simplex()).tolist()  # the best vertex
        [1.0, 0.0, 0.0]
    """

    zero = True
    quadratic = True

    def value(self, p: Array) -> Array:
        return (p * 0).sum(-1)

    def grad(self, p: Array) -> Array:
        return namespace(p).zeros_like(p)

    def no_argmax(self, domain: ConvexSet) -> str | None:
        return None if domain.compact else f"Zero needs a compact set to have an argmax, {domain.name} is not"

    @in_single
    def argmax(self, theta: Array, domain: ConvexSet) -> Array:
        reason = self.no_argmax(domain)
        if reason is not None:
            raise UnsupportedError(reason)
        return domain.linear_oracle(theta)

    @in_single
    def jacobian_product(self, theta: Array, domain: ConvexSet, x: Array) -> Array:
        if domain.ball:
            return super().jacobian_product(theta, domain, x)
        return namespace(x).zeros_like(x)  # the argmax is a vertex, which is piecewise constant in theta

    def lipschitz(self, domain: ConvexSet, k: int) -> float:
        return 0.0


def check_positive(value: float, argument: str) -> None:
    if not (isinstance(value, int | float) and 0 < value < math.inf):
        hint = "" if isinstance(value, int | float) else ": give an int or a float of Python, float(...)"
        raise GfyValueError(f"{argument} must be a positive number, got {value!r}{hint}")
