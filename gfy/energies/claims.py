"""Try the claim that an energy is concave in p, where it is its author's word, at random points of C."""

from __future__ import annotations

from typing import Any

import numpy as np

from gfy.backend import Backend, backend_of, floating_leaf, leaves
from gfy.errors import GfyError, GfyValueError
from gfy.problem import InnerProblem

_CHORDS = 3  # chords per example; each needs three values of the energy
_CORNERS = 4  # corners of C; a random point of C is a mixture of so many
_DOUBTFUL = 1e3  # units in the last place by which a value may be rounded
# The hash of each energy and shapes of v whose claim was tried. The energy itself is not kept, because what
# it captured may be large.
_TRIED: set[int] = set()
_MOST_TRIED = 512


def try_claim(problem: InnerProblem, v: Any) -> None:
    """Refuse an energy that lies below one of a few chords in C; each energy is tried once per shape of v.

    Nothing is tried while a function is being staged, nor before the size of p is known.
    """
    energy, backend = problem.energy, backend_of(v)
    if not energy.concave or energy.linear or energy.proven or not backend.is_concrete(v):
        return
    try:
        look = hash((energy, *((getattr(x, "shape", ()), getattr(x, "dtype", None)) for x in leaves(v))))
        if look in _TRIED:
            return
    except TypeError:  # A part that cannot be hashed is not remembered, so its claim is tried at every call.
        look = None
    try:
        shape = (*energy.batch_shape(v), energy.dim(v))
    except GfyError:
        return
    if 0 not in shape:
        _try_chords(problem, v, shape, backend)
    if look is not None:
        if len(_TRIED) >= _MOST_TRIED:
            _TRIED.clear()
        _TRIED.add(look)


def _try_chords(problem: InnerProblem, v: Any, shape: tuple[int, ...], backend: Backend) -> None:
    energy, like, rng = problem.energy, floating_leaf(v), np.random.default_rng(0)

    def value(p: np.ndarray) -> np.ndarray | None:
        with backend.constant(), backend.reading():
            found = energy.value(v, backend.asarray(p, like=like))
        return np.asarray(backend.to_numpy(found), dtype=np.float64) if backend.is_concrete(found) else None

    for _ in range(_CHORDS):
        one, other = _draw(problem.domain, shape, rng), _draw(problem.domain, shape, rng)
        first, middle, last = value(one), value((one + other) / 2), value(other)
        if first is None or middle is None or last is None:
            # JAX is tracing what the function captured, so no value can be read.
            return
        with np.errstate(invalid="ignore"):
            # An energy may have no value at a corner; NaN then proves nothing.
            room = _DOUBTFUL * backend.eps(like) * (1 + np.abs(first) + np.abs(last))
            worst = (first + last) / 2 - middle - room
        if np.any(worst > 0):
            raise GfyValueError(
                f"{energy.name} claims to be concave in p but is not: in the middle between two points of "
                f"{problem.domain.name} it lies below their chord by {np.nanmax(worst):.3g}; pass an energy that is "
                "concave, or say concave=False"
            )


def _draw(domain: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return a point of C per example, [..., k]."""
    if not domain.compact:
        return np.asarray(domain.project(rng.normal(size=shape)))
    corners = [domain.linear_oracle(rng.normal(size=shape)) for _ in range(_CORNERS)]
    shares = rng.dirichlet(np.ones(_CORNERS), size=shape[:-1])
    return np.asarray(sum(shares[..., n, None] * corner for n, corner in enumerate(corners)))
