"""Entry points of other packages; reading them is put off, since `importlib.metadata` imports slowly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def entry_points(**asked: str) -> Iterable[Any]:
    """The entry points of a group, and of a name where one is given.

    Example:
        >>> [point.name for point in entry_points(group="gfy.solvers")]
    """
    from importlib.metadata import entry_points as find

    return find(**asked)
