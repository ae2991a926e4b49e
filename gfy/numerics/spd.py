"""Symmetric positive definite systems: what Newton's steps and implicit derivatives of concave problems ask for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gfy.backend import backend_of
from gfy.numerics import chunking
from gfy.protocols import Array

_WORTH = 0.9  # of the coordinates: where fewer are free, a system of the free ones alone is smaller
_CALLS = 4  # times as many systems as a cache holds in eager torch, which pays for every call


def factor(system: Array) -> Callable[[Array], Array]:
    """rhs [..., k, r] -> the solution of system Y = rhs, by Cholesky's factor; NaN where there is none."""
    backend = backend_of(system)
    if backend.name == "jax":
        from jax.lax import linalg

        lower = linalg.cholesky(system, symmetrize_input=False)

        def solve(rhs: Array) -> Array:
            half = linalg.triangular_solve(lower, rhs, left_side=True, lower=True)
            return linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)

        return solve
    if backend.name == "torch":
        import torch

        lower, _ = torch.linalg.cholesky_ex(system)
        return lambda rhs: torch.cholesky_solve(rhs, lower)
    return lambda rhs: _numpy_solve(system, rhs)


def _numpy_solve(system: Array, rhs: Array) -> Array:
    try:
        return np.linalg.solve(system, rhs)
    except np.linalg.LinAlgError:  # one singular system refuses the whole batch: each is then taken alone
        if system.ndim == 2:
            return np.full_like(rhs, np.nan)
        both = np.broadcast_shapes(system.shape[:-2], rhs.shape[:-2])
        systems = np.broadcast_to(system, (*both, *system.shape[-2:])).reshape(-1, *system.shape[-2:])
        sides = np.broadcast_to(rhs, (*both, *rhs.shape[-2:])).reshape(-1, *rhs.shape[-2:])
        found = [_numpy_solve(a, b) for a, b in zip(systems, sides, strict=True)]
        return np.stack(found).reshape(*both, *rhs.shape[-2:])


def responder(hessian: Array, D: Array, balanced: bool) -> Callable[[Array], Array]:
    """r -> z = (I - J H)^-1 J r, the answer of p to scores moved by r; H <= 0 is [..., k, k], D and r [..., k].

    J is diag(D), less D D^T / sum D where `balanced` (sum p is fixed). With D^1/2 on both sides the system
    I - D^1/2 H D^1/2 is symmetric and at least I. A coordinate with D = 0 does not move: where sizes may depend on
    values (eager torch) the system is that of the free ones alone.
    """
    backend = backend_of(D)
    count = _free(D) if backend.name == "torch" and backend.is_concrete(D, hessian) else None
    if count is None:
        return _whole(hessian, D, balanced)
    index = backend.xp.argsort((D <= 0).int(), stable=True)[..., :count]
    k = D.shape[-1]
    flat = hessian.expand(*D.shape, k).reshape(*D.shape[:-1], k * k)
    places = (k * index[..., :, None] + index[..., None, :]).reshape(*D.shape[:-1], count * count)
    part = flat.take_along_dim(places, -1).reshape(*D.shape[:-1], count, count)
    inner = _whole(part, D.take_along_dim(index, -1), balanced)
    return lambda r: (0 * D).scatter(-1, index, inner((r + 0 * D).take_along_dim(index, -1)))


def in_parts(work: Callable[[Array, Array, Array], Array], hessian: Array, D: Array, r: Array) -> Array:
    """work(hessian, D, r); on a processor a few examples at a time, whose matrices come from memory once.

    For derivatives, which come once; not inside a solver's loop, where XLA has been seen to wait for itself for ever
    (a batched factorisation in a loop in a loop on two threads), and whose batch is in parts already.
    """
    few = _few(hessian, D)
    if few is None:
        return work(hessian, D, r)
    if backend_of(D).name == "torch":
        import torch

        few *= _CALLS
        return torch.cat([work(*part) for part in zip(*(x.split(few) for x in (hessian, D, r)), strict=True)])
    import jax

    return jax.lax.map(lambda given: work(*given), (hessian, D, r), batch_size=few)


def _few(hessian: Array, D: Array) -> int | None:
    """How many systems of one batch axis a cache holds; None where all are to be taken at once."""
    backend = backend_of(D)
    if backend.name == "numpy" or D.ndim != 2 or hessian.ndim != 3 or not backend.on_host(D, hessian):
        return None
    return chunking.holds(hessian.shape[-1] ** 2 * hessian.dtype.itemsize, D.shape[0])


def _free(D: Array) -> int | None:
    """How many coordinates are free in the example that has most of them; None where nearly all are."""
    most = int((D > 0).sum(-1).max()) if D.numel() else 0
    return most if 0 < most <= _WORTH * D.shape[-1] else None


def _whole(hessian: Array, D: Array, balanced: bool) -> Callable[[Array], Array]:
    backend = backend_of(D)
    xp = backend.xp
    root = xp.sqrt(D)
    eye = backend.asarray(np.eye(root.shape[-1]), like=root)
    solve = factor(eye - root[..., :, None] * hessian * root[..., None, :])
    if not balanced:
        return lambda r: root * solve((root * r)[..., None])[..., 0]

    def with_multiplier(r: Array) -> Array:
        both = solve(xp.stack([root * r, root + 0 * r], axis=-1))
        return balance(root * both[..., 0], root * both[..., 1])

    return with_multiplier


def balance(free: Array, tilt: Array) -> Array:
    """free, less the multiple of tilt (the answer to equal scores) that keeps the sum of p, [..., k]."""
    xp = backend_of(free).xp
    weight = tilt.sum(-1)
    share = free.sum(-1) / xp.where(weight > 0, weight, xp.ones_like(weight))
    return free - share[..., None] * tilt
