"""Define energies linear in p: linear models, rectifier, maxout and log-sum-exp networks, Gibbs distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance, single, spread


def _bilinear(regularizer: Any, domain: Any) -> Any:
    def build(rng: np.random.Generator, k: int, batch: int, active: float) -> Instance:
        problem = gfy.InnerProblem(gfy.Bilinear(), regularizer(), domain(k))
        v = gfy.Bilinear.Input(spread(active) * rng.normal(size=(batch, k)))
        return single(rng, problem, v, batch, k)

    return build


def _divergence(f: str, domain: Any, alpha: float | None = None) -> Any:
    def build(rng: np.random.Generator, k: int, batch: int, active: float) -> Instance:
        """Draw v [batch, k] beside a prior of sum 1 that decreases from the first coordinate to the last."""
        prior = 1.0 / np.arange(1.0, k + 1.0)
        regularizer = gfy.FDivergence(f, prior / prior.sum(), alpha=alpha)
        problem = gfy.InnerProblem(gfy.Bilinear(), regularizer, domain(k))
        v = gfy.Bilinear.Input(spread(active) * rng.normal(size=(batch, k)))
        return single(rng, problem, v, batch, k)

    return build


def rectifier(rng: np.random.Generator, k: int, batch: int, hidden: int, active: float) -> Instance:
    """Draw v [batch, hidden], which passes a relu and a fixed non-negative mixing matrix U [hidden, k]."""
    U = rng.uniform(size=(hidden, k)) / np.sqrt(hidden)
    problem = gfy.InnerProblem(gfy.Rectifier(U), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = gfy.Rectifier.Input(spread(active) * rng.normal(size=(batch, hidden)))
    return single(rng, problem, v, batch, k)


def _scalar(energy: Any) -> Any:
    def build(rng: np.random.Generator, k: int, batch: int, hidden: int) -> Instance:
        """Draw problems with p [batch, 1]: one yes or no, decided by the largest of `hidden` pieces."""
        problem = gfy.InnerProblem(energy(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        return single(rng, problem, energy.Input(rng.normal(size=(batch, hidden))), batch, 1)

    return build


def probabilistic(rng: np.random.Generator, k: int, batch: int) -> Instance:
    """Draw E(v, y) [batch, k] for k outputs y; with Shannon p* is the Gibbs distribution."""
    problem = gfy.InnerProblem(gfy.Probabilistic(), gfy.Shannon(), gfy.Simplex())
    return single(rng, problem, gfy.Probabilistic.Input(2.0 * rng.normal(size=(batch, k))), batch, k)


LINEAR = {"k": 100, "batch": 64, "active": 0.5}
SCALAR = {"k": 1, "batch": 256, "hidden": 8}

FAMILIES = (
    Family("linear-gini-simplex", "sparsemax", _bilinear(gfy.Gini, lambda k: gfy.Simplex()), LINEAR),
    Family("linear-shannon-simplex", "softmax", _bilinear(gfy.Shannon, lambda k: gfy.Simplex()), LINEAR),
    Family("linear-tsallis-simplex", "entmax 1.5",
           _bilinear(lambda: gfy.Tsallis(1.5), lambda k: gfy.Simplex()), LINEAR),
    Family("linear-gini-capped", "the k/10 best of k, relaxed",
           _bilinear(gfy.Gini, lambda k: gfy.CappedSimplex(max(1, k // 10))), LINEAR),
    Family("linear-fdiv-simplex", "Jensen-Shannon's divergence from a prior, one class",
           _divergence("jensen-shannon", lambda k: gfy.Simplex()), LINEAR),
    Family("linear-fdiv-capped", "the alpha divergence from a prior, the k/10 best of k, relaxed",
           _divergence("alpha", lambda k: gfy.CappedSimplex(max(1, k // 10)), 1.5), LINEAR),
    Family("linear-norm-ball", "a direction, inside the unit ball",
           _bilinear(gfy.SquaredNorm, lambda k: gfy.Ball()), LINEAR),
    Family("ranking-shannon-permutahedron", "a ranking of k items from one score each, entropic",
           _bilinear(gfy.Shannon, lambda k: gfy.Permutahedron(np.linspace(1.0, 0.0, k))), LINEAR),
    Family("ranking-norm-birkhoff", "a ranking of 8 items from a score per item and place",
           _bilinear(gfy.SquaredNorm, lambda k: gfy.Birkhoff()), {**LINEAR, "k": 64}),
    Family("rectifier-gini", "a rectifier network, labels on a box", rectifier,
           {"k": 50, "batch": 64, "hidden": 20, "active": 0.5}),
    Family("maxout-gini", "a maxout network, one label", _scalar(gfy.Maxout), SCALAR),
    Family("logsumexp-gini", "a log-sum-exp network, one label", _scalar(gfy.LogSumExp), SCALAR),
    Family("probabilistic-shannon", "a Gibbs distribution over k outputs", probabilistic,
           {"k": 200, "batch": 64}),
)  # fmt: skip
