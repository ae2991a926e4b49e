"""Compute expressions in eager torch in fewer kernels than their formula has operations: see `Backend.fused`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# This is a share of the coordinates. Where fewer of them are free, the system of the free ones alone is
# enough smaller to be faster.
_WORTH = 0.9


def find(name: str, *arrays: Any) -> Callable[..., Any] | None:
    """Return the function that computes the named expression of these arrays, or None where there is none."""
    if name in ("pairwise_difference", "dense_difference"):
        from gfy.backend import torch_dense, torch_pairwise

        module = torch_pairwise if name == "pairwise_difference" else torch_dense
        return module.difference if torch_pairwise.served(*arrays) else None
    if name == "free_coordinates":
        plain = not any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in arrays)
        return free_coordinates if plain and not torch.compiler.is_compiling() else None
    return _ALWAYS.get(name)


def inner(a: Any, b: Any) -> Any:
    """Return <a, b> over the last axis as a product of matrices, which is one kernel."""
    if b.numel() == b.shape[-1] and a.shape == b.shape:  # one example: no array of products is made
        return torch.dot(a.reshape(-1), b.reshape(-1)).reshape(b.shape[:-1])
    return torch.linalg.vecdot(a, b)


def extremes(x: Any) -> tuple[float, float]:
    """Return the smallest and the largest number of x, NaN where any number is NaN, and infinite where x is empty."""
    if not x.numel():
        return float("inf"), -float("inf")
    least, most = x.aminmax()
    return least.item(), most.item()


def free_coordinates(D: Any, hessian: Any) -> tuple[Any, ...] | None:
    """Return D [..., k] and hessian [..., k, k] on the coordinates with D > 0, and the maps of vectors there and back.

    Every example gets as many coordinates as the example that has most free ones. The answer is None where nearly all
    coordinates are free.
    """
    count = int((D > 0).sum(-1).max()) if D.numel() else 0
    if not 0 < count <= _WORTH * D.shape[-1]:
        return None
    index = torch.argsort((D <= 0).int(), stable=True)[..., :count]
    k = D.shape[-1]
    flat = hessian.expand(*D.shape, k).reshape(*D.shape[:-1], k * k)
    places = (k * index[..., :, None] + index[..., None, :]).reshape(*D.shape[:-1], count * count)
    part = flat.take_along_dim(places, -1).reshape(*D.shape[:-1], count, count)

    def there(r: Any) -> Any:
        return (r + 0 * D).take_along_dim(index, -1)

    def back(r: Any) -> Any:
        return (0 * D).scatter(-1, index, r)

    return D.take_along_dim(index, -1), part, there, back


_ALWAYS: dict[str, Callable[..., Any]] = {
    "clip": torch.clamp, "extremes": extremes, "inner": inner, "sigmoid": torch.sigmoid,
}  # fmt: skip
