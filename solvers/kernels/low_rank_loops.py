"""Newton's method on examples begin..end of a batch, compiled: see `solvers.kernels.low_rank`, which calls it."""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import compiled
from solvers.dual.many import HALVINGS

_EPS = np.finfo(np.float64).eps


@compiled
def inner(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled
def products(rows, count, x, out):
    """out = rows[:count] @ x, four rows at a time: x is read a quarter as often."""
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


@compiled
def turn(A, T):
    """T = A^T; returns the sum of its squares."""
    total = 0.0
    for j in range(A.shape[0]):
        for i in range(A.shape[1]):
            T[i, j] = A[j, i]
            total += A[j, i] * A[j, i]
    return total


@compiled
def gap_at(u, T, t, low, high, curvature, tilt, p):
    """The duality gap at p, for t = A^T p; nothing cancels in it."""
    total = 0.0
    for j in range(u.shape[0]):
        theta = u[j] + tilt
        for i in range(T.shape[0]):
            theta -= t[i] * T[i, j]
        q = min(max(theta / curvature, low[j]), high[j])
        total += (q - p[j]) * (theta - 0.5 * curvature * (q + p[j]))
    return total


@compiled
def evaluate(u, T, t, low, high, curvature, tilt, p, F):
    """p(t) and F = t - A^T p; returns D(t), |F| and what rounding leaves of it."""
    k, m = u.shape[0], T.shape[0]
    for j in range(k):
        p[j] = u[j] + tilt
    four = m - m % 4
    for i in range(0, four, 4):  # four rows at a time: p is read and written a quarter as often
        a, b, c, d = t[i], t[i + 1], t[i + 2], t[i + 3]
        for j in range(k):
            p[j] -= a * T[i, j] + b * T[i + 1, j] + c * T[i + 2, j] + d * T[i + 3, j]
    for i in range(four, m):
        for j in range(k):
            p[j] -= t[i] * T[i, j]
    value = 0.0
    for j in range(k):
        theta = p[j]
        q = theta / curvature
        q = low[j] if q < low[j] else q  # a NaN stays one
        q = high[j] if q > high[j] else q
        value += q * (theta - 0.5 * curvature * q)
        p[j] = q
    error, size, drawn, sound = 0.0, 0.0, 0.0, True
    products(T, m, p, F)
    for i in range(m):
        pull = F[i]
        F[i] = t[i] - pull
        value += 0.5 * t[i] * t[i]
        error, sound = max(error, abs(F[i])), sound and F[i] == F[i]
        size, drawn = max(size, abs(t[i])), max(drawn, abs(pull))
    return value, error if sound else np.nan, 4 * _EPS * (size + drawn)


@compiled
def moved(A, p, low, high, free, now, which, rows, sign):
    """The labels that became free or fixed: their rows of A as columns, and the sign of the change."""
    k = p.shape[0]
    for j in range(k):
        now[j] = np.uint8((p[j] > low[j]) & (p[j] < high[j])) ^ free[j]
    n, words = 0, now.view(np.uint64)  # eight labels at a time: few of them move
    for w in range(words.shape[0]):
        if words[w] != 0:
            for j in range(8 * w, 8 * w + 8):  # without a branch: which labels move cannot be foretold
                which[n] = j
                n += now[j]
    for c in range(n):
        j = which[c]
        free[j] ^= np.uint8(1)
        sign[c] = 2.0 * free[j] - 1.0
        for i in range(A.shape[1]):
            rows[i, c] = A[j, i]
    return n


@compiled
def update(H, rows, sign, n, curvature):
    """H plus the changed labels' part; returns how much was taken away."""
    m = H.shape[0]
    weighted, row, taken = rows[m, :n], rows[m + 1, :m], 0.0
    for i in range(m):
        for j in range(n):
            weighted[j] = sign[j] * rows[i, j] / curvature
            taken -= min(weighted[j] * rows[i, j], 0.0)
        products(rows, i + 1, weighted, row)
        for j in range(i + 1):
            H[i, j] += row[j]
    return taken


@compiled
def identity(H, free):
    free[:] = 0
    H[:] = 0.0
    for i in range(H.shape[0]):
        H[i, i] = 1.0


@compiled
def cholesky_solve(H, L, F, d):
    """d with H d = F; L takes the factor, its diagonal inverted."""
    m = H.shape[0]
    for i in range(m):
        for j in range(i + 1):
            x = H[i, j]
            for n in range(j):
                x -= L[i, n] * L[j, n]
            L[i, j] = 1 / np.sqrt(max(x, 8 * _EPS * H[i, i])) if i == j else x * L[j, j]
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


@compiled
def newton(
    u,
    A,
    start,
    low,
    high,
    curvature,
    tilt,
    tol,
    max_steps,
    goal,
    begin,
    end,
    points,
    errors,
    noises,
    steps,
    gaps,
):
    k, m = A.shape[1], A.shape[2]
    T, rows, sign, free = np.empty((m, k)), np.empty((m + 2, max(k, m))), np.empty(k), np.empty(k, np.uint8)
    now, which = np.zeros(k + -k % 8, np.uint8), np.empty(k + 8, np.int64)
    H, L, p = np.empty((m, m)), np.empty((m, m)), np.empty(k)
    t, F, d, tried = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    for n in range(begin, end):
        a = A[n % A.shape[0]]
        size_of_a = turn(a, T)
        identity(H, free)
        taken = 0.0
        t[:] = start[n]
        value, error, noise = evaluate(u[n], T, t, low, high, curvature, tilt, p, F)
        count = 0
        while count < max_steps and error > tol and error > noise:
            taken += update(H, rows, sign, moved(a, p, low, high, free, now, which, rows, sign), curvature)
            if taken * _EPS > 1e-8:  # what cancelled would show: start from the identity again
                identity(H, free)
                update(H, rows, sign, moved(a, p, low, high, free, now, which, rows, sign), curvature)
                taken = 0.0
            cholesky_solve(H, L, F, d)
            descent, scale = -inner(F, d), 1.0
            for _ in range(HALVINGS + 1):
                for i in range(m):
                    tried[i] = t[i] - scale * d[i]
                new, size, left = evaluate(u[n], T, tried, low, high, curvature, tilt, p, F)
                # convexity: where the slope along the step is still downhill, D has gone down
                bad = value + 1e-4 * scale * descent < new and inner(F, d) < 0
                if not (bad and value + 8 * _EPS * (1 + abs(value)) < new):
                    break
                scale /= 2
            count += 1
            if not size < np.inf:  # the last finite p is the answer
                evaluate(u[n], T, t, low, high, curvature, tilt, p, F)
                break
            t[:] = tried
            value, error, noise = new, size, left
        points[n] = p
        errors[n], noises[n], steps[n] = error, noise, count
        # p answers scores that are off by A F
        gaps[n] = size_of_a * inner(F, F) / (2 * curvature)
        if not gaps[n] <= goal:
            for i in range(m):
                tried[i] = t[i] - F[i]
            gaps[n] = gap_at(u[n], T, tried, low, high, curvature, tilt, p)
