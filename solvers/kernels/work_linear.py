"""Define the worker of energies that are linear in p: p = p_Omega(scores), and the loss where it is requested."""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import numpy as np
from numba import carray

from solvers.kernels import frame as f
from solvers.kernels.ends import CONVERGED, NOT_FINITE
from solvers.kernels.loss import linear_loss, plainly_inside
from solvers.kernels.memory import narrow, somewhere, widen, write_one
from solvers.kernels.respond import respond
from solvers.kernels.threads import fetch_add
from solvers.kernels.vectors import address, ints, longs, unsound


def worker(stamp):
    """Return the function of a frame; the stamp of its text is a part of the key under which it is kept on disk."""

    def work(frame):
        """Take the next examples of a frame until none are left."""
        if not stamp:
            return 0
        F = carray(longs(frame), f.WORDS)
        count, k, size, chunk = F[f.COUNT], F[f.K], F[f.SIZE], F[f.CHUNK]
        wide = size == 8
        facts = np.empty(f.HEAD + 2 * k)
        widen(F[f.FACTS], wide, f.HEAD + 2 * k, facts)
        kind, c, tilt, total = facts[f.KIND], facts[f.CURVATURE], facts[f.TILT], facts[f.TOTAL]
        low, high = facts[f.HEAD : f.HEAD + k], facts[f.HEAD + k :]
        W = np.empty((4, k))
        b, p, D, y = W[0], W[1], W[2], W[3]
        steps_out, result_out = carray(ints(F[f.OUT + 2]), count), carray(ints(F[f.OUT + 3]), count)
        while True:
            begin = fetch_add(frame + 8 * f.NEXT, chunk)
            if begin >= count:
                return 0
            for example in range(begin, min(begin + chunk, count)):
                widen(F[f.SCORES] + size * k * example, wide, k, b)
                for j in range(k):
                    b[j] += tilt
                respond(b, low, high, kind, c, total, np.nan, p, D)
                error, result = 0.0, CONVERGED
                if unsound(address(b), k) + unsound(address(p), k) != 0.0:
                    somewhere(low, high, total, p)
                    error, result = np.nan, NOT_FINITE
                    F[f.UNSOLVED] = 1
                narrow(p, wide, F[f.OUT] + size * k * example)
                write_one(error, wide, F[f.OUT + 1] + size * example)
                steps_out[example], result_out[example] = -1, result
                if F[f.TARGET] != 0:
                    widen(F[f.TARGET] + size * k * example, wide, k, y)
                    if not plainly_inside(y, low, high, total, facts[f.TARGET_TOL]):
                        F[f.OUTSIDE] = 1
                    write_one(linear_loss(b, 0.0, kind, c, p, y), wide, F[f.LOSS] + size * example)

    return work
