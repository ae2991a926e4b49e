"""Compute the Fenchel-Young loss of one example at its solution p, and whether its arguments are plainly sound.

With d = p - y and s = p + y the loss is <b, d> + 1/2 <U s, d> - (h(p) - h(y)), where b = u + tilt and h is Omega
without its tilt. In this form no digits are lost where p is near y. Its gradient is d in u, 1/2 (p p^T - y y^T) in U,
and y (A^T y)^T - p (A^T p)^T in A.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np

from gfy.numerics.native import piece
from solvers.kernels.memory import fill
from solvers.kernels.respond import BINARY, QUADRATIC
from solvers.kernels.vectors import add_multiple, address


@piece
def term(x):
    """Return x log x, with 0 at 0."""
    return x * np.log(x) if x > 0.0 else 0.0


@piece
def linear_loss(b, tilt, kind, c, p, y):
    """Return <b + tilt, p - y> - (h(p) - h(y))."""
    total, entropy = 0.0, 0.0
    for j in range(p.shape[0]):
        d = p[j] - y[j]
        total += (b[j] + tilt) * d
        if kind == QUADRATIC:
            total -= 0.5 * c * (p[j] + y[j]) * d
        else:
            entropy += term(p[j]) - term(y[j])
            if kind == BINARY:
                entropy += term(1.0 - p[j]) - term(1.0 - y[j])
    return total - c * entropy if kind != QUADRATIC else total


@piece
def dense_loss(b, U, kind, c, p, y, room):
    """Return the loss with a dense U; b holds the tilt already."""
    k = p.shape[0]
    fill(room, 0.0)
    for j in range(k):
        if p[j] != y[j]:
            add_multiple(address(room), p[j] - y[j], address(U) + 8 * k * j, k)
    bent = 0.0
    for j in range(k):
        bent += room[j] * (p[j] + y[j])
    return linear_loss(b, 0.0, kind, c, p, y) + 0.5 * bent


@piece
def thin_loss(b, tilt, T, kind, c, p, y):
    """Return the loss with U = -A A^T, T = A^T."""
    bent = 0.0
    for i in range(T.shape[0]):
        along, across = 0.0, 0.0
        for j in range(p.shape[0]):
            along += T[i, j] * (p[j] - y[j])
            across += T[i, j] * (p[j] + y[j])
        bent += along * across
    return linear_loss(b, tilt, kind, c, p, y) - 0.5 * bent


@piece
def plainly_inside(y, low, high, total, tol):
    """Return whether y lies within its bounds and its sum is within a quarter of the tolerance; False means unknown."""
    whole = 0.0
    for j in range(y.shape[0]):
        if not (low[j] <= y[j] <= high[j]):
            return False
        whole += y[j]
    return total != total or abs(whole - total) <= 0.25 * tol


@piece
def plainly_concave(U, margin, L):
    """Return whether U is symmetric and negative semi-definite up to a margin times its largest entry; False
    means unknown."""
    k = U.shape[0]
    most = 0.0
    for j in range(k):
        for i in range(k):
            most = max(most, abs(U[j, i]))
    slack = margin * most
    for j in range(k):
        for i in range(j):
            if not abs(U[j, i] - U[i, j]) <= slack:
                return False
    for j in range(k):
        for i in range(j + 1):
            x = -U[j, i] + (slack if i == j else 0.0)
            for a in range(i):
                x -= L[j, a] * L[i, a]
            if i < j:
                L[j, i] = x / L[i, i]
            elif x > 0.0:
                L[j, j] = np.sqrt(x)
            else:
                return most == 0.0
    return True
