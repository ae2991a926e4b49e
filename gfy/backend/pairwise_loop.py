"""Compute the sums of `torch_pairwise` at rank 1 in one compiled pass over each example, instead of seven kernels."""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

from gfy.numerics.native import compiled


@compiled
def sums(u, a, p, q, slope, value, along_p, along_d):
    """Return <u + slope, d> - 1/2 <a, d> <a, 2 p - d> with d = p - q, <a, p>, <a, d>: [n, k] -> [n]; slope
    may be [1, k]."""
    n, k = u.shape
    for b in range(n):
        s = slope[b % slope.shape[0]]
        linear, x, y = 0.0, 0.0, 0.0
        for j in range(k):
            d = p[b, j] - q[b, j]
            linear += (u[b, j] + s[j]) * d
            x += a[b, j] * p[b, j]
            y += a[b, j] * d
        along_p[b], along_d[b] = x, y
        value[b] = linear - 0.5 * y * (2 * x - y)
