"""Run semismooth Newton on psi(q) = -1/2 <q, U q> + Omega*(b + U q), one example at a time, for Omega and
sets of `respond`.

psi is convex and its value is an upper bound of the maximum. Its gradient -U (q - p) vanishes at q = p =
p_Omega(b + U q). With D = dp/dtheta a step solves (1/D - U) dp = e on the coordinates where D > 0 (Cholesky), where
e = b + U p - theta. The constraint on sum p adds one multiplier. The method is global, because a bracketed search
along the step finds the zero of psi's slope.
Reference: Qi and Sun (1993), a nonsmooth version of Newton's method.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels import factor
from solvers.kernels.ends import CONVERGED, INACCURATE, NOT_FINITE, ROUNDING_FLOOR, STEP_LIMIT
from solvers.kernels.memory import copy, fill
from solvers.kernels.respond import QUADRATIC, respond
from solvers.kernels.trust import explained
from solvers.kernels.vectors import add_multiple, address, unsound

_EPS, _SINGLE = np.finfo(np.float64).eps, float(np.finfo(np.float32).eps)
_NEAR = 1e-4  # A step on the right face of a quadratic is exact, so every small number is good enough.
_SEARCHES = 40
_STILL = 3
_FLAT = 0.1  # A search ends when the slope has fallen to this share of its value at the start.

_gather, _factor, _back = factor.gather, factor.factor, factor.back


@piece
def add_product(U, x, out):
    """Add U x to out; zeros in x cost nothing."""
    k = x.shape[0]
    for j in range(k):
        if x[j] != 0.0:
            add_multiple(address(out), x[j], address(U) + 8 * k * j, k)


@piece
def apart(p, q):
    worst = 0.0
    for j in range(p.shape[0]):
        d = abs(p[j] - q[j])
        worst = d if d > worst or d != d else worst
    return worst


@piece
def direction(U, D, e, balanced, which, T, C, y, x, tilt, dp):
    """Compute dp = (1/D - U)^-1 e where D > 0, less a multiple of (1/D - U)^-1 1 where the sum of dp must be 0."""
    k = e.shape[0]
    most = 0.0
    for j in range(k):
        dp[j] = 0.0
        most = max(most, D[j])
    n = 0
    for j in range(k):
        which[n] = j
        n += D[j] > _EPS * _EPS * most
    rows = _gather(U, -1.0, which, n, T)
    last = rows + 1
    for a in range(n):
        j = which[a]
        T[a // 8, a, a % 8] += 1.0 / D[j]
        T[rows // 8, a, rows % 8] = e[j]
        T[last // 8, a, last % 8] = 1.0
    _factor(T, n, rows + 2, C)
    _back(T, n, rows, y, x)
    share = 0.0
    if balanced:
        _back(T, n, last, y, tilt)
        total, weight = 0.0, 0.0
        for a in range(n):
            total += x[a]
            weight += tilt[a]
        share = total / weight if weight > 0 else 0.0
    for a in range(n):
        dp[which[a]] = x[a] - (share * tilt[a] if balanced else 0.0)


@piece
def same_face(low, high, kind, theta, p, q, D):
    """Return whether q, which Newton's step gave, equals p up to rounding; q has more digits then, as theta
    may be large."""
    for j in range(p.shape[0]):
        near = _NEAR if kind == QUADRATIC else 8 * _EPS * (p[j] + abs(theta[j]) * D[j])
        if not abs(q[j] - p[j]) <= near or (D[j] > 0 and not low[j] < q[j] < high[j]):
            return False
    return True


@piece
def rounding(b, U, kind, c, p, D, terms, eps):
    """Return the part of the residual that rounding of p and of b + U p causes; `terms` takes the sizes of the sums."""
    k = p.shape[0]
    most, size, steep = 0.0, 0.0, 0.0
    for j in range(k):
        terms[j] = abs(b[j])
        for i in range(k):
            terms[j] += abs(U[j, i] * p[i])
        most, size, steep = max(most, terms[j]), max(size, abs(p[j])), max(steep, D[j])
    return 4 * eps * (size + most * (1.0 / c if kind == QUADRATIC else steep))


@piece
def dense(b, U, low, high, kind, c, wanted, tol, max_steps, warm, p, W, which, T, C, y, x, tilt):
    """Solve for p, which holds the start; W [9, k] is work space. Return the error, the steps and why it ended."""
    k = p.shape[0]
    q, theta, other, e, D, best, slopes, dp, along = W[0], W[1], W[2], W[3], W[4], W[5], W[6], W[7], W[8]
    balanced = wanted == wanted
    copy(b, theta)
    fill(q, 0.0)
    if warm:
        copy(p, q)
        add_product(U, q, theta)
    tau, _ = respond(theta, low, high, kind, c, wanted, np.nan, p, D)
    least, still, steps, shift = np.inf, 0, 0, tau
    bad = unsound(address(U), k * k)
    while True:
        copy(b, other)
        add_product(U, p, other)
        shift, _ = respond(other, low, high, kind, c, wanted, shift, best, slopes)
        error = apart(best, p) + bad
        if not error < np.inf:
            return np.nan, steps, NOT_FINITE
        if error <= tol:
            return error, steps, CONVERGED
        still = 0 if error < 0.5 * least else still + 1
        least = min(least, error)
        if still >= _STILL and error <= rounding(b, U, kind, c, p, D, e, _EPS):
            believed = explained(other, e, low, high, kind, c, p, best, _EPS)
            return error, steps, ROUNDING_FLOOR if believed else INACCURATE
        if steps == max_steps:
            return error, steps, STEP_LIMIT
        for j in range(k):
            e[j] = other[j] - theta[j]
        direction(U, D, e, balanced, which, T, C, y, x, tilt, dp)
        # q moves to p + dp, and theta moves by e + U dp.
        copy(e, along)
        add_product(U, dp, along)
        start = 0.0
        for j in range(k):
            dp[j] += p[j] - q[j]
            start -= along[j] * (q[j] - p[j])
        scale, left, right, at_left, at_right = 1.0, 0.0, np.inf, start, 0.0
        tau0 = tau
        for _ in range(_SEARCHES):
            for j in range(k):
                other[j] = theta[j] + scale * along[j]
            tau, _ = respond(other, low, high, kind, c, wanted, tau0, p, D)
            slope = 0.0
            for j in range(k):
                slope -= along[j] * (q[j] + scale * dp[j] - p[j])
            if slope <= _FLAT * abs(start) and (slope >= -0.9 * abs(start) or scale >= 1.0):
                break
            if slope > 0:
                right, at_right = scale, slope
            else:
                left, at_left = scale, slope
            middle = left + 0.5 * (right - left)
            secant = left - at_left * (right - left) / (at_right - at_left)
            margin = 0.1 * (right - left)
            scale = min(max(secant, left + margin), right - margin) if at_right > at_left else middle
        for j in range(k):
            q[j] += scale * dp[j]
            theta[j] += scale * along[j]
        if steps % 8 == 7:  # Sums that are only updated lose digits, so they are computed anew.
            copy(b, theta)
            add_product(U, q, theta)
        steps += 1
        if scale == 1.0 and same_face(low, high, kind, theta, p, q, D):
            for j in range(k):
                p[j] = q[j] if D[j] > 0 else p[j]


@piece
def settle(b, U, low, high, kind, c, wanted, tol, p, result, W):
    """Return the error of a p that was rounded to single precision, and how its solve ended with it."""
    other, best, slopes, terms = W[0], W[1], W[2], W[3]
    copy(b, other)
    add_product(U, p, other)
    respond(other, low, high, kind, c, wanted, np.nan, best, slopes)
    error = apart(best, p)
    if error <= tol:
        return error, CONVERGED
    if result == STEP_LIMIT:
        return error, result
    if not error <= rounding(b, U, kind, c, p, slopes, terms, _SINGLE):
        return error, STEP_LIMIT
    believed = explained(other, terms, low, high, kind, c, p, best, _SINGLE)
    return error, ROUNDING_FLOOR if believed else INACCURATE
