"""Solve symmetric positive definite systems, which Newton's steps and implicit derivatives of concave problems need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gfy.backend import backend_of
from gfy.numerics import chunking
from gfy.protocols import Array


def positive_solver(system: Array) -> Callable[[Array], Array]:
    """Return Y with system Y = rhs [..., k, r] by the Cholesky factor of system [..., k, k], or NaN where it
    has none."""
    return backend_of(system).positive_solver(system)


def responder(hessian: Array, D: Array, balanced: bool) -> Callable[[Array], Array]:
    """Map r to z = (I - J H)^-1 J r, the change of p when scores move by r; H <= 0 is [..., k, k], D and r [..., k].

    J is diag(D), minus D D^T / sum D where `balanced` (sum p is fixed). With D^1/2 on both sides the system I - D^1/2
    H D^1/2 is symmetric and at least I. A coordinate with D = 0 does not move. Where array sizes may depend on values
    (eager torch), only the system of the other coordinates is solved.
    """
    fused = backend_of(D).fused("free_coordinates", D, hessian)
    found = None if fused is None else fused(D, hessian)
    if found is None:
        return _whole(hessian, D, balanced)
    free, part, there, back = found
    inner = _whole(part, free, balanced)
    return lambda r: back(inner(there(r)))


def in_parts(work: Callable[[Array, Array, Array], Array], hessian: Array, D: Array, r: Array) -> Array:
    """Return work(hessian, D, r), on a processor for a few examples at a time, so that each matrix is read once.

    This function is for derivatives, which are computed once. It must not be used inside a solver's loop: XLA was
    seen to wait for itself without end there (a batched factorisation in a loop in a loop, on two threads). The batch
    of a solver is already in parts.
    """
    few = _few(hessian, D)
    if few is None:
        return work(hessian, D, r)
    return backend_of(D).in_parts(lambda given: work(*given), few, (hessian, D, r))


def _few(hessian: Array, D: Array) -> int | None:
    """Return how many systems of one batch axis a cache holds, or None where all are computed at once."""
    backend = backend_of(D)
    if D.ndim != 2 or hessian.ndim != 3 or not backend.on_host(D, hessian):
        return None
    return chunking.holds(hessian.shape[-1] ** 2 * hessian.dtype.itemsize, D.shape[0])


def _whole(hessian: Array, D: Array, balanced: bool) -> Callable[[Array], Array]:
    backend = backend_of(D)
    xp = backend.xp
    root = xp.sqrt(D)
    eye = backend.asarray(np.eye(root.shape[-1]), like=root)
    solve = positive_solver(eye - root[..., :, None] * hessian * root[..., None, :])
    if not balanced:
        return lambda r: root * solve((root * r)[..., None])[..., 0]

    def with_multiplier(r: Array) -> Array:
        both = solve(xp.stack([root * r, root + 0 * r], axis=-1))
        return balance(root * both[..., 0], root * both[..., 1])

    return with_multiplier


def balance(free: Array, tilt: Array) -> Array:
    """Return free minus the multiple of tilt (the response to equal scores) that keeps the sum of p, [..., k]."""
    xp = backend_of(free).xp
    weight = tilt.sum(-1)
    share = free.sum(-1) / xp.where(weight > 0, weight, xp.ones_like(weight))
    return free - share[..., None] * tilt
