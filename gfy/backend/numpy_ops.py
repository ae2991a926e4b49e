"""NumPy in float64: what certificates are computed with. It has loops and no derivatives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gfy.backend.base import Capture
from gfy.backend.eager import EagerLoops
from gfy.backend.tree import tree_map
from gfy.errors import UnsupportedError


class NumpyBackend(EagerLoops):
    name = "numpy"
    xp = np

    def _no_derivative(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError("NumPy arrays carry no derivatives: pass jax arrays or torch tensors")

    vjp = value_and_grad = jvp = custom_vjp = attach = checkpoint = gradient = hessian_product = (
        _no_derivative
    )

    def constant(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def wants_gradient(self, *trees: Any) -> bool:
        return False

    def capture(self, fn: Callable[..., Any], *args: Any) -> Capture:
        return Capture(fn, (), None)

    def output_shape(self, fn: Callable[..., Any], *args: Any) -> tuple[int, ...]:
        return tuple(np.shape(fn(*args)))

    def widened(self, fn: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        return fn

    def narrows(self, fn: Callable[..., Any], *args: Any) -> bool:
        return False

    def stop_gradient(self, tree: Any) -> Any:
        return tree

    def jit(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def set_at(self, x: Any, index: Any, value: Any) -> Any:
        copy = x.copy()
        copy[index] = value
        return copy

    def astype(self, x: Any, dtype: str) -> Any:
        return np.asarray(x).astype(dtype)

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        return np.zeros(shape, dtype=like.dtype)

    def asarray(self, x: Any, like: Any = None, dtype: str | None = None, device: Any = None) -> Any:
        return np.asarray(x, dtype=like.dtype if like is not None and dtype is None else dtype)

    def to_numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def sync(self, tree: Any) -> Any:
        return tree

    def is_concrete(self, *trees: Any) -> bool:
        return True

    def reading(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def on_host(self, *arrays: Any) -> bool:
        return True

    def callback(self, fn: Callable[..., Any], like: Any, *trees: Any, batched: bool = False) -> Any:
        return tree_map(lambda x, shape: np.asarray(x, dtype=shape.dtype), fn(*trees), like)

    def eps(self, x: Any) -> float:
        return float(np.finfo(x.dtype).eps)
