"""Represent the space V of an energy's inputs by plain vectors [..., n], for searches over v.

An Input is a tuple of leaves of different ranks, and a search needs one vector. `InputSpace` converts between the
two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of, leaves
from gfy.energies.base import Energy
from gfy.errors import GfyTypeError, GfyValueError, UnsupportedError
from gfy.protocols import Array, Input


@dataclass(frozen=True)
class InputSpace:
    """Describe leaves of `kind` with event shapes `shapes`; a vector has `size` coordinates."""

    kind: Any
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def flat(self, v: Input, batch: tuple[int, ...]) -> Array:
        """Return the leaves side by side, each broadcast to the batch axes: [..., n]."""
        xp = backend_of(v).xp
        parts = []
        for leaf, shape in zip(v, self.shapes, strict=True):
            whole = xp.broadcast_to(leaf, (*batch, *shape))
            parts.append(xp.reshape(whole, (*batch, math.prod(shape))))
        return xp.concat(parts, axis=-1) if len(parts) > 1 else parts[0]

    def input(self, x: Array) -> Input:
        """Return the Input of a vector [..., n]."""
        xp = backend_of(x).xp
        parts, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            parts.append(xp.reshape(x[..., start:stop], (*x.shape[:-1], *shape)))
            start = stop
        return self.kind(*parts)


def space_of(energy: Energy, v: Input) -> InputSpace:
    """Return the space of v, read from the shapes of its leaves."""
    ranks = getattr(energy, "ranks", None)
    if ranks is None:  # The Input may hold any tree; here it must be one vector.
        if len(v) != 1 or not hasattr(v[0], "shape"):
            raise GfyTypeError(
                f"{energy.name}: a search over v needs leaves that are arrays, got {type(v[0]).__name__}"
            )
        ranks = {v._fields[0]: min(1, len(v[0].shape))}
    shapes = []
    for (field, rank), leaf in zip(ranks.items(), v, strict=True):
        if leaf.ndim < rank:
            raise GfyValueError(
                f"{energy.name}.Input.{field} must have {rank} or more axes, got the shape {tuple(leaf.shape)}"
            )
        shapes.append(tuple(leaf.shape[leaf.ndim - rank :]))
    return InputSpace(type(v), tuple(shapes))


def zero_input(energy: Energy, p: Array) -> Input:
    """Return the zero of V where p [..., k] determines every shape of it, and raise a sentence where it does not."""
    backend = backend_of(p)
    k = int(p.shape[-1])
    shapes = energy.shapes(k)
    if shapes is not None:
        return energy.Input(**{field: backend.zeros(shape, p) for field, shape in shapes.items()})
    raise UnsupportedError(
        f"the shapes of {energy.name}.Input do not follow from p: give start={energy.name}.Input(...)"
    )


def broadcast_batch(energy: Energy, v: Input, p: Array) -> tuple[int, ...]:
    """Return the batch axes of v and p together."""
    mine = space_of(energy, v)
    shapes = [
        tuple(leaf.shape[: leaf.ndim - len(event)])
        for leaf, event in zip(leaves(v), mine.shapes, strict=True)
    ]
    try:
        return tuple(np.broadcast_shapes(*shapes, tuple(p.shape[:-1])))
    except ValueError:
        raise GfyValueError(
            f"v and p have batch axes that do not agree: {shapes} and {tuple(p.shape[:-1])}"
        ) from None
