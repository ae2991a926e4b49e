"""Define what a regularizer must provide, and how separable ones get their argmax map on every set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import UnsupportedError
from gfy.numerics.arithmetic import dot
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.regularizers.bounds import GapBound, separable_bound, tangent_bound
from gfy.regularizers.transport import Margins
from gfy.sets.base import ConvexSet
from gfy.sets.threshold import threshold


class Regularizer:
    """This class is the base of every regularizer Omega, a convex function on a set C.

    Its argmax map is p_Omega(theta) = argmax_{p in C} <theta, p> - Omega(p), `argmax(theta, domain)`. The attributes
    are facts. Solvers and certificates read these facts and never ask for the class.

    Example:
        >>> gfy.Gini().value(array([0.5, 0.5])).item()
        -0.25
        >>> gfy.Gini().argmax(array([1.0, 0.5, -2.0]), gfy.Simplex()).tolist()
        [0.75, 0.25, 0.0]
    """

    zero: bool = False  # Omega = 0
    quadratic: bool = False  # Omega = curvature / 2 |p|^2 - tilt <1, p>, with curvature = 0 where it is zero
    # Omega = sum_j omega(p_j) with omega strictly convex; the methods that `Separable` declares exist then.
    separable: bool = False
    # "shannon", "binary" or "tsallis" where Omega is gamma times that entropy; alpha belongs to "tsallis".
    entropy: str | None = None
    # the name of f where Omega is gamma times an f-divergence from `prior`
    divergence_from: str | None = None
    gamma: float  # the strength of an entropy or a divergence
    curvature: float = 0.0
    tilt: float = 0.0
    least: float = -math.inf  # Omega is defined where every coordinate is in [least, most].
    most: float = math.inf

    @property
    def name(self) -> str:
        return type(self).__name__

    def value(self, p: Array) -> Array:
        """Return Omega(p), [..., k] -> [...]; the value is exact on the boundary."""
        raise NotImplementedError(f"{self.name} must define the method value")

    def grad(self, p: Array) -> Array:
        """Return the gradient of Omega, [..., k] -> [..., k]; it is infinite where the derivative is."""
        raise NotImplementedError(f"{self.name} must define the method grad")

    def unsuited(self, domain: ConvexSet) -> str | None:
        """Return a sentence why Omega is not defined on the set, or None where it is."""
        return None

    def no_argmax(self, domain: ConvexSet) -> str | None:
        """Return the reason why p_Omega cannot be computed on the set, in a sentence, or None where it can."""
        return self.unsuited(domain)

    def argmax(self, theta: Array, domain: ConvexSet) -> Array:
        """Return p_Omega(theta), [..., k] -> [..., k]; it is differentiable."""
        raise NotImplementedError(f"{self.name} must define the method argmax")

    # elementwise functions of omega, which a separable regularizer must provide

    def coordinate_value(self, p: Array) -> Array:
        """Return omega(p), elementwise."""
        raise NotImplementedError(f"{self.name} must define the method coordinate_value")

    def coordinate_argmax(self, theta: Array, low: Any, high: Any) -> Array:
        """Return argmax_{low <= p <= high} theta p - omega(p), elementwise."""
        raise NotImplementedError(f"{self.name} must define the method coordinate_argmax")

    def coordinate_slope(self, theta: Array, low: Any, high: Any) -> Array:
        """Return the derivative of `coordinate_argmax` in theta, elementwise, or 0 where a bound is active."""
        raise NotImplementedError(f"{self.name} must define the method coordinate_slope")

    def coordinate_flatness(self, p: Array) -> Array:
        """Return 1 / omega''(p), elementwise, for p inside the bounds, or 0 where it is not finite."""
        xp = namespace(p)
        found = self.coordinate_slope(self.grad(p), -math.inf, math.inf)
        return xp.where(xp.isfinite(found), found, xp.zeros_like(found))

    def part(self, take: Callable[[Array], Array], like: Array) -> Regularizer:
        """Return Omega on the coordinates that `take` picks from an array [..., k]; the same object where
        omega is one for all."""
        return self

    def check_dim(self, k: int) -> None:
        """Raise where Omega does not exist in R^k."""

    def slopes(self, theta: Array, domain: ConvexSet) -> Array:
        """Return the diagonal D [..., k] of J = dp_Omega/dtheta: J = diag(D), minus D D^T / sum D where sum p
        is fixed."""
        raise NotImplementedError(f"{self.name} must define the method slopes")

    @in_single
    def conjugate(self, theta: Array, domain: ConvexSet) -> Array:
        """Return Omega*(theta) = max_{p in C} <theta, p> - Omega(p), [..., k] -> [...]; its gradient is
        p_Omega(theta)."""
        p = backend_of(theta).stop_gradient(self.argmax(theta, domain))
        return dot(theta, p) - self.value(p)

    def excess(self, theta: Array, best: Array, p: Array) -> Array:
        """Return <theta, best - p> - Omega(best) + Omega(p), [...]: L_Omega(theta, p) where best =
        p_Omega(theta) exactly.

        A solver measures itself with it quickly. `gap` is an upper bound, however inaccurate the argmax map is.
        """
        return dot(theta, best - p) - (self.value(best) - self.value(p))

    def gap(self, theta: Array, p: Array, domain: ConvexSet, blur: Array | float = 0.0) -> GapBound:
        """Return an upper bound of L_Omega(theta, p) = Omega*(theta) + Omega(p) - <theta, p> for p in C, in
        its `gap` [...].

        theta, p [..., k]. The bound holds for every theta within `blur` [..., k] of the one given. It depends on the
        gradient of Omega and on the linear oracle of C, and not on the accuracy of the argmax map.
        """
        return tangent_bound(self, theta, p, domain, namespace(theta).zeros_like(theta) + blur)

    @in_single
    def jacobian_product(self, theta: Array, domain: ConvexSet, x: Array) -> Array:
        """Return J x with J = dp_Omega/dtheta, symmetric positive semi-definite, [..., k] -> [..., k]."""
        backend = backend_of(theta)
        point = backend.xp.broadcast_to(theta, x.shape)
        return backend.symmetric_product(lambda t: self.argmax(t, domain), point, x)

    def difference(self, p: Array, q: Array) -> Array:
        """Return Omega(p) - Omega(q), [...]."""
        return self.value(p) - self.value(q)

    def chord(self, p: Array, q: Array) -> Array | None:
        """Return c [..., k] with Omega(q) - Omega(p) = <c, p - q>, where it is as simple as the gradient."""
        return None

    def strong_convexity(self, domain: ConvexSet) -> float:
        """Return the largest known gamma for which Omega is gamma-strongly convex on C (Euclidean norm), or 0
        without one."""
        return 0.0

    def lipschitz(self, domain: ConvexSet, k: int) -> float:
        """Return a Lipschitz constant of Omega on C in R^k (Euclidean norm); it is infinite where none is known."""
        return math.inf


class Separable(Regularizer):
    """Represent Omega(p) = sum_j omega(p_j): a subclass defines the scalar omega, and the sets do the rest."""

    separable = True

    def derivative(self, p: float) -> float:
        """Return omega'(p) of a plain number, possibly infinite."""
        return float(self.grad(np.asarray([p]))[0])

    def value(self, p: Array) -> Array:
        return self.coordinate_value(p).sum(-1)

    def difference(self, p: Array, q: Array) -> Array:
        return (self.coordinate_value(p) - self.coordinate_value(q)).sum(-1)

    @property
    def unit(self) -> float:
        """Return the size of omega' on [1/4, 3/4], which is the size of its constants."""
        first, last = self.derivative(0.25), self.derivative(0.75)
        return abs(first) + abs(last) + abs(last - first)

    def divergence(self, p: Array, q: Array) -> tuple[Array, Array] | None:
        """Return omega(p) - omega(q) - omega'(q) (p - q), elementwise, and where its error is a few eps of |p
        - q| alone."""
        return None

    def excess(self, theta: Array, best: Array, p: Array) -> Array:
        return (theta * (best - p) - (self.coordinate_value(best) - self.coordinate_value(p))).sum(-1)

    def coordinate_loss(self, t: Array, q: Array, p: Array, eps: float) -> tuple[Array, Array]:
        """Return t (q - p) - omega(q) + omega(p) and a bound of its rounding, elementwise; q is the argmax at t."""
        xp = namespace(t)
        move = p - q
        ends = self.coordinate_value(p), self.coordinate_value(q)
        direct = (ends[0] - ends[1]) - t * move
        error = 8 * eps * (xp.abs(t * move) + xp.abs(ends[0]) + xp.abs(ends[1]))
        found = self.divergence(p, q)
        if found is not None:
            near = found[1] & (move != 0)
            slope = self.grad(xp.where(near, q, xp.full_like(q, 0.5)))
            direct = xp.where(near, found[0] + (slope - t) * move, direct)
            error = xp.where(near, 8 * eps * xp.abs(move) * (xp.abs(t) + xp.abs(slope) + self.unit), error)
        same = move == 0
        return xp.where(same, xp.zeros_like(direct), direct), xp.where(same, xp.zeros_like(error), error)

    def gap(self, theta: Array, p: Array, domain: ConvexSet, blur: Array | float = 0.0) -> GapBound:
        if (domain.banded or domain.stochastic) and self.no_argmax(domain) is None:
            return separable_bound(self, theta, p, domain, namespace(theta).zeros_like(theta) + blur)
        return super().gap(theta, p, domain, blur)

    def unsuited(self, domain: ConvexSet) -> str | None:
        if self.least == -math.inf and self.most == math.inf:
            return None
        low, high = domain.extent()
        if low >= self.least and high <= self.most:
            return None
        return (
            f"{self.name} is defined for {self.least:g} <= p <= {self.most:g} but {domain.name} allows "
            f"{low:g} <= p <= {high:g}: use Simplex, CappedSimplex, or Box({self.least:g}, "
            f"{1.0 if self.most == math.inf else self.most:g})"
        )

    def no_argmax(self, domain: ConvexSet) -> str | None:
        reason = self.unsuited(domain)
        if reason is None and not (domain.banded or domain.stochastic):
            reason = f"{self.name} has no argmax map on {domain.name}: only quadratic regularizers have (a projection)"
        return reason

    @in_single
    def argmax(self, theta: Array, domain: ConvexSet) -> Array:
        reason = self.no_argmax(domain)
        if reason is not None:
            raise UnsupportedError(reason)
        if domain.stochastic:
            return domain.flat(Margins(self).argmax(domain.matrix(theta)))
        low, high = domain.bounds(theta)
        if domain.total is None:
            return self.coordinate_argmax(theta, low, high)
        if self.one_point(theta, domain):
            return 0 * theta + high  # p does not depend on theta, and its derivative is recorded as zero.
        return self.coordinate_argmax(self._shifted(theta, domain), low, high)

    @in_single
    def jacobian_product(self, theta: Array, domain: ConvexSet, x: Array) -> Array:
        if domain.stochastic:
            return domain.flat(Margins(self).jacobian_product(domain.matrix(theta), domain.matrix(x)))
        if not domain.banded:
            return super().jacobian_product(theta, domain, x)
        slope = self.slopes(theta, domain)
        if domain.total is None:
            return slope * x
        weight = slope.sum(-1)[..., None]
        mean = dot(slope, x)[..., None] / namespace(x).where(
            weight > 0, weight, namespace(x).ones_like(weight)
        )
        return slope * (x - mean)

    @in_single
    def slopes(self, theta: Array, domain: ConvexSet) -> Array:
        low, high = domain.bounds(theta)
        if domain.total is None:
            return self.coordinate_slope(theta, low, high)
        if self.one_point(theta, domain):
            return namespace(theta).zeros_like(theta)
        return self.coordinate_slope(self._shifted(theta, domain), low, high)

    def multiplier(self, theta: Array, domain: ConvexSet) -> Array:
        """Return tau [..., 1] of the constraint sum p = total, to the rounding of theta."""
        # Every coordinate is shifted by the same number, up to rounding.
        return namespace(theta).mean(theta - self._shifted(theta, domain), axis=-1)[..., None]

    def one_point(self, theta: Array, domain: ConvexSet) -> bool:
        """Return whether the sum can only be reached with every coordinate at its upper bound."""
        high = domain.bounds(theta)[1]
        return isinstance(high, float) and domain.total is not None and domain.total >= high * theta.shape[-1]

    def _shifted(self, theta: Array, domain: ConvexSet) -> Array:
        """Return theta - tau with sum p = total; tau lies between those that put total / k, or all of it, on
        one score."""
        xp = namespace(theta)
        assert domain.total is not None
        low, high = domain.bounds(theta)
        level = self.derivative(domain.total / theta.shape[-1])
        smallest = xp.min(theta, axis=-1)[..., None] - level
        largest = xp.max(theta, axis=-1)[..., None] - level
        peak = self.derivative(domain.total) if domain.total <= high else math.inf
        if math.isfinite(peak) and low == 0:
            smallest = xp.maximum(smallest, xp.max(theta, axis=-1)[..., None] - peak)
        return threshold(
            theta,
            domain.total,
            lambda t: self.coordinate_argmax(t, low, high),
            lambda t: self.coordinate_slope(t, low, high),
            smallest,
            largest,
        )
