"""Define energies whose weights are plain normal draws: Wishart Hessians on a box or a simplex, and a wide
concave SPEN."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance, single


def _wishart(rng: np.random.Generator, k: int, *batch: int) -> np.ndarray:
    """Return U [..., k, k] = -R R^T / k for a square normal R: negative definite, with eigenvalues from 0 to 4."""
    root = rng.normal(size=(*batch, k, k))
    return -(root @ np.swapaxes(root, -1, -2)) / k


def _dense(regularizer: Any) -> Any:
    def build(rng: np.random.Generator, k: int, batch: int) -> Instance:
        """Draw a separate U for every example, on the unit box."""
        problem = gfy.InnerProblem(gfy.LinearQuadratic(), regularizer(), gfy.Box(0.0, 1.0))
        U = _wishart(rng, k, batch)
        v = gfy.LinearQuadratic.Input(u=2.0 * rng.normal(size=(batch, k)), U=U)
        return single(rng, problem, v, batch, k)

    return build


def _simplex(regularizer: Any) -> Any:
    def build(rng: np.random.Generator, k: int, batch: int) -> Instance:
        """Draw one U for the whole batch, as the weights of a layer are."""
        problem = gfy.InnerProblem(gfy.LinearQuadratic(), regularizer(), gfy.Simplex())
        U = _wishart(rng, k)
        v = gfy.LinearQuadratic.Input(u=rng.normal(size=(batch, k)), U=U)
        return single(rng, problem, v, batch, k)

    return build


def concave_spen(rng: np.random.Generator, k: int, batch: int) -> Instance:
    """Draw a concave SPEN with k / 2 hidden units (at least 8), whose weights the batch shares."""
    hidden = max(8, k // 2)
    v = gfy.ConcaveSpen.Input(
        u=2.0 * rng.normal(size=(batch, k)),
        W1=rng.normal(size=(hidden, k)) / np.sqrt(k),
        b1=rng.normal(size=hidden),
        W2=rng.normal(size=hidden),
        b2=np.zeros(()),
    )
    problem = gfy.InnerProblem(gfy.ConcaveSpen(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    return single(rng, problem, v, batch, k)


BOX = {"k": 64, "batch": 64}
SIMPLEX = {"k": 200, "batch": 32}

FAMILIES = (
    Family("dense-gini", "a Wishart Hessian per example, sparse labels on a box", _dense(gfy.BinaryGini), BOX),
    Family("dense-shannon", "a Wishart Hessian per example, logistic labels on a box",
           _dense(gfy.BinaryShannon), BOX),
    Family("simplex-gini", "one Wishart Hessian for the batch, sparse classes", _simplex(gfy.Gini), SIMPLEX),
    Family("simplex-shannon", "one Wishart Hessian for the batch, dense classes",
           _simplex(gfy.Shannon), SIMPLEX),
    Family("concave-spen", "an input-concave SPEN half as wide as p, with kinks", concave_spen, BOX),
)  # fmt: skip
