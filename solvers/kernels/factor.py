"""Compute the Cholesky factor of the block of a matrix that some coordinates span, in panels of eight columns.

T [panels, rows, 8] holds the upper triangle: T[j // 8, i, j % 8] is the entry of row i and column j >= i. The
identity fills n up to a multiple of four. A factor holds the inverses of its diagonal. A right-hand side is one more
column beside the block, and its forward substitution is done during the factorisation.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels.vectors import address, take_products, tile


@piece
def room(k):
    """Return how many panels and rows a block of k coordinates needs, with two right-hand sides."""
    rows = k + -k % 4
    return (rows + 2 + 7) // 8, rows


@piece
def gather(U, sign, which, n, T):
    """Fill T with sign U over the coordinates which[:n]. Right-hand sides are 0."""
    rows = n + -n % 4
    panels, whole = (rows + 2 + 7) // 8, n // 8
    for a in range(n):
        i = which[a]
        for panel in range(a // 8, whole):
            for t in range(8):
                T[panel, a, t] = sign * U[i, which[8 * panel + t]]
        for panel in range(whole, panels):
            for t in range(8):
                T[panel, a, t] = sign * U[i, which[8 * panel + t]] if 8 * panel + t < n else 0.0
    for a in range(n, rows):
        for panel in range(a // 8, panels):
            for t in range(8):
                T[panel, a, t] = 0.0
        T[a // 8, a, a % 8] = 1.0
    return rows


@piece
def factor(T, n, columns, C):
    """Replace T by its factor R, and the right-hand sides (columns rows.. of `columns`) by R^-T of them; C
    [10] is work space.

    A pivot that is not positive is replaced by a large one, so that its coordinate does not move. The number of such
    pivots is returned.
    """
    rows = n + -n % 4
    panels = (columns + 7) // 8
    base, size, coefficients = address(T), T.shape[1] * 64, address(C)
    broken = 0
    for i in range(0, rows, 4):
        own, o = i // 8, i % 8
        panel = base + own * size
        left = panel + 8 * o
        for t in range(10):
            C[t] = 0.0
        C[0] = C[2] = C[5] = C[9] = 1.0
        tile(left, panel, i, coefficients, panel + 64 * i)
        at = 0
        for r in range(4):
            for s in range(r):
                x = T[own, i + s, o + r]
                for t in range(s):
                    x -= C[r * (r + 1) // 2 + t] * C[s * (s + 1) // 2 + t]
                C[at] = x * C[s * (s + 3) // 2]
                at += 1
            x = T[own, i + r, o + r]
            for t in range(r):
                x -= C[r * (r + 1) // 2 + t] ** 2
            if not x > 0.0:
                broken += 1
                x = 1e300
            C[at] = 1.0 / np.sqrt(x)
            at += 1
        tile(left, panel, 0, coefficients, panel + 64 * i)
        for r in range(4):
            T[own, i + r, o + r] = C[r * (r + 3) // 2]
        for other in range(own + 1, panels):
            panel = base + other * size
            tile(left, panel, i, coefficients, panel + 64 * i)
    return broken


@piece
def back(T, n, column, y, x):
    """Compute x with R x = the given column of T; y and x have room for a multiple of eight."""
    rows = n + -n % 4
    J, o = column // 8, column % 8
    for i in range(rows):
        y[i] = T[J, i, o]
    for panel in range((rows + 7) // 8 - 1, -1, -1):
        first = 8 * panel
        end = min(first + 8, rows)
        for i in range(end, first + 8):
            x[i] = 0.0
        for i in range(end - 1, first - 1, -1):
            t = y[i]
            for j in range(i + 1, end):
                t -= T[panel, i, j - first] * x[j]
            x[i] = t * T[panel, i, i - first]
        take_products(address(y), address(T) + 64 * T.shape[1] * panel, address(x) + 8 * first, first)
