"""Compute Phi(v, p) - Phi(v, q) of the pairwise energy in eager torch, at constant p and q, with few kernels.

With d = p - q the difference is <u, d> - 1/2 <A^T d, A^T (2 p - d)>. Its gradient in u is d, and its gradient in A is
q (A^T q)^T - p (A^T p)^T. Autograd would keep and walk the products of every inner product. Beside a fast solver this
takes most of the time of a training step, and so does every new array of this size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from gfy.protocols import Array


def served(u: Array, A: Array, p: Array, q: Array) -> bool:
    """Return whether all have one batch shape, p and q are constants, and derivatives are those of a backward pass."""
    forward = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    return (
        not (p.requires_grad or q.requires_grad or forward) and u.shape == p.shape == q.shape == A.shape[:-1]
    )


def difference(u: Array, A: Array, p: Array, q: Array, slope: Array | None) -> Array:
    """Return the difference, [..., k], [..., k, m] -> [...]; it is differentiable twice in u and A; a slope
    is a constant."""
    value: Array = _Difference.apply(u, A, p, q, slope)  # type: ignore[no-untyped-call]
    return value


class _Difference(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Array, A: Array, p: Array, q: Array, slope: Array | None) -> Array:
        value, along_p, along_d = _sums(u, A, p, q, slope)
        ctx.save_for_backward(A, p, q, along_p, along_d)
        return value

    @staticmethod
    def backward(ctx: Any, *cotangents: Array) -> Any:
        (g,) = cotangents
        A, p, q, along_p, along_d = ctx.saved_tensors
        if torch.is_grad_enabled():
            # The gradient is differentiated again, and the saved products do not depend on A for autograd.
            along_p, along_d = _across(A, p), _across(A, p - q)
        weight = g[..., None]
        in_A = q[..., None] * (weight * (along_p - along_d))[..., None, :]
        in_A.addcmul_(p[..., None], (weight * along_p)[..., None, :], value=-1)
        return (p - q).mul_(weight), in_A, None, None, None


def _sums(u: Array, A: Array, p: Array, q: Array, slope: Array | None) -> tuple[Array, Array, Array]:
    """Return the value [...], A^T p and A^T d [..., m]."""
    d = p - q
    along_p, along_d = _across(A, p), _across(A, d)
    ends = torch.linalg.vecdot(along_d, 2 * along_p - along_d)
    value = torch.sub(torch.linalg.vecdot(u if slope is None else u + slope, d), ends, alpha=0.5)
    return value, along_p, along_d


def _across(A: Array, x: Array) -> Array:
    """Return A^T x, [..., m]."""
    if A.shape[-1] == 1:
        return torch.linalg.vecdot(A[..., 0], x)[..., None]
    return (x[..., None, :] @ A)[..., 0, :]
