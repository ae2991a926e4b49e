"""Inputs and solver states are small trees: tuples, lists and dicts of arrays, and what JAX knows as a tree.

The values of a dict are visited in the order of its sorted keys, as JAX does, so that leaf number n is the same leaf
in both frameworks. Instances of classes that are registered with JAX (modules of equinox, states of flax) are opened
in the same way as JAX opens them.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

_SEQUENCES = (tuple, list)  # isinstance is slower with a union of types that is made at every call
_NODES: dict[type, bool] = {}  # whether the instances of a class are nodes of a JAX tree


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply fn to every leaf of one or several trees of the same shape; None stays None."""
    if tree is None:
        return None
    if not rest and isinstance(tree, _SEQUENCES):
        # In most cases the parts are arrays, and no call of this function is made for each of them.
        mapped = [fn(x) if _NODES.get(type(x)) is False else tree_map(fn, x) for x in tree]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(fn, *parts) for parts in zip(tree, *rest, strict=True)))
    if isinstance(tree, _SEQUENCES):
        return type(tree)(tree_map(fn, *parts) for parts in zip(tree, *rest, strict=True))
    if isinstance(tree, dict):
        kind = OrderedDict if isinstance(tree, OrderedDict) else dict
        return kind((key, tree_map(fn, tree[key], *(other[key] for other in rest))) for key in keys(tree))
    if _is_node(tree):
        parts, structure = _opened(tree)
        others = [_opened(other)[0] if type(other) is type(tree) else other for other in rest]
        return structure.unflatten([tree_map(fn, *some) for some in zip(parts, *others, strict=True)])
    return fn(tree, *rest)


def leaves(tree: Any) -> Iterator[Any]:
    """Return every leaf, from left to right."""
    found: list[Any] = []  # Filling a list is faster than passing every leaf through nested generators.
    _collect(tree, found)
    return iter(found)


def keys(tree: dict[Any, Any]) -> list[Any]:
    """Return the keys of a dict in the order in which both frameworks visit them."""
    return list(tree) if isinstance(tree, OrderedDict) else sorted(tree)


def _collect(tree: Any, found: list[Any]) -> None:
    if isinstance(tree, _SEQUENCES):
        for part in tree:
            if _NODES.get(type(part)) is False:  # in most cases an array
                found.append(part)
            else:
                _collect(part, found)
    elif isinstance(tree, dict):
        for key in keys(tree):
            _collect(tree[key], found)
    elif _is_node(tree):
        for part in _opened(tree)[0]:
            _collect(part, found)
    elif tree is not None:
        found.append(tree)


def unflatten(like: Any, values: Iterator[Any]) -> Any:
    """Return the tree `like` with its leaves replaced, left to right, by `values`."""
    return tree_map(lambda _: next(values), like)


def _is_node(x: Any) -> bool:
    known = _NODES.get(type(x))
    if known is None:
        if type(x).__module__ in ("torch", "numpy"):  # JAX opens none of their classes
            _NODES[type(x)] = False
            return False
        jax = sys.modules.get("jax")
        if jax is None or not hasattr(jax, "tree_util"):
            # JAX is not imported, or its import has not finished.
            return False
        known = _NODES[type(x)] = not jax.tree_util.all_leaves([x])
    return known


def _opened(x: Any) -> tuple[list[Any], Any]:
    """Return the parts of a node of a JAX tree, one level deep, and what puts them together again."""
    parts, structure = sys.modules["jax"].tree_util.tree_flatten(x, is_leaf=lambda part: part is not x)
    return parts, structure
