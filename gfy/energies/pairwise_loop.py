"""The sums of `eager_pairwise` in one pass over each example, compiled: seven kernels and their arrays in one."""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

from gfy.native import compiled


@compiled
def sums(u, A, p, q, slope, value, along_p, along_d):
    """<u + slope, d> - 1/2 <A^T d, A^T (2 p - d)> with d = p - q, A^T p, A^T d; [n, ...], a slope may be shared."""
    n, k, m = A.shape
    for b in range(n):
        s = slope[b % slope.shape[0]]
        total = 0.0
        for j in range(k):
            total += (u[b, j] + s[j]) * (p[b, j] - q[b, j])
        for i in range(m):
            x, y = 0.0, 0.0
            for j in range(k):
                x += A[b, j, i] * p[b, j]
                y += A[b, j, i] * (p[b, j] - q[b, j])
            along_p[b, i], along_d[b, i] = x, y
            total -= 0.5 * y * (2 * x - y)
        value[b] = total
