"""Phi(v, p) - Phi(v, q) of the pairwise energy in eager torch, at constant p and q: few kernels, both ways.

With d = p - q and s = p + q it is <u, d> - 1/2 <A^T d, A^T s>; its gradient is d in u and
-1/2 (d (A^T s)^T + s (A^T d)^T) in A. Autograd would keep and walk the products of every inner product; beside a
fast solver that is most of a training step's time.
"""

from __future__ import annotations

from typing import Any

import torch

from gfy.backend import backend_of
from gfy.protocols import Array


def served(u: Array, A: Array, p: Array, q: Array) -> bool:
    """Whether all are of one batch shape and p and q are constants."""
    return u.shape == p.shape == q.shape == A.shape[:-1] and not (p.requires_grad or q.requires_grad)


def difference(u: Array, A: Array, p: Array, q: Array) -> Array:
    """[..., k], [..., k, m] -> [...]; differentiable in u and A, also twice."""
    d, s = p - q, p + q

    def forward(u: Array, A: Array) -> tuple[Array, Any]:
        along_d, along_s = _across(A, d), _across(A, s)
        value = torch.linalg.vecdot(u, d) - 0.5 * (along_d * along_s).sum(-1)
        return value, (A, along_d, along_s)

    def backward(kept: Any, g: Array) -> tuple[Array, Array]:
        A, along_d, along_s = kept
        if torch.is_grad_enabled():  # differentiated again: what was kept knows nothing of A
            along_d, along_s = _across(A, d), _across(A, s)
        half = -0.5 * g[..., None]
        in_A = d[..., None] * (half * along_s)[..., None, :]
        return g[..., None] * d, torch.addcmul(in_A, s[..., None], (half * along_d)[..., None, :])

    return backend_of(u).custom_vjp(forward, backward)(u, A)


def _across(A: Array, x: Array) -> Array:
    """A^T x, [..., m]."""
    if A.shape[-1] == 1:
        return torch.linalg.vecdot(A[..., 0], x)[..., None]
    return (x[..., None, :] @ A)[..., 0, :]
