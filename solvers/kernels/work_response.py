"""Define the worker of derivatives: z = (I - J H)^-1 J r, how p* responds to scores that are moved by r.

J = diag(D), minus D D^T / sum D where sum p is fixed. The operator is symmetric, so that one worker serves both
directions of differentiation. Coordinates with D = 0 are held by a bound, and only the system of the others is
solved. The frame's SCORES are r, START is D, and the matrix is U (H = U) or A (H = -A A^T, TILT = 1).
"""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import numpy as np
from numba import carray

from gfy.numerics.native import piece
from solvers.kernels import frame as f
from solvers.kernels.dense import direction
from solvers.kernels.dual import cholesky_solve, hessian, products
from solvers.kernels.memory import copy, fill, narrow, turned, widen
from solvers.kernels.threads import fetch_add
from solvers.kernels.vectors import doubles, longs


@piece
def centred(D, weight, x):
    """Replace x by J x."""
    share = 0.0
    for j in range(x.shape[0]):
        share += D[j] * x[j]
    for j in range(x.shape[0]):
        x[j] = D[j] * (x[j] - share / weight) if weight > 0 else D[j] * x[j]


@piece
def thin_response(T, D, r, balanced, z, room, H, L, s, y):
    """Compute z = J r - J A (I + A^T J A)^-1 A^T J r."""
    k, m = r.shape[0], T.shape[0]
    weight = 0.0
    if balanced:
        for j in range(k):
            weight += D[j]
    copy(r, z)
    centred(D, weight, z)
    products(T, m, z, s)
    hessian(T, D, balanced, H, room, y)
    cholesky_solve(H, L, s, y)
    fill(room, 0.0)
    for i in range(m):
        for j in range(k):
            room[j] += y[i] * T[i, j]
    centred(D, weight, room)
    for j in range(k):
        z[j] -= room[j]


def worker(stamp):
    """Return the function of a frame; the stamp of its text is a part of the key under which it is kept on disk."""

    def work(frame):
        """Take the next examples of a frame until none are left."""
        if not stamp:
            return 0
        F = carray(longs(frame), f.WORDS)
        count, k, n, matrices, size = F[f.COUNT], F[f.K], F[f.N], F[f.MATRICES], F[f.SIZE]
        chunk, wide = F[f.CHUNK], size == 8
        facts = np.empty(f.HEAD)
        widen(F[f.FACTS], wide, f.HEAD, facts)
        thin, balanced = facts[f.TILT] == 1.0, facts[f.TOTAL] == facts[f.TOTAL]
        rows = 0 if thin else k + -k % 4
        panels = 0 if thin else (rows + 9) // 8
        T, C, V = np.empty((panels, rows, 8)), np.empty(10), np.empty((3, 8 * panels))
        W, which = np.empty((4, k)), np.empty(8 * panels + 8, np.int64)
        m = n if thin else 0
        flat, H, L, R = np.empty((m, k)), np.empty((m, m)), np.empty((m, m)), np.empty((2, m))
        own, loaded = np.empty((0 if wide else k, n)), -1
        r, D, z, room = W[0], W[1], W[2], W[3]
        while True:
            begin = fetch_add(frame + 8 * f.NEXT, chunk)
            if begin >= count:
                return 0
            for example in range(begin, min(begin + chunk, count)):
                which_matrix = example % matrices
                M = own
                if wide:
                    M = carray(doubles(F[f.MATRIX] + 8 * k * n * which_matrix), (k, n))
                elif loaded != which_matrix:
                    widen(F[f.MATRIX] + 4 * k * n * which_matrix, wide, k * n, own.reshape(k * n))
                widen(F[f.SCORES] + size * k * example, wide, k, r)
                widen(F[f.START] + size * k * example, wide, k, D)
                if thin:
                    if loaded != which_matrix:
                        turned(M, flat)
                    thin_response(flat, D, r, balanced, z, room, H, L, R[0], R[1])
                else:
                    direction(M, D, r, balanced, which, T, C, V[0], V[1], V[2], z)
                loaded = which_matrix
                narrow(z, wide, F[f.OUT] + size * k * example)

    return work
