"""Solve rank 1, one example at a time: t = <a, p_Omega(b - a t)> is one increasing equation in one unknown.

F(t) = t - <a, p(t)> has F' >= 1, so every evaluation gives a bracket. Newton's step is taken where it ends strictly
inside the bracket and the bracket keeps shrinking; otherwise the middle is taken. The answer is p at the best t that
was evaluated. The method serves every Omega and set of `respond`. For a quadratic Omega on a box a step is one pass
that writes nothing.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels.dual import EPS, finish, inner, scores, steepest
from solvers.kernels.ends import NOT_FINITE
from solvers.kernels.respond import QUADRATIC, clamp, respond


@piece
def sums(b, a, t, tilt, low, high, inverse):
    """Return <a, p(t)> and its decrease as t grows, for a quadratic Omega on a box."""
    value, bend = 0.0, 0.0
    for j in range(b.shape[0]):
        x = a[j]
        y = (b[j] + tilt - x * t) * inverse
        q = clamp(y, low[j], high[j])
        value += x * q
        bend += x * x if q == y else 0.0
    return value, bend * inverse


@piece
def general(b, T, t, tilt, low, high, kind, c, wanted, tau, p, D, theta):
    """Return <a, p(t)> and its decrease for any Omega and set, and tau, the multiplier of the sum of p."""
    scores(b, tilt, T, t, theta)
    tau, weight = respond(theta, low, high, kind, c, wanted, tau, p, D)
    value, bend, share = 0.0, 0.0, 0.0
    for j in range(b.shape[0]):
        x = T[0, j]
        value += x * p[j]
        share += x * D[j]
        bend += x * x * D[j]
    if wanted == wanted and weight > 0:
        bend = max(bend - share * share / weight, 0.0)
    return value, bend, tau


@piece
def scalar(b, tilt, T, low, high, kind, c, wanted, tol, max_steps, warm, p, W, R, H, L):
    """Solve for p, which holds the start; W [10, k] and R [8, 1] are work space. Return error, steps and why
    it ended."""
    theta, D = W[0], W[1]
    a, point = T[0], R[0]
    plain = kind == QUADRATIC and wanted != wanted
    steep = steepest(b, tilt, T, theta)
    if not steep < np.inf:
        return np.nan, 0, NOT_FINITE
    t = inner(a, p) if warm else 0.0
    left, right, last, width = -np.inf, np.inf, np.inf, np.inf
    steps, tau, chosen, least = 0, np.nan, t, np.inf
    while steps < max_steps:
        if plain:
            value, bend = sums(b, a, t, tilt, low, high, 1.0 / c)
        else:
            point[0] = t
            value, bend, tau = general(b, T, point, tilt, low, high, kind, c, wanted, tau, p, D, theta)
        F = t - value
        size = abs(F)
        if not size < np.inf:
            return np.nan, steps, NOT_FINITE
        if size < least:
            least, chosen = size, t
        steps += 1
        # p is the response to scores that are wrong by a F, so a small F ends the search. So does an F of the
        # size of its rounding.
        done = size * max(steep / c, 1.0) <= 0.25 * tol or size <= 2 * EPS * abs(value)
        if done or right - left <= 4 * EPS * abs(t):
            break
        # 2 F and not F: where the slope is 1, t - F is the root itself, and the root must lie inside the
        # bracket.
        end = t - 2 * F
        if F < 0:
            left, right = max(left, t), min(right, end)
        else:
            left, right = max(left, end), min(right, t)
        slow = right - left > 0.5 * width and last <= 2 * size
        width, last = right - left, size
        new = t - F / (1.0 + bend)
        if slow or not left < new < right:
            new = left + 0.5 * width
        if new == t:
            break
        t = new
    point[0] = chosen
    scores(b, tilt, T, point, theta)
    respond(theta, low, high, kind, c, wanted, tau, p, D)
    return finish(b, tilt, T, low, high, kind, c, wanted, tol, steps, max_steps, p, W, R, H, L)
