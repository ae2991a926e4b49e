"""Find p_Omega of gamma times an f-divergence where sum p is fixed, one example at a time, in compiled code.

The search is that of `gfy.sets.threshold`, number by number: a bracketed Newton root, a second one relative to the
first, and two steps that repair rounding. Differences are taken in the order in which they are written. This module
imports numba, so it is imported only where compiled loops may be used.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import math

import numpy as np

from gfy.numerics.native import exact

# The kinds of f: Jensen-Shannon's, and powers whose s is measured from an end of f' or from f'(1).
JENSEN_SHANNON, FROM_END, FROM_ONE = (0, 1, 2)
_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-280
_MOST_STEPS = 200


@exact
def raised(x, exponent):
    """Return x^exponent for x > 0."""
    if exponent == 1.0:
        return x
    if exponent == 2.0:
        return x * x
    if exponent == -1.0:
        return 1.0 / x
    if exponent == 0.5:
        return math.sqrt(x)
    return x**exponent


@exact
def slope(u, kind, b, scale):
    """Return s = f'(u), infinite at 0 where f' is; b is alpha - 1."""
    if kind == JENSEN_SHANNON:
        if u <= 0:
            return -math.inf
        return math.log(u) - math.log1p(u) if u < 1 else -math.log1p(1 / u)
    if u <= 0:
        at_one = -1 / b if kind == FROM_ONE and b > 0 else 0.0
        return scale * at_one if b > 0 else -math.inf
    if kind == FROM_END:
        return scale * (raised(u, b) / b)
    return scale * (math.log(u) if b == 0 else math.expm1(b * math.log(u)) / b)


@exact
def inverse(s, kind, b, scale):
    """Return u with f'(u) = s, and 1 / f''(u)."""
    if kind == JENSEN_SHANNON:
        if s >= 0:
            return math.inf, math.inf
        u = 1 / math.expm1(-s)
        return u, u * (1 + u)
    x = b * s / scale
    if kind == FROM_END:
        if x > 0:
            u = raised(x, 1 / b)
            return u, u / (x * scale)
    elif b == 0:
        u = math.exp(s / scale)
        return u, u / scale
    elif x > -1:
        u = math.exp(math.log1p(x) / b)
        return u, u / ((1 + x) * scale)
    return (0.0, 0.0) if b > 0 else (math.inf, math.inf)


@exact
def respond(theta, tau, q, ends, gamma, kind, b, scale, p, D):
    """Write p and D = dp/dtheta at theta - tau; return the sums of p, of D and of D |theta - tau|.

    ends [4, k] are the bounds of p and the scores, divided by gamma, at which they become active.
    """
    total, weight, spread = 0.0, 0.0, 0.0
    share = 1 / gamma
    for j in range(p.shape[0]):
        shifted = theta[j] - tau
        s = shifted * share
        low, high, first, last = ends[0, j], ends[1, j], ends[2, j], ends[3, j]
        u, flat = inverse(min(max(s, first), last), kind, b, scale)
        x = q[j] * u
        x = low if s < first else high if s > last else min(max(x, low), high)
        free = first <= s <= last and u > 0 and u < math.inf
        d = flat * (q[j] * share) if free else 0.0
        p[j], D[j] = x, d
        total += x
        weight += d
        spread += d * abs(shifted)
    return total, weight, spread


@exact
def search(theta, tau, low, high, total, q, ends, gamma, kind, b, scale, whole, p, D):
    """Return tau with sum p(theta - tau) = total, the ends of the last bracket, and whether the sum is right."""
    wanted = slope(total / whole, kind, b, scale)
    least = math.inf
    for _ in range(_MOST_STEPS):
        sums, weight, spread = respond(theta, tau, q, ends, gamma, kind, b, scale, p, D)
        excess = sums - total
        # This function of the sum is a straight line in tau where all scores are equal, so Newton's method on
        # it takes few steps.
        level = slope(sums / whole, kind, b, scale)
        ahead = whole * inverse(level, kind, b, scale)[1] * (level - wanted)
        low = tau if excess >= 0 else low
        high = tau if excess <= 0 else high
        if abs(excess) <= _EPS * (4 * total + spread):
            return tau, low, high, True
        if high - low <= 2 * _EPS * abs(tau):
            return tau, low, high, False
        following = low + (high - low) / 2
        bisect = True
        if weight * (high - low) > abs(ahead):
            step = abs(ahead / weight)
            proposal = tau + math.copysign(max(step, _EPS * abs(tau)), ahead)
            if low < proposal < high and not abs(excess) > least:
                following, bisect = proposal, False
        least = math.inf if bisect else abs(excess) / 2
        tau = following
    return tau, low, high, False


@exact
def roots(theta, q, low, high, total, gamma, kind, b, scale, p, D, found):
    """Write p and D = dp/dtheta [n, k] for scores theta [n, k], and per example tau, what is to be added to it, and
    how far it may be moved down and up, [n, 4]; return whether all scores are finite.

    Args:
        theta: Scores [n, k].
        q: The prior [k].
        low: Lower bounds of p [k].
        high: Upper bounds of p [k].
        total: The sum of p.
        gamma: The strength of the divergence.
        kind: Which f, and from where its slopes are measured.
        b: alpha - 1, for powers.
        scale: What a power is multiplied by.
        p: Where p is written, [n, k].
        D: Where the slopes are written, [n, k].
        found: Where the multipliers are written, [n, 4].
    """
    n, k = theta.shape
    ends, wide, near = np.empty((4, k)), np.empty((4, k)), np.empty(k)
    share, alone = np.empty(k), np.empty(k)
    whole = 0.0
    # The sum implies the upper bounds. They are then left out, because they would set the slope to 0 at the
    # end of the bracket.
    free = True
    for j in range(k):
        whole += q[j]
        free = free and low[j] == 0 and total <= high[j]
    for j in range(k):
        ends[0, j], ends[1, j] = low[j], high[j]
        wide[0, j], wide[1, j] = low[j], 2 * total if free else high[j]
        share[j] = gamma * slope(total / k / q[j], kind, b, scale)
        alone[j] = gamma * slope(total / q[j], kind, b, scale)
        for which in (ends, wide):
            which[2, j] = slope(max(which[0, j], 0.0) / q[j], kind, b, scale)
            which[3, j] = slope(which[1, j] / q[j], kind, b, scale)
    for row in range(n):
        scores, mine, slopes = theta[row], p[row], D[row]
        least, most, only, sound = math.inf, -math.inf, -math.inf, 0.0
        for j in range(k):
            sound += 0.0 * scores[j]
            level = scores[j] - share[j]
            least, most, only = min(least, level), max(most, level), max(only, scores[j] - alone[j])
        if sound != 0.0:
            return False
        if free:
            least = max(least, min(only, most))
        tau, low_end, high_end, met = search(
            scores, least, least, most, total, q, wide, gamma, kind, b, scale, whole, mine, slopes
        )
        room = 4 * _EPS * abs(tau)
        finer, least, most = 0.0, low_end - tau - room, high_end - tau + room
        for j in range(k):
            near[j] = scores[j] - tau
        if not met:
            finer, least, most, met = search(
                near, 0.0, least, most, total, q, wide, gamma, kind, b, scale, whole, mine, slopes
            )
        least, most = least - finer, most - finer
        found[row, 0], found[row, 1], found[row, 2], found[row, 3] = tau, finer, least, most
        moved = finer
        for _ in range(2):
            for j in range(k):
                near[j] = near[j] - moved
            sums, weight, _ = respond(near, 0.0, q, wide, gamma, kind, b, scale, mine, slopes)
            moved = (sums - total) / weight if weight > _TINY else 0.0
            moved = min(max(moved, least), most)
            least, most = least - moved, most - moved
        for j in range(k):
            near[j] = near[j] - moved
        respond(near, 0.0, q, ends, gamma, kind, b, scale, mine, slopes)
    return True
