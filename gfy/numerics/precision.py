"""Compute with half precision: float16 and bfloat16 arrays are computed in float32, and the answer is rounded once.

A multiplier near large scores, the square of a length above 256 and a factorisation do not exist in half precision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from gfy.backend import namespace
from gfy.protocols import Array

Method = TypeVar("Method", bound=Callable[..., Any])


def in_single(method: Method) -> Method:
    """Wrap method(self, x, ...) of an array x so that a half-precision x is computed in float32."""

    @wraps(method)
    def widened(self: Any, x: Array, *rest: Any) -> Any:
        if x.dtype.itemsize > 2:
            return method(self, x, *rest)
        xp = namespace(x)
        wide = [xp.astype(a, xp.float32) if getattr(a, "dtype", None) == x.dtype else a for a in (x, *rest)]
        return xp.astype(method(self, *wide), x.dtype)

    return widened  # type: ignore[return-value]
