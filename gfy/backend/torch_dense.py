"""Compute Phi(v, p) - Phi(v, q) of the dense quadratic energy in eager torch, at constant p and q, with one read of U.

The gradient in U is 1/2 (p p^T - q q^T), one product of [k, 2] by [2, k] per example. Autograd would make four
matrices of U's size for it, and that takes longer than the solve.
"""

from __future__ import annotations

from typing import Any

import torch

from gfy.protocols import Array

# Numbers in U. Below this, a product of matrices of two columns takes longer than two passes over U.
_SMALL = 2**17


def difference(u: Array, U: Array, p: Array, q: Array, slope: Array | None) -> Array:
    """Return the difference, [..., k], [..., k, k] -> [...]; it is differentiable twice in u and U; a slope
    is a constant."""
    value: Array = _Difference.apply(u, U, p, q, slope)  # type: ignore[no-untyped-call]
    return value


class _Difference(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Array, U: Array, p: Array, q: Array, slope: Array | None) -> Array:
        d = p - q
        # d is multiplied as a row, because memory is then read in order; U is symmetric.
        bent = (d[..., None, :] @ U)[..., 0, :]
        ctx.save_for_backward(p, q)
        scores = u if slope is None else u + slope
        return torch.linalg.vecdot(torch.add(scores, bent, alpha=0.5), d) + torch.linalg.vecdot(bent, q)

    @staticmethod
    def backward(ctx: Any, *cotangents: Array) -> Any:
        (g,) = cotangents
        p, q = ctx.saved_tensors
        weight = g[..., None]
        half = 0.5 * weight
        if p.numel() * p.shape[-1] <= _SMALL:
            first = (half * p)[..., :, None] * p[..., None, :]
            in_U = torch.addcmul(first, (half * q)[..., :, None], q[..., None, :], value=-1.0)
        else:
            in_U = torch.stack([p, q], dim=-1) @ torch.stack([half * p, -half * q], dim=-2)
        return (p - q) * weight, in_U, None, None, None
