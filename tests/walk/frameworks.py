"""The two frameworks as the walk uses them: arrays of a dtype, staging, and a value with its gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


class Torch:
    def __init__(self, dtype: str) -> None:
        import torch

        self.torch, self.dtype = torch, getattr(torch, dtype)

    def array(self, x: np.ndarray) -> Any:
        return self.torch.as_tensor(np.array(x, dtype=np.float64)).to(self.dtype)

    def numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x.detach().to(self.torch.float64) if x.is_floating_point() else x)

    def stage(self, fn: Callable[[Any], Any], staged: bool) -> Callable[[Any], Any]:
        return fn

    def value_and_grad(self, fn: Callable[[Any], Any], tree: Any, staged: bool) -> tuple[float, Any]:
        from torch.utils import _pytree as pytree

        flat, shape = pytree.tree_flatten(tree)
        flat = [leaf.detach().clone().requires_grad_() for leaf in flat]
        value = fn(pytree.tree_unflatten(flat, shape))
        if not value.requires_grad:
            raise AssertionError("the value carries no gradient")
        found = self.torch.autograd.grad(value, flat, allow_unused=True)
        grads = [self.torch.zeros_like(x) if g is None else g for x, g in zip(flat, found, strict=True)]
        return float(value), pytree.tree_unflatten(grads, shape)


class Jax:
    def __init__(self, dtype: str) -> None:
        import jax

        self.jax, self.dtype = jax, dtype

    def array(self, x: np.ndarray) -> Any:
        return self.jax.numpy.asarray(np.array(x, dtype=np.float64)).astype(self.dtype)

    def numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x) if x.dtype == bool or "int" in str(x.dtype) else np.asarray(x, dtype=np.float64)

    def stage(self, fn: Callable[[Any], Any], staged: bool) -> Callable[[Any], Any]:
        return self.jax.jit(fn)

    def value_and_grad(self, fn: Callable[[Any], Any], tree: Any, staged: bool) -> tuple[float, Any]:
        both = self.jax.value_and_grad(fn)
        value, grads = (self.jax.jit(both) if staged else both)(tree)
        return float(value), grads


@cache
def framework(name: str, dtype: str) -> Torch | Jax:
    return Torch(dtype) if name == "torch" else Jax(dtype)
