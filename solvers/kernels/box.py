"""Maximise <b, p> + 1/2 <p, U p> - c/2 |p|^2 on a box, one example at a time, by sweeps and Newton on free coordinates.

A sweep sets each coordinate to its best value and updates the gradient g, which takes no time for a coordinate that
stays at its bound. A few sweeps find nearly all bounds that are active. Newton's step on the other coordinates
(Cholesky) is then exact. A step that leaves the box is projected and shortened by a search, and then a sweep follows.
References: Bertsekas (1982), projected Newton methods; Hsieh et al. (2008), coordinate ascent.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels import factor
from solvers.kernels.ends import CONVERGED, NOT_FINITE, STEP_LIMIT
from solvers.kernels.memory import copy
from solvers.kernels.vectors import add_multiple, address, unsound

_SWEEPS = 4  # the most sweeps before the first Newton step
_HALVINGS = 30
_STILL = 3  # After this many exact steps that do not halve the error, the rest is taken for rounding.

_gather, _factor, _back = factor.gather, factor.factor, factor.back


@piece
def clamp(x, low, high):
    x = low if x < low else x  # a NaN stays a NaN
    return high if x > high else x


@piece
def gradient(b, U, c, p, g):
    """Compute g = b + U p - c p."""
    k = p.shape[0]
    for j in range(k):
        g[j] = b[j] - c * p[j]
    for j in range(k):
        if p[j] != 0.0:
            add_multiple(address(g), p[j], address(U) + 8 * k * j, k)


@piece
def sweep(U, c, scale, low, high, p, g):
    """Set each coordinate to its best value; return how many became free or fixed."""
    k = p.shape[0]
    changed = 0
    for j in range(k):
        old = p[j]
        new = clamp(old + g[j] * scale[j], low[j], high[j])
        if new != old:
            changed += (old == low[j]) | (old == high[j]) | (new == low[j]) | (new == high[j])
            p[j] = new
            add_multiple(address(g), new - old, address(U) + 8 * k * j, k)
            g[j] -= c * (new - old)
    return changed


@piece
def residual(c, low, high, p, g):
    """Return the largest |p_Omega(grad Phi(p)) - p|: it is 0 at the solution, and at least 1/c times the
    bound of its distance."""
    worst, sound = 0.0, 0.0
    for j in range(p.shape[0]):
        worst = max(worst, abs(clamp(p[j] + g[j] / c, low[j], high[j]) - p[j]))
        sound += 0.0 * g[j]
    return worst + sound


@piece
def free_coordinates(low, high, p, g, which):
    """Find the coordinates that are not held at a bound by their gradient."""
    n = 0
    for j in range(p.shape[0]):
        which[n] = j
        n += ((p[j] > low[j]) | (g[j] > 0.0)) & ((p[j] < high[j]) | (g[j] < 0.0)) & (low[j] < high[j])
    return n


@piece
def newton(U, c, low, high, p, g, which, n, T, C, y, d, fresh):
    """Update p and g by a Newton step on the coordinates which[:n]; return whether the whole step was taken."""
    k = p.shape[0]
    rows = _gather(U, -1.0, which, n, T)
    for a in range(n):
        T[a // 8, a, a % 8] += c
        T[rows // 8, a, rows % 8] = g[which[a]]
    _factor(T, n, rows + 1, C)
    _back(T, n, rows, y, d)
    scale = 1.0
    for _ in range(_HALVINGS):
        copy(g, fresh)
        whole, before, after = scale == 1.0, 0.0, 0.0
        for a in range(n):
            j = which[a]
            new = clamp(p[j] + scale * d[a], low[j], high[j])
            whole &= new == p[j] + scale * d[a]
            y[a] = new - p[j]
            before += y[a] * g[j]
            if y[a] != 0.0:
                add_multiple(address(fresh), y[a], address(U) + 8 * k * j, k)
                fresh[j] -= c * y[a]
        if whole:
            break
        for a in range(n):
            after += y[a] * fresh[which[a]]
        # The step gains (before + after) / 2, and this is then at least a tenth of `before`.
        if after >= -0.8 * before:
            break
        scale /= 2
    for a in range(n):
        j = which[a]
        p[j] = clamp(p[j] + y[a], low[j], high[j])
    copy(fresh, g)
    return whole


@piece
def box(b, U, c, low, high, tol, max_steps, warm, p, g, which, T, C, y, d, fresh, scale):
    """Solve for p, which holds the start; g takes the gradient. Return the error, the steps and why it ended.

    The result does not say whether rounding is the reason for the remaining error: `dense` continues from p and
    decides that.
    """
    k = p.shape[0]
    gradient(b, U, c, p, g)
    error = residual(c, low, high, p, g) + unsound(address(U), k * k)
    if not error < np.inf:
        return np.nan, 0, NOT_FINITE
    steps, still, best = 0, 0, error
    for j in range(k):
        scale[j] = 1.0 / (c - U[j, j])
    for _ in range(1 if warm else _SWEEPS):
        if error <= tol or steps == max_steps:
            break
        changed = sweep(U, c, scale, low, high, p, g)
        steps += 1
        if changed == 0:
            break
    error = residual(c, low, high, p, g)
    while error > tol and steps < max_steps and still < _STILL:
        n = free_coordinates(low, high, p, g, which)
        whole = newton(U, c, low, high, p, g, which, n, T, C, y, d, fresh)
        steps += 1
        if whole and steps % 8 == 0:
            gradient(b, U, c, p, g)  # Sums that are only updated lose digits, so they are computed anew.
        elif not whole and steps < max_steps:
            sweep(U, c, scale, low, high, p, g)
            steps += 1
        error = residual(c, low, high, p, g)
        if whole:
            still = 0 if error < 0.5 * best else still + 1
        best = min(best, error)
        if not error < np.inf:
            return np.nan, steps, NOT_FINITE
    if error <= tol:
        return error, steps, CONVERGED
    gradient(b, U, c, p, g)
    error = residual(c, low, high, p, g)
    if error <= tol:
        return error, steps, CONVERGED
    return error, steps, STEP_LIMIT
