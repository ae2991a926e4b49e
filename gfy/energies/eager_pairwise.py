"""Phi(v, p) - Phi(v, q) of the pairwise energy in eager torch, at constant p and q: few kernels, both ways.

With d = p - q and s = p + q it is <u, d> - 1/2 <A^T d, A^T s>; its gradient is d in u and
-1/2 (d (A^T s)^T + s (A^T d)^T) in A. Autograd would keep and walk the products of every inner product; beside a
fast solver that is most of a training step's time.
"""

from __future__ import annotations

from typing import Any

import torch

from gfy.protocols import Array


def served(u: Array, A: Array, p: Array, q: Array) -> bool:
    """Whether all are of one batch shape, p and q are constants, and plain autograd is at work, not `torch.func`."""
    constant = not (p.requires_grad or q.requires_grad or torch._C._are_functorch_transforms_active())
    return constant and u.shape == p.shape == q.shape == A.shape[:-1]


def difference(u: Array, A: Array, p: Array, q: Array) -> Array:
    """[..., k], [..., k, m] -> [...]; differentiable in u and A, also twice."""
    value: Array = _Difference.apply(u, A, p - q, p + q)  # type: ignore[no-untyped-call]
    return value


class _Difference(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Array, A: Array, d: Array, s: Array) -> Array:
        along_d, along_s = _across(A, d), _across(A, s)
        ctx.save_for_backward(A, d, s, along_d, along_s)
        value = torch.linalg.vecdot(u, d)
        if A.shape[-1] == 1:
            return torch.addcmul(value, along_d[..., 0], along_s[..., 0], value=-0.5)
        return torch.sub(value, torch.linalg.vecdot(along_d, along_s), alpha=0.5)

    @staticmethod
    def backward(ctx: Any, *cotangents: Array) -> Any:
        (g,) = cotangents
        A, d, s, along_d, along_s = ctx.saved_tensors
        if torch.is_grad_enabled():  # differentiated again: what was kept knows nothing of A
            along_d, along_s = _across(A, d), _across(A, s)
        half = -0.5 * g[..., None]
        in_A = d[..., None] * (half * along_s)[..., None, :]
        in_A = torch.addcmul(in_A, s[..., None], (half * along_d)[..., None, :])
        return g[..., None] * d, in_A, None, None


def _across(A: Array, x: Array) -> Array:
    """A^T x, [..., m]."""
    if A.shape[-1] == 1:
        return torch.linalg.vecdot(A[..., 0], x)[..., None]
    return (x[..., None, :] @ A)[..., 0, :]
