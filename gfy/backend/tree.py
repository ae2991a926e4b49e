"""Inputs and solver states are small trees: tuples, lists and dicts of arrays.

The values of a dict are visited in the order of its sorted keys, as JAX visits them, so that leaf number n is the same
leaf in both frameworks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_SEQUENCES = (tuple, list)  # a union made at every call takes longer than the test


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply fn to every leaf of one or several trees of the same shape; None stays None."""
    if tree is None:
        return None
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(fn, *parts) for parts in zip(tree, *rest, strict=True)))
    if isinstance(tree, _SEQUENCES):
        return type(tree)(tree_map(fn, *parts) for parts in zip(tree, *rest, strict=True))
    if isinstance(tree, dict):
        return {key: tree_map(fn, tree[key], *(other[key] for other in rest)) for key in sorted(tree)}
    return fn(tree, *rest)


def leaves(tree: Any) -> Iterator[Any]:
    """Every leaf, left to right."""
    found: list[Any] = []  # a list is filled faster than generators hand their leaves on
    _collect(tree, found)
    return iter(found)


def _collect(tree: Any, found: list[Any]) -> None:
    if isinstance(tree, _SEQUENCES):
        for part in tree:
            _collect(part, found)
    elif isinstance(tree, dict):
        for key in sorted(tree):
            _collect(tree[key], found)
    elif tree is not None:
        found.append(tree)


def unflatten(like: Any, values: Iterator[Any]) -> Any:
    """The tree `like` with its leaves replaced, left to right, by `values`."""
    return tree_map(lambda _: next(values), like)
