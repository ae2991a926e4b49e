"""Compute exact likelihoods and marginals over {0, 1}^k by enumeration, and Gibbs sweeps where k is large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_CHUNK = 64  # examples at a time; their 64 x 2^14 numbers take 8 megabytes


@dataclass(frozen=True)
class Exact:
    """Hold log Z [n] over all outputs, log p of the observed ones [n] and marginals [n, k], in float64."""

    log_z: np.ndarray
    log_p: np.ndarray
    marginals: np.ndarray


def outputs(k: int) -> np.ndarray:
    """Return all of {0, 1}^k, [2^k, k]."""
    return (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(np.float64)


def scores(u: np.ndarray, A: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """Return <u, y> - |A^T y|^2 / 2 of every example and output, [n, N]; u [n, k], A [n, k, m] or None, y [N, k]."""
    linear = u @ y.T
    return linear if A is None else linear - 0.5 * (np.einsum("yk,nkm->nym", y, A) ** 2).sum(-1)


def exact(u: np.ndarray, A: np.ndarray | None, y: np.ndarray) -> Exact:
    """Enumerate the model exp(<u, y> - |A^T y|^2 / 2) / Z of each example; y [n, k] are the observed outputs."""
    every = outputs(u.shape[-1])
    logs, own, shares = [], [], []
    for first in range(0, len(u), _CHUNK):
        part = slice(first, first + _CHUNK)
        factor = None if A is None else A[part]
        found = scores(u[part], factor, every)
        top = found.max(-1, keepdims=True)
        weights = np.exp(found - top)
        total = weights.sum(-1, keepdims=True)
        logs.append((np.log(total) + top)[:, 0])
        shares.append(weights @ every / total)
        seen = u[part] * y[part]
        value = seen.sum(-1)
        if factor is not None:
            value = value - 0.5 * (np.einsum("nk,nkm->nm", y[part], factor) ** 2).sum(-1)
        own.append(value)
    log_z = np.concatenate(logs)
    return Exact(log_z, np.concatenate(own) - log_z, np.concatenate(shares))


def gibbs_sweep(energy: Any, v: Any, y: Any, key: Any) -> Any:
    """Return y [B, k] after each coordinate was drawn once given the others, in a model exp(Phi(v, y)); in JAX."""
    import jax
    import jax.numpy as jnp

    k = y.shape[-1]
    uniform = jax.random.uniform(key, (k, *y.shape[:-1]), dtype=y.dtype)

    def one(y: Any, given: tuple[Any, Any]) -> tuple[Any, None]:
        j, draw = given
        here = jnp.arange(k) == j
        on, off = jnp.where(here, 1.0, y), jnp.where(here, 0.0, y)
        odds = energy.value(v, on) - energy.value(v, off)
        return jnp.where((draw < jax.nn.sigmoid(odds))[..., None], on, off).astype(y.dtype), None

    return jax.lax.scan(one, y, (jnp.arange(k), uniform))[0]
