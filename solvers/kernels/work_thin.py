"""Define the worker of problems with U = -A A^T: one unknown per column of A; U is never formed."""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import numpy as np
from numba import carray

from solvers.kernels import frame as f
from solvers.kernels.dual import settle_dual
from solvers.kernels.ends import NOT_FINITE, ROUNDING_FLOOR, STEP_LIMIT
from solvers.kernels.loss import plainly_inside, thin_loss
from solvers.kernels.low_rank import low_rank
from solvers.kernels.memory import narrow, somewhere, turned, widen, write_one
from solvers.kernels.scalar import scalar
from solvers.kernels.threads import fetch_add
from solvers.kernels.vectors import address, doubles, ints, longs, unsound


def worker(stamp):
    """Return the function of a frame; the stamp of its text is a part of the key under which it is kept on disk."""

    def work(frame):
        """Take the next examples of a frame until none are left."""
        if not stamp:
            return 0
        F = carray(longs(frame), f.WORDS)
        count, k, n, matrices, size = F[f.COUNT], F[f.K], F[f.N], F[f.MATRICES], F[f.SIZE]
        chunk, wide = F[f.CHUNK], size == 8
        facts = np.empty(f.HEAD + 2 * k)
        widen(F[f.FACTS], wide, f.HEAD + 2 * k, facts)
        kind, c, tilt, total, tol = facts[1], facts[2], facts[3], facts[4], facts[5]
        max_steps = np.int64(facts[f.MAX_STEPS])
        low, high = facts[f.HEAD : f.HEAD + k], facts[f.HEAD + k :]
        many = n if n > 1 else 0
        W, which = np.empty((10, k)), np.empty(k + 8, np.int64)
        R, H, G, L = np.empty((8, n)), np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
        flat, changed = np.empty((many, k)), np.empty((many + 2 if many else 0, max(k, many)))
        free = np.empty(k if many else 0, np.uint8)
        own, loaded, room = np.empty((0 if wide else k, n)), -1, np.empty(0 if wide else k)
        steps_out, result_out = carray(ints(F[f.OUT + 2]), count), carray(ints(F[f.OUT + 3]), count)
        while True:
            begin = fetch_add(frame + 8 * f.NEXT, chunk)
            if begin >= count:
                return 0
            for example in range(begin, min(begin + chunk, count)):
                which_matrix = example % matrices
                M, p, b = own, room, W[9]
                if wide:
                    M = carray(doubles(F[f.MATRIX] + 8 * k * n * which_matrix), (k, n))
                    p = carray(doubles(F[f.OUT] + 8 * k * example), k)
                    b = carray(doubles(F[f.SCORES] + 8 * k * example), k)
                else:
                    if loaded != which_matrix:
                        widen(F[f.MATRIX] + 4 * k * n * which_matrix, wide, k * n, own.reshape(k * n))
                    widen(F[f.SCORES] + size * k * example, wide, k, b)
                warm = F[f.START] != 0
                if warm:
                    widen(F[f.START] + size * k * example, wide, k, p)
                    if unsound(address(p), k) != 0.0:
                        F[f.UNSOLVED] = 1
                for j in range(k):
                    p[j] = min(max(p[j] if warm else 0.0, low[j]), high[j])
                error, steps, result = np.inf, 0, STEP_LIMIT
                A = M.reshape(1, k) if n == 1 else flat
                if n > 1 and loaded != which_matrix:
                    turned(M, flat)
                loaded = which_matrix
                if n == 1:
                    error, steps, result = scalar(
                        b, tilt, A, low, high, kind, c, total, tol, max_steps, warm, p, W, R, H, L
                    )
                else:
                    error, steps, result = low_rank(
                        b, tilt, A, low, high, kind, c, total, tol, max_steps, warm, p, W, R, H, G, L, changed, which,
                        free,
                    )  # fmt: skip
                if result == NOT_FINITE:
                    somewhere(low, high, total, p)
                if not wide:
                    narrow(p, wide, F[f.OUT] + size * k * example)
                    if result != NOT_FINITE:
                        error, result = settle_dual(
                            b, tilt, A, low, high, kind, c, total, tol, p, result, W, R
                        )
                write_one(error, wide, F[f.OUT + 1] + size * example)
                steps_out[example], result_out[example] = steps, result
                if result > ROUNDING_FLOOR:
                    F[f.UNSOLVED] = 1
                if F[f.TARGET] != 0:
                    y = W[0]
                    widen(F[f.TARGET] + size * k * example, wide, k, y)
                    if not plainly_inside(y, low, high, total, facts[f.TARGET_TOL]):
                        F[f.OUTSIDE] = 1
                    write_one(thin_loss(b, tilt, A, kind, c, p, y), wide, F[f.LOSS] + size * example)

    return work
