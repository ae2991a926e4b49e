"""Implement the backend protocol with NumPy in float64, for certificates. It has loops and no derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from gfy.backend.eager import Eager
from gfy.errors import UnsupportedError


class NumpyBackend(Eager):
    name = "numpy"
    xp = np

    def _no_derivative(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError("NumPy arrays carry no derivatives: pass jax arrays or torch tensors")

    vjp = value_and_grad = jvp = custom_vjp = attach = checkpoint = gradient = hessian_product = (
        _no_derivative
    )

    def asarray(self, x: Any, like: Any = None, dtype: str | None = None, device: Any = None) -> Any:
        return np.asarray(x, dtype=like.dtype if like is not None and dtype is None else dtype)

    def to_numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)
