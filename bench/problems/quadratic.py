"""Define quadratic energies: pairwise interactions of low rank, and dense U of chosen conditioning."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance, negative_definite, single, spread


def pairwise(
    rng: np.random.Generator, k: int, batch: int, rank: int, active: float, strength: float, regularizer: Any
) -> Instance:
    """Draw u [batch, k], A [batch, k, rank]: about a fraction `active` of the coordinates ends at a bound."""
    problem = gfy.InnerProblem(gfy.Pairwise(), regularizer, gfy.Box(0.0, 1.0))
    u = spread(active) * rng.normal(size=(batch, k))
    A = strength * rng.normal(size=(batch, k, rank)) / np.sqrt(rank)
    return single(rng, problem, gfy.Pairwise.Input(u=u, A=A), batch, k)


def dense(
    rng: np.random.Generator,
    k: int,
    batch: int,
    condition: float,
    active: float,
    size: float,
    regularizer: Any,
    domain: Any,
) -> Instance:
    """Draw u [batch, k] and a negative definite U [batch, k, k] of this condition number and largest eigenvalue."""
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), regularizer, domain)
    u = spread(active) * rng.normal(size=(batch, k))
    U = negative_definite(rng, batch, k, condition, size)
    return single(rng, problem, gfy.LinearQuadratic.Input(u=u, U=U), batch, k)


def _pairwise(regularizer: Any) -> Any:
    def build(
        rng: np.random.Generator, k: int, batch: int, rank: int, active: float, strength: float
    ) -> Instance:
        return pairwise(rng, k, batch, rank, active, strength, regularizer())

    return build


def _dense(regularizer: Any, domain: Any) -> Any:
    def build(
        rng: np.random.Generator, k: int, batch: int, condition: float, active: float, size: float
    ) -> Instance:
        return dense(rng, k, batch, condition, active, size, regularizer(), domain())

    return build


def _ranking(
    rng: np.random.Generator, k: int, batch: int, condition: float, active: float, size: float
) -> Instance:
    domain = gfy.Permutahedron(np.linspace(1.0, 0.0, k))
    return dense(rng, k, batch, condition, active, size, gfy.SquaredNorm(), domain)


LOW_RANK = {"k": 174, "batch": 64, "rank": 1, "active": 0.5, "strength": 0.5}
DENSE = {"k": 64, "batch": 32, "condition": 100.0, "active": 0.5, "size": 4.0}

FAMILIES = (
    Family("pairwise-gini", "pairwise interactions of low rank, sparse labels on a box",
           _pairwise(gfy.BinaryGini), LOW_RANK),
    Family("pairwise-shannon", "pairwise interactions of low rank, logistic labels on a box",
           _pairwise(gfy.BinaryShannon), LOW_RANK),
    Family("quadratic-gini-box", "dense interactions, sparse labels on a box",
           _dense(gfy.BinaryGini, lambda: gfy.Box(0.0, 1.0)), DENSE),
    Family("quadratic-gini-simplex", "dense interactions, one class among k, sparse",
           _dense(gfy.Gini, gfy.Simplex), DENSE),
    Family("quadratic-shannon-simplex", "dense interactions, one class among k, dense probabilities",
           _dense(gfy.Shannon, gfy.Simplex), DENSE),
    Family("pairwise-fdiv-box", "pairwise interactions of low rank, squared Hellinger distance from a prior",
           _pairwise(lambda: gfy.FDivergence("squared-hellinger", 0.25)), LOW_RANK),
    Family("quadratic-fdiv-simplex", "dense interactions, one class among k, alpha divergence from a prior",
           _dense(lambda: gfy.FDivergence("alpha", 0.1, alpha=1.5), gfy.Simplex), DENSE),
    Family("ranking-norm-permutahedron", "a ranking of k items that interact, each relaxed rank in [0, 1]",
           _ranking, DENSE),
    Family("quadratic-reals", "no constraint at all: a linear system",
           _dense(gfy.SquaredNorm, gfy.Reals), DENSE),
)  # fmt: skip
