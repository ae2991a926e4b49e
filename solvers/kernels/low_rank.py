"""Solve U = -A A^T of rank m, one example at a time, by semismooth Newton on D(t) = 1/2 |t|^2 + Omega*(b - A t).

D is 1-strongly convex, its gradient is F = t - A^T p(t), and its generalised Hessian is I + A^T J A. The method is
global, because a bracketed search along the step finds the zero of D's slope. A stays in the fastest cache until the
example is solved. For a quadratic Omega only the labels that became free or fixed since the last step change the
Hessian.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels.dual import (
    EPS,
    cholesky_solve,
    finish,
    hessian,
    inner,
    products,
    scores,
    steepest,
    take_mean,
)
from solvers.kernels.ends import NOT_FINITE
from solvers.kernels.memory import copy, fill
from solvers.kernels.respond import QUADRATIC, respond

_SEARCHES = 40
_STILL = 3  # Near rounding, the search ends after this many steps that do not halve |F|.
_FLAT = 0.1  # A search ends when the slope has fallen to this share of its value at the start.
# The Hessian is computed anew when subtracting labels from it may have caused a larger error.
_CANCELLED = 1e-8


@piece
def moved(T, D, free, which, rows, sign):
    """Collect the labels that became free or fixed: their columns of T side by side, and the sign of the change."""
    n = 0
    for j in range(D.shape[0]):
        # There is no branch here, because a processor cannot predict which labels change.
        which[n] = j
        n += (D[j] > 0.0) != (free[j] > 0)
    for s in range(n):
        j = which[s]
        free[j] = 1 - free[j]
        sign[s] = 2.0 * free[j] - 1.0
    for i in range(T.shape[0]):
        for s in range(n):
            rows[i, s] = T[i, which[s]]
    return n


@piece
def update(H, rows, sign, n, c):
    """Add the part of the changed labels to H; return how much was taken away."""
    m = H.shape[0]
    weighted, row, taken = rows[m, :n], rows[m + 1, :m], 0.0
    for i in range(m):
        for s in range(n):
            weighted[s] = sign[s] * rows[i, s] / c
            taken -= min(weighted[s] * rows[i, s], 0.0)
        products(rows, i + 1, weighted, row)
        for j in range(i + 1):
            H[i, j] += row[j]
    return taken


@piece
def blurred(b, T, t, D):
    """Return how much of A^T p the rounding of theta = b - A t moves: each free label by its slope D."""
    total = 0.0
    for j in range(D.shape[0]):
        if D[j] > 0.0:
            size, row = abs(b[j]), 0.0
            for i in range(T.shape[0]):
                size += abs(T[i, j] * t[i])
                row += abs(T[i, j])
            total += row * size * D[j]
    return EPS * total


@piece
def identity(H, free):
    for j in range(free.shape[0]):
        free[j] = 0
    for i in range(H.shape[0]):
        for j in range(H.shape[0]):
            H[i, j] = 1.0 if i == j else 0.0


@piece
def low_rank(
    b, tilt, T, low, high, kind, c, wanted, tol, max_steps, warm, p, W, R, H, G, L, rows, which, free
):
    """Solve for p, which holds the start; the rest is work space. Return the error, the steps and why it ended."""
    m, balanced = T.shape[0], wanted == wanted
    theta, D, sign = W[0], W[1], W[2]
    t, F, d, tried = R[0], R[1], R[2], R[3]
    steep = steepest(b, tilt, T, theta)
    if not steep < np.inf:
        return np.nan, 0, NOT_FINITE
    fill(t, 0.0)
    if warm:
        products(T, m, p, t)
    scores(b, tilt, T, t, theta)
    tau, _ = respond(theta, low, high, kind, c, wanted, np.nan, p, D)
    products(T, m, p, F)
    identity(H, free)
    steps, still, least, taken = 0, 0, np.inf, 0.0
    while True:
        size, drawn, length = 0.0, 0.0, 0.0
        for i in range(m):
            drawn, length = max(drawn, abs(F[i])), max(length, abs(t[i]))
            F[i] = t[i] - F[i]
            size += F[i] * F[i]
        size = np.sqrt(size)
        if not size < np.inf:
            return np.nan, steps, NOT_FINITE
        noise = 4 * EPS * (drawn + length)
        still = 0 if size < 0.5 * least else still + 1
        least = min(least, size)
        if size * max(steep / c, 1.0) <= 0.25 * tol or size <= noise or steps == max_steps:
            break
        if still >= _STILL and size <= 1e3 * noise:
            break
        if still >= _STILL and size <= noise + blurred(b, T, t, D):
            break  # Newton's step in p finds the remaining digits.
        if kind == QUADRATIC:
            taken += update(H, rows, sign, moved(T, D, free, which, rows, sign), c)
            if taken * EPS > _CANCELLED:
                identity(H, free)
                update(H, rows, sign, moved(T, D, free, which, rows, sign), c)
                taken = 0.0
            for i in range(m):
                copy(H[i], G[i])
            if balanced:
                take_mean(T, D, G, R[6])
        else:
            hessian(T, D, balanced, G, theta, R[6])
        cholesky_solve(G, L, F, d)
        start = -inner(F, d)
        scale, left, right, at_left, at_right = 1.0, 0.0, np.inf, start, 0.0
        tau0 = tau
        for _ in range(_SEARCHES):
            for i in range(m):
                tried[i] = t[i] - scale * d[i]
            scores(b, tilt, T, tried, theta)
            tau, _ = respond(theta, low, high, kind, c, wanted, tau0, p, D)
            products(T, m, p, F)
            slope = 0.0
            for i in range(m):
                slope -= (tried[i] - F[i]) * d[i]
            if slope <= _FLAT * abs(start) and (slope >= -0.9 * abs(start) or scale >= 1.0):
                break
            if slope > 0:
                right, at_right = scale, slope
            else:
                left, at_left = scale, slope
            margin = 0.1 * (right - left)
            secant = left - at_left * (right - left) / (at_right - at_left)
            scale = min(max(secant, left + margin), right - margin)
        copy(tried, t)
        steps += 1
    return finish(b, tilt, T, low, high, kind, c, wanted, tol, steps, max_steps, p, W, R, G, L)
