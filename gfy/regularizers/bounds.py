"""Bound L_Omega(theta, p) = Omega*(theta) + Omega(p) - <theta, p> from above by weak duality.

The value at an approximate maximiser is a lower bound of Omega*(theta), and a certificate needs an upper bound.

`separable_bound`: let t = theta - multipliers, with *any* multipliers of the constraints. Omega*(theta) is then at
most sum_j omega*(t_j) over the bounds alone, plus the multipliers times the right-hand sides of the constraints. The
bound is a sum of coordinate losses omega*(t_j) + omega(p_j) - t_j p_j >= 0, and each is computed so that nothing
cancels near its zero.

`tangent_bound`: a concave f(q) = <theta, q> - Omega(q) lies below its tangent at *any* q, so that its maximum over C
is at most f(q) + max_{r in C} <grad f(q), r - q>. One call of the linear oracle gives this maximum.

Both bounds hold for a p that violates the constraints by rounding, and for every theta' within `blur` of theta. The
rounding of their own sums is added to them: a few eps times the sizes of the terms, where these cancel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gfy.backend import backend_of, namespace
from gfy.numerics.arithmetic import dot
from gfy.protocols import Array
from gfy.regularizers.transport import Margins, spread
from gfy.sets.base import ConvexSet

if TYPE_CHECKING:
    from gfy.regularizers.base import Regularizer, Separable

_ROUNDINGS = 8  # the rounding of one elementary expression, in eps
# Steps from p towards the middle of C, as shares of the way, for points where a slope is infinite.
_INWARD = (
    1e-15,
    1e-12,
    1e-9,
    1e-6,
    1e-3,
    0.1,
    0.5,
)


class GapBound(NamedTuple):
    """Hold gap [...] >= L_Omega(theta', p) for every theta' within `blur` of theta, and the multipliers it
    was found with."""

    gap: Array
    best: Array  # [..., k] p_Omega(theta), as accurate as it can be computed
    off: Array  # [...] an upper bound of the distance of `best` to p_Omega(theta'); infinite where none is known
    # [...] the part of the gap, of either sign, that the rounding of p in the constraints may cause
    slack: Array


class _Pull(NamedTuple):
    """Hold multipliers of the constraints of a set, computed from theta and p."""

    t: Array  # [..., k] theta less the multipliers
    best: Array  # [..., k]
    # [...] how far `best` can be from p_Omega(theta), because its constraints hold only to rounding
    missed: Array
    earned: Array  # [...] the sum of multiplier times residual over the constraints, at p


def separable_bound(
    regularizer: Separable, theta: Array, p: Array, domain: ConvexSet, blur: Array
) -> GapBound:
    """Return the bound on bands and doubly stochastic matrices, for p within the bounds."""
    xp = namespace(theta)
    if domain.banded and regularizer.one_point(theta, domain):
        return _point_bound(regularizer, theta, p, regularizer.argmax(theta, domain), blur)
    low, high = domain.bounds(theta) if domain.banded else domain.extent()
    pull = _pull(regularizer, theta, p, domain)
    eps = backend_of(theta).eps(theta)
    q = regularizer.coordinate_argmax(pull.t, low, high)
    loss, error = regularizer.coordinate_loss(pull.t, q, p, eps)
    # t is known to within `doubt`. omega* is convex, so its slope at the far end bounds the change.
    doubt = blur + _ROUNDINGS * eps * (xp.abs(pull.t) + regularizer.unit)
    above = regularizer.coordinate_argmax(pull.t + doubt, low, high)
    below = regularizer.coordinate_argmax(pull.t - doubt, low, high)
    change = doubt * xp.maximum(above - p, p - below)
    total = (1 + _ROUNDINGS * eps) * (loss + error + xp.maximum(change, xp.zeros_like(change))).sum(-1)
    width = above - below
    return GapBound(
        total + pull.earned, pull.best, xp.sqrt(dot(width, width)) + pull.missed, xp.abs(pull.earned)
    )


def _point_bound(regularizer: Separable, theta: Array, p: Array, only: Array, blur: Array) -> GapBound:
    """Return the value at the set's only point minus the value at p, where the set has one point."""
    xp = namespace(theta)
    ends = regularizer.coordinate_value(p), regularizer.coordinate_value(only)
    move = xp.abs(only - p)
    error = move * (xp.abs(theta) * _ROUNDINGS * backend_of(theta).eps(theta) + blur)
    error = error + xp.where(
        move > 0, _ROUNDINGS * backend_of(theta).eps(theta) * xp.abs(ends[0]), xp.zeros_like(move)
    )
    gap = (theta * (only - p) + (ends[0] - ends[1]) + error).sum(-1)
    return GapBound(gap, only, xp.zeros_like(gap), xp.abs(gap))


def _pull(regularizer: Separable, theta: Array, p: Array, domain: ConvexSet) -> _Pull:
    if domain.stochastic:
        matrix, duals = Margins(regularizer).solution(domain.matrix(theta))
        earned = (duals * _short(_margins(domain.matrix(p)), 1.0)).sum(-1)
        missed = namespace(theta).abs(_short(_margins(matrix), 1.0)).sum(-1)
        # A change of the solution is a mixture of changes along trees, and no edge of a tree carries more
        # than the whole change.
        return _Pull(
            domain.flat(domain.matrix(theta) - spread(duals)),
            domain.flat(matrix),
            (2 * matrix.shape[-1]) ** 0.5 * missed,
            earned,
        )
    best = regularizer.argmax(theta, domain)
    if domain.total is None:
        none = namespace(best).zeros_like(best[..., 0])
        return _Pull(theta, best, none, none)
    tau = regularizer.multiplier(theta, domain)
    earned = tau[..., 0] * _short(p, domain.total)
    # All coordinates move in the same direction with the multiplier, so together they move by the residual of
    # the sum.
    return _Pull(theta - tau, best, namespace(theta).abs(_short(best, domain.total)), earned)


def _margins(matrix: Array) -> Array:
    """Return the rows, then the columns: [..., n, n] -> [..., 2n, n]."""
    xp = namespace(matrix)
    return xp.concat([matrix, xp.matrix_transpose(matrix)], axis=-2)


def _short(x: Array, total: float) -> Array:
    """Return total - sum x over the last axis, to about eps^2: the rounding of every addition is added up as well."""
    xp = namespace(x)
    rest = xp.zeros_like(x[..., 0])
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        a, b, odd = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        both = a + b
        given = both - a
        rest = rest + ((a - (both - given)) + (b - given)).sum(-1)
        x = xp.concat([both, odd], axis=-1)
    return (total - x[..., 0]) - rest


def tangent_bound(
    regularizer: Regularizer, theta: Array, p: Array, domain: ConvexSet, blur: Array
) -> GapBound:
    """Return the bound on any set with a linear oracle, for any regularizer with a gradient; the best of a
    few q is taken."""
    backend = backend_of(theta, p)
    xp = backend.xp
    answers = regularizer.no_argmax(domain) is None
    best = regularizer.argmax(theta, domain) if answers else p
    tangents = _Tangents(regularizer, theta, p, domain, blur)
    gap, over = tangents.at(best)
    if answers:
        gap = _least(gap, tangents.at(p)[0])
    if not answers or not bool(xp.all(xp.isfinite(gap))):
        middle = domain.center(p)
        for share in _INWARD:
            gap = _least(gap, tangents.at(p + share * (middle - p))[0])
    mu = regularizer.strong_convexity(domain)
    off = xp.sqrt(2 * over / mu) if mu > 0 else xp.full_like(over, float("inf"))
    return GapBound(gap, best, off, xp.zeros_like(gap))


class _Tangents:
    """Compute the bounds by the tangents of f(q) = <theta, q> - Omega(q)."""

    def __init__(self, regularizer: Regularizer, theta: Array, p: Array, domain: ConvexSet, blur: Array):
        self.regularizer, self.theta, self.p, self.domain, self.blur = regularizer, theta, p, domain, blur
        self.eps = backend_of(theta, p).eps(theta)
        self.mu = regularizer.strong_convexity(domain)
        self.diameter = domain.diameter(p.shape[-1]) if domain.compact else float("inf")
        self._still: Any = None

    def at(self, q: Array) -> tuple[Array, Array]:
        """Return (the bound of L_Omega(theta, p) by the tangent at q, how much of it is max f - f(q)), [...] each."""
        xp = namespace(q)
        eps = _ROUNDINGS * self.eps
        slope, rounding, known = self._slope(q)
        doubt = self.blur + rounding
        size = xp.sqrt(dot(doubt, doubt))
        over = xp.full_like(size, float("inf"))
        if self.domain.compact:
            vertex = self.domain.linear_oracle(slope)
            wrong = eps * dot(xp.abs(slope), xp.abs(vertex) + xp.abs(q))
            ahead = dot(slope, vertex - q)
            over = xp.maximum(ahead, xp.zeros_like(ahead)) + wrong + self.diameter * size
        if self.mu > 0:
            over = _least(over, (xp.sqrt(dot(slope, slope)) + size) ** 2 / (2 * self.mu))
        move = q - self.p
        chord = self.regularizer.chord(q, self.p)
        if chord is None:
            ends = self.regularizer.value(self.p), self.regularizer.value(q)
            rise = dot(self.theta, move) + (ends[0] - ends[1])
            error = dot(xp.abs(self.theta), xp.abs(move)) + self._magnitude(self.p, q)
            error = xp.where(xp.max(xp.abs(move), axis=-1) > 0, error, xp.zeros_like(error))
        else:
            rise = dot(self.theta + chord, move)
            error = dot(xp.abs(self.theta) + xp.abs(chord), xp.abs(move))
        none = xp.full_like(over, float("inf"))
        gap = rise + eps * error + dot(doubt, xp.abs(move)) + over
        return xp.where(known, gap, none), xp.where(known, over, none)

    def _slope(self, q: Array) -> tuple[Array, Array, Array]:
        """Return grad f(q), its rounding, and whether it is finite [...]; it is 0 where a coordinate is
        constant on C."""
        xp = namespace(q)
        own = self.regularizer.grad(q)
        if not bool(xp.all(xp.isfinite(own))):
            if self._still is None:
                self._still = ~xp.isfinite(self.regularizer.grad(self.domain.center(self.p)))
            own = xp.where(self._still, self.theta, own)
        finite = xp.isfinite(own)
        own = xp.where(finite, own, xp.zeros_like(own))
        rounding = _ROUNDINGS * self.eps * (xp.abs(self.theta) + xp.abs(own))
        return self.theta - own, rounding, xp.all(finite, axis=-1)

    def _magnitude(self, *points: Array) -> Array:
        """Return the sizes of the terms of Omega at the points where it is a sum over coordinates, else the
        size of its value."""
        xp = namespace(self.theta)
        omega = self.regularizer
        sizes = (
            xp.abs(omega.coordinate_value(x)).sum(-1) if omega.separable else xp.abs(omega.value(x))
            for x in points
        )
        return sum(sizes, start=xp.zeros_like(self.theta[..., 0]))


def _least(a: Array, b: Array) -> Array:
    """Return the smaller number, where neither or one of the two may be NaN or infinite."""
    xp = namespace(a)
    b = xp.where(xp.isfinite(b), b, xp.full_like(b, float("inf")))
    return xp.where(a <= b, a, b)
