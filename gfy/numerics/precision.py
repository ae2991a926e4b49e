"""Compute with half precision: float16 and bfloat16 arrays are computed in float32, and the answer is rounded once.

Half precision cannot hold a multiplier near large scores or the square of a length above 256, and frameworks
factorise no matrix in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from gfy.backend import namespace

Method = TypeVar("Method", bound=Callable[..., Any])


def in_single(method: Method) -> Method:
    """Wrap method(self, x, ...) of an array x so that a half-precision x is computed in float32."""

    @wraps(method)
    def widened(self: Any, *args: Any, **named: Any) -> Any:
        x: Any = args[0] if args else next((a for a in named.values() if hasattr(a, "dtype")), None)
        if getattr(getattr(x, "dtype", None), "itemsize", 8) > 2:
            return method(self, *args, **named)
        xp = namespace(x)

        def wide(a: Any) -> Any:
            return xp.astype(a, xp.float32) if getattr(a, "dtype", None) == x.dtype else a

        found = method(self, *map(wide, args), **{name: wide(a) for name, a in named.items()})
        return xp.astype(found, x.dtype)

    return widened  # type: ignore[return-value]
