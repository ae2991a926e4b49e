"""Define the worker of problems with a dense U: sweeps and Newton on boxes, semismooth Newton for everything else."""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import numpy as np
from numba import carray

from solvers.kernels import frame as f
from solvers.kernels.box import box
from solvers.kernels.dense import dense, settle
from solvers.kernels.ends import NOT_FINITE, ROUNDING_FLOOR, STEP_LIMIT
from solvers.kernels.loss import dense_loss, plainly_concave, plainly_inside
from solvers.kernels.memory import narrow, somewhere, widen, write_one
from solvers.kernels.threads import fetch_add
from solvers.kernels.vectors import address, doubles, ints, longs, unsound

# Shares of U's largest entry, for float64 and float32. Rounding of U may raise its largest eigenvalue by so
# much.
_MARGIN, _SINGLE_MARGIN = 1e-10, 1e-5
_HARD = 24  # After this many steps on a box the dual method continues, because its search is more reliable.


def worker(stamp):
    """Return the function of a frame; the stamp of its text is a part of the key under which it is kept on disk."""

    def work(frame):
        """Take the next examples of a frame until none are left."""
        if not stamp:
            return 0
        F = carray(longs(frame), f.WORDS)
        count, k, matrices, size, chunk = F[f.COUNT], F[f.K], F[f.MATRICES], F[f.SIZE], F[f.CHUNK]
        wide = size == 8
        facts = np.empty(f.HEAD + 2 * k)
        widen(F[f.FACTS], wide, f.HEAD + 2 * k, facts)
        method, kind, c, tilt, total, tol = facts[0], facts[1], facts[2], facts[3], facts[4], facts[5]
        max_steps = np.int64(facts[f.MAX_STEPS])
        low, high = facts[f.HEAD : f.HEAD + k], facts[f.HEAD + k :]
        rows = k + -k % 4
        panels = (rows + 9) // 8
        T, C, V = np.empty((panels, rows, 8)), np.empty(10), np.empty((3, 8 * panels))
        W, which = np.empty((10, k)), np.empty(8 * panels + 8, np.int64)
        own, loaded, room = np.empty((0 if wide else k, k)), -1, np.empty(0 if wide else k)
        lower = np.empty((k if F[f.FLAG] == 1 else 0, k))
        steps_out, result_out = carray(ints(F[f.OUT + 2]), count), carray(ints(F[f.OUT + 3]), count)
        while True:
            begin = fetch_add(frame + 8 * f.NEXT, chunk)
            if begin >= count:
                return 0
            for example in range(begin, min(begin + chunk, count)):
                which_matrix = example % matrices
                M, p, b = own, room, W[9]
                if wide:
                    M = carray(doubles(F[f.MATRIX] + 8 * k * k * which_matrix), (k, k))
                    p = carray(doubles(F[f.OUT] + 8 * k * example), k)
                elif loaded != which_matrix:
                    widen(F[f.MATRIX] + 4 * k * k * which_matrix, wide, k * k, own.reshape(k * k))
                    loaded = which_matrix
                widen(F[f.SCORES] + size * k * example, wide, k, b)
                warm = F[f.START] != 0
                if warm:
                    widen(F[f.START] + size * k * example, wide, k, p)
                    if unsound(address(p), k) != 0.0:
                        F[f.UNSOLVED] = 1
                for j in range(k):
                    b[j] += tilt
                    p[j] = min(max(p[j] if warm else 0.0, low[j]), high[j])
                error, steps, result = np.inf, 0, STEP_LIMIT
                if method == f.BOX:
                    few = min(max_steps, _HARD)
                    error, steps, result = box(
                        b, M, c, low, high, tol, few, warm, p, W[0], which, T, C, V[0], V[1], W[1], W[2]
                    )
                    warm = True
                if result == STEP_LIMIT and steps < max_steps:
                    error, more, result = dense(
                        b, M, low, high, kind, c, total, tol, max_steps - steps, warm, p, W, which, T, C, V[0], V[1],
                        V[2],
                    )  # fmt: skip
                    steps += more
                if result == NOT_FINITE:
                    somewhere(low, high, total, p)
                if not wide:
                    narrow(p, wide, F[f.OUT] + size * k * example)
                    if result != NOT_FINITE:
                        error, result = settle(b, M, low, high, kind, c, total, tol, p, result, W)
                write_one(error, wide, F[f.OUT + 1] + size * example)
                steps_out[example], result_out[example] = steps, result
                doubtful = F[f.FLAG] == 1 and not plainly_concave(
                    M, _MARGIN if wide else _SINGLE_MARGIN, lower
                )
                if result > ROUNDING_FLOOR or doubtful:
                    F[f.UNSOLVED] = 1
                if F[f.TARGET] != 0:
                    y = W[0]
                    widen(F[f.TARGET] + size * k * example, wide, k, y)
                    if not plainly_inside(y, low, high, total, facts[f.TARGET_TOL]):
                        F[f.OUTSIDE] = 1
                    write_one(dense_loss(b, M, kind, c, p, y, W[1]), wide, F[f.LOSS] + size * example)

    return work
