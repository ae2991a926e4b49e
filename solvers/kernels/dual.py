"""Define what the duals of U = -A A^T share, for one example: p = p_Omega(b - A t) and F(t) = t - A^T p, t in R^m.

A is given transposed, T = A^T [m, k], so that the innermost loops run over labels. The end of a solve is here too:
the residual of the p that is returned, and Newton's step in p itself, which is taken where t has too few digits.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels.ends import CONVERGED, INACCURATE, NOT_FINITE, ROUNDING_FLOOR, STEP_LIMIT
from solvers.kernels.memory import copy, fill
from solvers.kernels.respond import QUADRATIC, clamp, respond
from solvers.kernels.trust import explained

EPS, SINGLE = np.finfo(np.float64).eps, float(np.finfo(np.float32).eps)
# How often p is judged at most: once as it is, and once after each correction, a semismooth Newton step in p.
_LOOKS = 12


@piece
def inner(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@piece
def products(rows, count, x, out):
    """Compute out = rows[:count] @ x, four rows at a time, so that x is read a quarter as often."""
    n, four = x.shape[0], count - count % 4
    for i in range(0, four, 4):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(n):
            a += rows[i, j] * x[j]
            b += rows[i + 1, j] * x[j]
            c += rows[i + 2, j] * x[j]
            d += rows[i + 3, j] * x[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
    for i in range(four, count):
        out[i] = inner(rows[i, :n], x)


@piece
def scores(b, tilt, T, t, theta):
    """Compute theta = b + tilt - A t, four rows at a time."""
    k, m = b.shape[0], T.shape[0]
    for j in range(k):
        theta[j] = b[j] + tilt
    four = m - m % 4
    for i in range(0, four, 4):
        a, x, y, z = t[i], t[i + 1], t[i + 2], t[i + 3]
        for j in range(k):
            theta[j] -= a * T[i, j] + x * T[i + 1, j] + y * T[i + 2, j] + z * T[i + 3, j]
    for i in range(four, m):
        for j in range(k):
            theta[j] -= t[i] * T[i, j]


@piece
def steepest(b, tilt, T, room):
    """Return the largest length of a label's row of A, or NaN where a number of b or A is not finite."""
    most, sound = 0.0, 0.0
    fill(room, 0.0)
    for i in range(T.shape[0]):
        for j in range(b.shape[0]):
            room[j] += T[i, j] * T[i, j]
    for j in range(b.shape[0]):
        most = max(most, room[j])
        sound += 0.0 * b[j]
    for i in range(T.shape[0]):
        for j in range(b.shape[0]):
            sound += 0.0 * T[i, j]
    return np.sqrt(most) + sound


@piece
def hessian(T, D, balanced, H, room, w):
    """Compute the lower triangle of H = I + A^T J A, J = diag(D), less D D^T / sum D where sum p is fixed."""
    for i in range(T.shape[0]):
        for j in range(D.shape[0]):
            room[j] = D[j] * T[i, j]
        products(T, i + 1, room[: D.shape[0]], H[i])
        H[i, i] += 1.0
    if balanced:
        take_mean(T, D, H, w)


@piece
def take_mean(T, D, H, w):
    """Subtract w w^T / sum D, w = A^T D, from H."""
    products(T, T.shape[0], D, w)
    weight = 0.0
    for j in range(D.shape[0]):
        weight += D[j]
    if weight > 0:
        for i in range(T.shape[0]):
            for j in range(i + 1):
                H[i, j] -= w[i] * w[j] / weight


@piece
def cholesky_solve(H, L, F, d):
    """Compute d with H d = F; L takes the factor, its diagonal inverted. A pivot that rounding made too small
    is replaced."""
    m = H.shape[0]
    for i in range(m):
        for j in range(i + 1):
            x = H[i, j]
            for n in range(j):
                x -= L[i, n] * L[j, n]
            L[i, j] = 1 / np.sqrt(max(x, 8 * EPS * H[i, i])) if i == j else x * L[j, j]
    for i in range(m):
        x = F[i]
        for j in range(i):
            x -= L[i, j] * d[j]
        d[i] = x * L[i, i]
    for i in range(m - 1, -1, -1):
        x = d[i]
        for j in range(i + 1, m):
            x -= L[j, i] * d[j]
        d[i] = x * L[i, i]


@piece
def judged(b, tilt, T, low, high, kind, c, wanted, p, best, D, theta, t):
    """Return the residual max |best - p|, best = p_Omega(b - A t) at t = A^T p; D takes the slopes there."""
    products(T, T.shape[0], p, t)
    scores(b, tilt, T, t, theta)
    respond(theta, low, high, kind, c, wanted, np.nan, best, D)
    error = 0.0
    for j in range(p.shape[0]):
        d = abs(best[j] - p[j])
        error = d if d > error or d != d else error
    return error


@piece
def floor(b, tilt, T, kind, c, p, D, terms, eps):
    """Return the part of the residual that rounding of p and of b - A A^T p causes; `terms` takes the sizes
    of the sums."""
    for j in range(p.shape[0]):
        terms[j] = abs(b[j] + tilt)
    for i in range(T.shape[0]):
        drawn = 0.0
        for j in range(p.shape[0]):
            drawn += abs(T[i, j] * p[j])
        for j in range(p.shape[0]):
            terms[j] += abs(T[i, j]) * drawn
    most, size, steep = 0.0, 0.0, 0.0
    for j in range(p.shape[0]):
        most, size, steep = max(most, terms[j]), max(size, abs(p[j])), max(steep, D[j])
    return 4 * eps * (size + most * (1.0 / c if kind == QUADRATIC else steep))


@piece
def ending(b, tilt, T, low, high, kind, c, wanted, tol, p, W, R, eps):
    """Return the error of p, held with relative precision eps, and why a solve with steps left ended there."""
    theta, D, best, terms = W[0], W[1], W[2], W[4]
    error = judged(b, tilt, T, low, high, kind, c, wanted, p, best, D, theta, R[4])
    if error <= tol:
        return error, CONVERGED
    if not error <= floor(b, tilt, T, kind, c, p, D, terms, eps):
        return error, STEP_LIMIT
    believed = explained(theta, terms, low, high, kind, c, p, best, eps)
    return error, ROUNDING_FLOOR if believed else INACCURATE


@piece
def correct(T, low, high, balanced, best, D, p, theta, R, H, L):
    """Take Newton's step p = best - J A y, H y = A^T (best - p); return whether p stayed within the bounds."""
    k, m = p.shape[0], T.shape[0]
    hessian(T, D, balanced, H, theta, R[6])
    for j in range(k):
        p[j] = best[j] - p[j]
    products(T, m, p, R[5])
    cholesky_solve(H, L, R[5], R[6])
    fill(theta, 0.0)
    for i in range(m):
        for j in range(k):
            theta[j] += R[6, i] * T[i, j]
    mean = 0.0
    if balanced:
        share, weight = 0.0, 0.0
        for j in range(k):
            share += D[j] * theta[j]
            weight += D[j]
        mean = share / weight if weight > 0 else 0.0
    inside = True
    for j in range(k):
        x = best[j] - D[j] * (theta[j] - mean)
        p[j] = clamp(x, low[j], high[j])
        inside &= p[j] == x
    return inside


@piece
def finish(b, tilt, T, low, high, kind, c, wanted, tol, steps, max_steps, p, W, R, H, L):
    """Correct the last digits of p; return the error, the steps and why the solve ended.

    A solve that has used all its steps is judged without a correction.
    """
    theta, D, best, kept = W[0], W[1], W[2], W[3]
    balanced, error = wanted == wanted, np.inf
    for look in range(_LOOKS):
        now = judged(b, tilt, T, low, high, kind, c, wanted, p, best, D, theta, R[4])
        if now < error or look == 0:
            error = now
            copy(p, kept)
        if not error > tol or not now < np.inf or look == _LOOKS - 1 or steps >= max_steps:
            break
        if not correct(T, low, high, balanced, best, D, p, theta, R, H, L) and balanced:
            break
    copy(kept, p)
    if not error < np.inf:
        return np.nan, steps, NOT_FINITE
    if error <= tol:
        return error, steps, CONVERGED
    error, result = ending(b, tilt, T, low, high, kind, c, wanted, tol, p, W, R, EPS)
    return error, steps, result


@piece
def settle_dual(b, tilt, T, low, high, kind, c, wanted, tol, p, result, W, R):
    """Return the error of a p that was rounded to single precision, and how its solve ended with it."""
    error, ended = ending(b, tilt, T, low, high, kind, c, wanted, tol, p, W, R, SINGLE)
    return error, result if result == STEP_LIMIT and ended != CONVERGED else ended
