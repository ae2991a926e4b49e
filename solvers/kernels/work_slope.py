"""Define the worker of the loss's gradient: g times (p - y) in the scores, and g times the slope of the matrix.

The frame's SCORES are p, TARGET is y, and START is g: one number per example, or one for all where FLAG is 1. FACTS is
the address of one double that multiplies g. The outputs are the gradients in the scores and in the matrix, each left
out where its address is 0. N is 0 for a dense U and the number of A's columns otherwise.
"""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import numpy as np
from numba import carray

from gfy.numerics.native import reader
from solvers.kernels import frame as f
from solvers.kernels.memory import narrow, widen
from solvers.kernels.threads import fetch_add
from solvers.kernels.vectors import doubles, floats, longs


@reader
def outer(p, q, y, r, wide, target):
    """Write q p^T - r y^T with rows of p and y, [n, k] for q and r [n]."""
    n, k = q.shape[0], p.shape[0]
    if wide:
        double = carray(doubles(target), (n, k))
        for i in range(n):
            for j in range(k):
                double[i, j] = q[i] * p[j] - r[i] * y[j]
    else:
        single = carray(floats(target), (n, k))
        for i in range(n):
            for j in range(k):
                single[i, j] = q[i] * p[j] - r[i] * y[j]


@reader
def along(address, wide, n, p, y, s, t):
    """Compute s = A^T p and t = A^T y, for A [k, n] of either dtype."""
    for i in range(n):
        s[i], t[i] = 0.0, 0.0
    if wide:
        double = carray(doubles(address), (p.shape[0], n))
        for j in range(p.shape[0]):
            for i in range(n):
                s[i] += double[j, i] * p[j]
                t[i] += double[j, i] * y[j]
    else:
        single = carray(floats(address), (p.shape[0], n))
        for j in range(p.shape[0]):
            for i in range(n):
                s[i] += single[j, i] * p[j]
                t[i] += single[j, i] * y[j]


def worker(stamp):
    """Return the function of a frame; the stamp of its text is a part of the key under which it is kept on disk."""

    def work(frame):
        """Take the next examples of a frame until none are left."""
        if not stamp:
            return 0
        F = carray(longs(frame), f.WORDS)
        count, k, n, size, chunk = F[f.COUNT], F[f.K], F[f.N], F[f.SIZE], F[f.CHUNK]
        wide, shared = size == 8, F[f.FLAG] == 1
        scale = carray(doubles(F[f.FACTS]), 1)[0]
        W, S, g = np.empty((5, k)), np.empty((2, n)), np.empty(1)
        p, y, q, r, d = W[0], W[1], W[2], W[3], W[4]
        while True:
            begin = fetch_add(frame + 8 * f.NEXT, chunk)
            if begin >= count:
                return 0
            for example in range(begin, min(begin + chunk, count)):
                widen(F[f.SCORES] + size * k * example, wide, k, p)
                widen(F[f.TARGET] + size * k * example, wide, k, y)
                widen(F[f.START] + (0 if shared else size * example), wide, 1, g)
                factor = g[0] * scale
                if F[f.OUT] != 0:
                    for j in range(k):
                        d[j] = factor * (p[j] - y[j])
                    narrow(d, wide, F[f.OUT] + size * k * example)
                if F[f.OUT + 1] == 0:
                    continue
                if n == 0:
                    for j in range(k):
                        q[j], r[j] = 0.5 * factor * p[j], 0.5 * factor * y[j]
                    outer(p, q, y, r, wide, F[f.OUT + 1] + size * k * k * example)
                else:
                    along(F[f.MATRIX] + size * k * n * example, wide, n, p, y, S[0], S[1])
                    for j in range(k):
                        q[j], r[j] = -factor * p[j], -factor * y[j]
                    outer(S[0], q, S[1], r, wide, F[f.OUT + 1] + size * k * n * example)

    return work
