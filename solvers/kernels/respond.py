"""Compute p_Omega(theta) of one example on {low <= p <= high}, with sum p = total where there is one, and its slopes.

The kinds of Omega: c/2 |p|^2 (a tilt is part of theta), and gamma times Shannon's or binary Shannon's negentropy.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels.memory import fill
from solvers.kernels.vectors import minus, power_of_two

QUADRATIC, BINARY, SHANNON = 0.0, 1.0, 2.0
_EPS = np.finfo(np.float64).eps
_PASSES = 200
_NEAR = 1e-13  # A sum with a larger relative error was not reached.
# Taylor's coefficients of exp. On [-log(2)/2, log(2)/2] their error is at most 2e-16.
_C = tuple(1.0 / x for x in (1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800, 479001600))
_LOG2_HIGH, _LOG2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10


@piece
def exponential(x):
    """Return exp x to the last digit or two for -708 <= x <= 709, and 0 below; it is a plain formula, so that
    loops vectorise."""
    x = min(x, 709.0)
    n = np.floor(1.4426950408889634 * x + 0.5)
    n = max(n, -1022.0)
    r = (x - n * _LOG2_HIGH) - n * _LOG2_LOW
    y = _C[12]
    y = y * r + _C[11]
    y = y * r + _C[10]
    y = y * r + _C[9]
    y = y * r + _C[8]
    y = y * r + _C[7]
    y = y * r + _C[6]
    y = y * r + _C[5]
    y = y * r + _C[4]
    y = y * r + _C[3]
    y = y * r + _C[2]
    y = y * r + _C[1]
    y = y * r + _C[0]
    return 0.0 if x < -708.0 else y * power_of_two(n)


@piece
def clamp(x, low, high):
    x = low if x < low else x  # a NaN stays a NaN
    return high if x > high else x


@piece
def coordinates(theta, base, tau, low, high, kind, c, p, D):
    """Compute p and D = dp/dtheta at theta - base - tau, without regard to the sum; return the sums of both."""
    total, weight = 0.0, 0.0
    inverse = 1.0 / c
    if kind == QUADRATIC:
        for j in range(p.shape[0]):
            x = minus(minus(theta[j], base), tau) * inverse
            q = clamp(x, low[j], high[j])
            d = inverse if (q > low[j]) & (q < high[j]) else 0.0
            p[j], D[j] = q, d
            total += q
            weight += d
    elif kind == BINARY:
        for j in range(p.shape[0]):
            x = minus(minus(theta[j], base), tau) * inverse
            e = exponential(-abs(x))
            d = 1.0 / (1.0 + e)
            q = (d if x >= 0 else e * d) + 0.0 * x
            d = e * d * d * inverse
            d = d if (q >= low[j]) & (q <= high[j]) else 0.0
            q = clamp(q, low[j], high[j])
            p[j], D[j] = q, d
            total += q
            weight += d
    else:
        for j in range(p.shape[0]):
            x = minus(minus(theta[j], base), tau) * inverse - 1.0
            q = exponential(x) + 0.0 * x
            d = q * inverse if (q >= low[j]) & (q <= high[j]) else 0.0
            q = clamp(q, low[j], high[j])
            p[j], D[j] = q, d
            total += q
            weight += d
    return total, weight


@piece
def coordinate(x, low, high, kind):
    """Return one coordinate of p at the score x c."""
    if kind == QUADRATIC:
        return clamp(x, low, high)
    if kind == BINARY:
        e = exponential(-abs(x))
        return clamp((1.0 if x >= 0 else e) / (1.0 + e), low, high)
    return clamp(exponential(x - 1.0), low, high)


@piece
def between(theta, base, left, right, low, high, kind, c, wanted, p, D):
    """Interpolate p between its values at the numbers next to tau, so that it has the wanted sum.

    Where the scores are so large that tau has too few digits to separate two labels, the sum of p jumps past the
    wanted sum between two neighbouring values of tau.
    """
    over, _ = coordinates(theta, base, left, low, high, kind, c, p, D)
    under, weight = coordinates(theta, base, right, low, high, kind, c, p, D)
    share = (wanted - under) / (over - under) if over > under else 0.0
    share = min(max(share, 0.0), 1.0)
    for j in range(p.shape[0]):
        p[j] += share * (coordinate(minus(minus(theta[j], base), left) / c, low[j], high[j], kind) - p[j])
    return weight


@piece
def respond(theta, low, high, kind, c, wanted, tau, p, D):
    """Compute p and D; `wanted` is the total, NaN for none; tau is a guess. Return tau and the sum of D.

    The search is for the distance of tau from the largest score. On a simplex tau lies near that score, so the
    distance is small and keeps its digits.
    """
    if wanted != wanted:
        return 0.0, coordinates(theta, 0.0, 0.0, low, high, kind, c, p, D)[1]
    k = p.shape[0]
    share = wanted / k
    level = c * share
    if kind == BINARY:
        level = c * (np.log(share) - np.log1p(-share))
    elif kind == SHANNON:
        level = c * (np.log(share) + 1.0)
    least, base = np.inf, -np.inf
    for j in range(k):
        least, base = min(least, theta[j]), max(base, theta[j])
    if not base - least < np.inf:  # a score is NaN or infinite
        fill(p, np.nan)
        fill(D, 0.0)
        return 0.0, 0.0
    # The sum is at least what is wanted at `left`, and at most that at `right`.
    left, right = minus(minus(least, base), level), -level
    # At this end the largest score alone would get the whole sum.
    if kind != BINARY and wanted <= high[0]:
        left = max(left, -(c * wanted if kind == QUADRATIC else c * (np.log(wanted) + 1.0)))
    tau -= base
    if kind == SHANNON or not left <= tau <= right:
        tau = left  # Newton's steps from there do not overshoot where no upper bound is active.
    weight, excess = 0.0, 0.0
    for count in range(_PASSES):
        total, weight = coordinates(theta, base, tau, low, high, kind, c, p, D)
        excess = total - wanted
        if abs(excess) <= 2 * _EPS * wanted:
            return base + tau, weight
        if excess > 0:
            left = tau
        else:
            right = tau
        new = tau + (c * np.log(total / wanted) if kind == SHANNON else excess / weight)
        if not left < new < right or count % 3 == 2:  # Newton's steps can cycle between two kinks
            new = left + 0.5 * (right - left)
        if new == left or new == right:  # noqa: SIM109 (a compiled loop)
            break
        tau = new
    total = 0.0
    if weight > 0:  # tau has no digits left, so the rest of the excess is taken from p itself.
        for j in range(k):
            p[j] = clamp(p[j] - excess * (D[j] / weight), low[j], high[j])
            total += p[j]
    if not abs(total - wanted) <= _NEAR * wanted:
        weight = between(theta, base, left, right, low, high, kind, c, wanted, p, D)
    return base + tau, weight
