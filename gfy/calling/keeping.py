"""Keep what a function returned for arguments that can be hashed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def kept(most: int) -> Callable[[F], F]:
    """Keep the answers of a function for the `most` latest arguments; those that cannot be hashed are computed anew.

    Parts that a user writes, an energy or a solver, need not be hashable.

    Example:
        >>> sizes = kept(2)(len)
        >>> sizes((1, 2)), sizes([1, 2])
        (2, 2)
    """

    def keep(function: F) -> F:
        known = lru_cache(maxsize=most)(function)

        @wraps(function)
        def call(*given: Any) -> Any:
            try:
                return known(*given)
            except TypeError:  # an argument cannot be hashed
                return function(*given)

        return call  # type: ignore[return-value]

    return keep
