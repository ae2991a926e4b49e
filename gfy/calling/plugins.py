"""Find entry points of other packages; they are read late, since `importlib.metadata` imports slowly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def entry_points(**asked: str) -> Iterable[Any]:
    """Return the entry points of a group, and only those of one name where it is given.

    Example:
        >>> [point.name for point in entry_points(group="gfy.solvers")]
    """
    from importlib.metadata import entry_points as find

    return find(**asked)
