"""Decide which axes of the arrays in v are batch axes, for a function of the user.

The values of a function show them: for p [k] it returns one value per example, so the shape of its value is the
batch. Where a function does not accept p [k], the leading axes of the leaves are tried. Where two of them are
possible, the user is asked to declare it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from gfy.backend import WithCaptured, backend_of, floating_leaf, leaves, tree_map
from gfy.backend.tree import keys
from gfy.errors import GfyTypeError, GfyValueError
from gfy.protocols import Array

CURE = (
    "declare it with CustomEnergy(..., batched=...): one bool or one event rank per leaf, or the names of the "
    "batched entries"
)
_MOST_LEAVES = 6  # With more candidates than this, nothing is tried.
Fn = Callable[[Any, Array], Array]


def declared(batched: Any, v: Any) -> list[bool | int]:
    """Return what `batched` says about each leaf of v, from left to right: True, False, or the number of its
    event axes."""
    if isinstance(v, WithCaptured):  # the batch shares what a function captured
        return declared(batched, v.v) + [False] * len(v.captured)
    names = _names(batched)
    if names is not None:
        return _by_name(names, v)
    found: list[bool | int] = []
    _match(batched, v, found)
    return found


def _names(batched: Any) -> set[str] | None:
    if isinstance(batched, str):
        return {batched}
    many = isinstance(batched, tuple | list | set | frozenset) and len(batched) > 0
    return set(batched) if many and all(isinstance(name, str) for name in batched) else None


def _by_name(names: set[str], v: Any) -> list[bool | int]:
    if isinstance(v, dict):
        parts = {str(key): v[key] for key in keys(v)}
    elif hasattr(v, "_asdict"):
        parts = v._asdict()
    else:
        raise GfyTypeError(
            f"CustomEnergy.batched names entries of v ({', '.join(sorted(names))}), but v is a {type(v).__name__} and "
            "not a dict or a NamedTuple: give one bool or one event rank per leaf"
        )
    unknown = names - set(parts)
    if unknown:
        raise GfyValueError(
            f"CustomEnergy.batched names {', '.join(sorted(unknown))}, and v has {', '.join(parts)}"
        )
    return [name in names for name, part in parts.items() for _ in leaves(part)]


def _match(batched: Any, v: Any, found: list[bool | int]) -> None:
    """Apply one answer to all leaves below it."""
    if isinstance(batched, bool | int):
        found.extend(batched for _ in leaves(v))
    elif isinstance(v, dict) and isinstance(batched, dict) and set(v) == set(batched):
        for key in keys(v):
            _match(batched[key], v[key], found)
    elif isinstance(v, tuple | list) and isinstance(batched, tuple | list) and len(v) == len(batched):
        for one, part in zip(batched, v, strict=True):
            _match(one, part, found)
    else:
        raise GfyTypeError(
            f"CustomEnergy.batched must be a tree like v of bools or event ranks, or names of v's entries, "
            f"got {batched!r}"
        )


def batch_shape(fn: Fn, v: Any, k: int, batched: Any) -> tuple[int, ...]:
    """Return the batch axes of v: those declared, or those of the value that fn returns."""
    arrays = list(leaves(v))
    said = None if batched is None else declared(batched, v)
    if said is not None and any(not isinstance(x, bool) for x in said):
        return _by_ranks(arrays, said)
    try:
        found = _shape_at(fn, v, k, ())
    except Exception as error:
        first = error
    else:
        if found[-1:] == (k,) and not _fits(fn, v, k, found):
            raise GfyValueError(
                f"CustomEnergy.fn must return one value per example: for a p of shape [{k}] it returns an array of "
                f"shape {list(found)}, whose last axis is that of p; sum over it, as in (v * p).sum(-1)"
            )
        return found
    flagged = arrays if said is None else [x for x, flag in zip(arrays, said, strict=True) if flag]
    shapes = _by_trial(fn, v, k, flagged)
    if len(shapes) == 1:
        return shapes[0]
    if not shapes:
        raise GfyValueError(
            f"CustomEnergy.fn cannot be computed with this v: for a p of shape [{k}] it raises "
            f"{type(first).__name__} ({str(first).splitlines()[0] if str(first) else ''}), and it also fails where "
            "p has leading axes of the leaves of v as its batch axes"
        ) from first
    listed = " or ".join(str(shape) for shape in shapes)
    raise GfyValueError(f"the batch axes of v are not clear to CustomEnergy: {listed}; {CURE}") from first


def _by_ranks(arrays: list[Any], said: list[bool | int]) -> tuple[int, ...]:
    shapes = []
    for leaf, rank in zip(arrays, said, strict=True):
        if rank is True:
            raise GfyTypeError(
                "CustomEnergy.batched mixes event ranks with True: give the number of event axes of every leaf, "
                "or one bool per leaf"
            )
        size = np.ndim(leaf) if rank is False else int(rank)
        if np.ndim(leaf) < size:
            raise GfyValueError(
                f"CustomEnergy.batched gives {size} event axes to a leaf of shape {tuple(leaf.shape)}"
            )
        shapes.append(tuple(np.shape(leaf)[: np.ndim(leaf) - size]) if np.ndim(leaf) > size else ())
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise GfyValueError(f"the leaves of v have batch axes that do not agree: {shapes}") from None


def _by_trial(fn: Fn, v: Any, k: int, flagged: list[Any]) -> list[tuple[int, ...]]:
    """Return the shortest leading axes for which fn returns one value per example; there are several where
    leaves differ."""
    most = max((np.ndim(leaf) for leaf in flagged), default=0)
    for length in range(1, most + 1):
        tried = {tuple(leaf.shape[:length]) for leaf in flagged if np.ndim(leaf) >= length}
        found = [shape for shape in sorted(tried) if _fits(fn, v, k, shape)]
        if found:
            return found
    return []


def _fits(fn: Fn, v: Any, k: int, batch: tuple[int, ...]) -> bool:
    try:
        return _shape_at(fn, v, k, batch) == batch
    except Exception:
        return False


def _shape_at(fn: Fn, v: Any, k: int, batch: tuple[int, ...]) -> tuple[int, ...]:
    backend = backend_of(v)
    return backend.output_shape(fn, v, backend.zeros((*batch, k), floating_leaf(v)))


def batch_axes(fn: Fn, v: Any, k: int, batched: Any) -> Any:
    """Return the number of batch axes of each leaf, as a tree like v."""
    batch = batch_shape(fn, v, k, batched)
    arrays = list(leaves(v))
    if batched is not None:
        said = declared(batched, v)
        counts = [
            (len(batch) if flag else 0) if isinstance(flag, bool) else np.ndim(leaf) - flag
            for flag, leaf in zip(said, arrays, strict=True)
        ]
    else:
        mine = _carriers(fn, v, k, batch)
        counts = [len(batch) if n in mine else 0 for n in range(len(arrays))]
    values = iter(counts)
    return tree_map(lambda _: next(values), v)


def _carriers(fn: Fn, v: Any, k: int, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the leaves that carry the batch: exactly those must grow when an example is added."""
    if not batch:
        return ()
    arrays = list(leaves(v))
    # One example is added along the first axis, because fn then shows which of two leaves of one shape
    # carries the batch.
    able = [n for n, x in enumerate(arrays) if tuple(np.shape(x)[: len(batch)]) == batch]
    wanted = (batch[0] + 1, *batch[1:])
    xp = backend_of(v).xp

    def grown(some: tuple[int, ...]) -> Any:
        values = iter([xp.concat([x, x[:1]]) if n in some else x for n, x in enumerate(arrays)])
        return tree_map(lambda _: next(values), v)

    sets = [some for size in range(len(able), 0, -1) for some in combinations(able, size)]
    good = [some for some in sets if _fits(fn, grown(some), k, wanted)] if len(able) <= _MOST_LEAVES else []
    if len(good) != 1:
        raise GfyValueError(
            f"which leaves of v carry the batch axes {batch} is not clear to CustomEnergy: {CURE}"
        )
    return good[0]
