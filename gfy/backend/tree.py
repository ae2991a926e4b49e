"""Inputs and solver states are small trees: tuples, lists and dicts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply fn to every leaf of one or several trees of the same shape; None stays None."""
    if tree is None:
        return None
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(fn, *parts) for parts in zip(tree, *rest, strict=True)))
    if isinstance(tree, tuple | list):
        return type(tree)(tree_map(fn, *parts) for parts in zip(tree, *rest, strict=True))
    if isinstance(tree, dict):
        return {key: tree_map(fn, tree[key], *(other[key] for other in rest)) for key in tree}
    return fn(tree, *rest)


def leaves(tree: Any) -> Iterator[Any]:
    """Every leaf, left to right."""
    if tree is None:
        return
    if isinstance(tree, tuple | list):
        for part in tree:
            yield from leaves(part)
    elif isinstance(tree, dict):
        for key in tree:
            yield from leaves(tree[key])
    else:
        yield tree


def unflatten(like: Any, values: Iterator[Any]) -> Any:
    """The tree `like` with its leaves replaced, left to right, by `values`."""
    return tree_map(lambda _: next(values), like)
