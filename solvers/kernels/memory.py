"""Read and write numbers of either dtype by address; compiled work is done in float64."""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import numpy as np
from numba import carray

from gfy.numerics.native import piece, reader
from solvers.kernels.vectors import doubles, floats


@reader
def widen(source, wide, count, out):
    """Read count numbers of either dtype as float64."""
    if wide:
        double = carray(doubles(source), count)
        for i in range(count):
            out[i] = double[i]
    else:
        single = carray(floats(source), count)
        for i in range(count):
            out[i] = single[i]


@reader
def narrow(x, wide, target):
    """Write numbers in either dtype; x becomes what was written."""
    count = x.shape[0]
    if wide:
        double = carray(doubles(target), count)
        for i in range(count):
            double[i] = x[i]
    else:
        single = carray(floats(target), count)
        for i in range(count):
            single[i] = x[i]
            x[i] = single[i]


@piece
def copy(source, target):
    """Copy source into target by a plain loop, as the general assignment of arrays takes long to compile."""
    for j in range(target.shape[0]):
        target[j] = source[j]


@piece
def fill(x, value):
    for j in range(x.shape[0]):
        x[j] = value


@reader
def read_one(wide, source):
    """Return one number of either dtype as float64."""
    return carray(doubles(source), 1)[0] if wide else np.float64(carray(floats(source), 1)[0])


@reader
def write_one(x, wide, target):
    """Write one number of either dtype."""
    if wide:
        carray(doubles(target), 1)[0] = x
    else:
        carray(floats(target), 1)[0] = x


@piece
def somewhere(low, high, total, p):
    """Fill p with a point of the set."""
    for j in range(p.shape[0]):
        a, b = low[j], high[j]
        if total == total:
            p[j] = total / p.shape[0]
        elif a > -np.inf and b < np.inf:
            p[j] = a + 0.5 * (b - a)
        else:
            p[j] = a if a > -np.inf else (b if b < np.inf else 0.0)


@piece
def turned(A, T):
    """Compute T = A^T."""
    for j in range(A.shape[0]):
        for i in range(A.shape[1]):
            T[i, j] = A[j, i]
