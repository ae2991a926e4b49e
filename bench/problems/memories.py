"""Define associative memories: patterns of signs and noisy queries, with an energy that is convex in p."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance


def _memory(association: Any) -> Any:
    def build(
        rng: np.random.Generator, k: int, batch: int, patterns: int, beta: float, flips: float, pull: float
    ) -> Instance:
        """Draw queries, each a stored pattern with a share of its signs flipped; the pattern is the target."""
        X = rng.choice([-1.0, 1.0], size=(patterns, k)) / np.sqrt(k)
        chosen = X[rng.integers(patterns, size=batch)]
        query = np.where(rng.uniform(size=(batch, k)) < flips, -chosen, chosen)
        bound = 1.0 / np.sqrt(k)
        problem = gfy.InnerProblem(gfy.Hopfield(association, beta), gfy.SquaredNorm(), gfy.Box(-bound, bound))
        return Instance(problem, (gfy.Hopfield.Input(u=pull * query, X=X),), chosen)

    return build


SIZES = {"k": 50, "batch": 64, "patterns": 12, "beta": 8.0, "flips": 0.1, "pull": 0.5}

FAMILIES = (
    Family("hopfield-gini", "an associative memory with sparse weights: convex in p, only stationarity is certified",
           _memory(gfy.Gini()), SIZES),
    Family("hopfield-shannon", "an associative memory with softmax weights (attention): convex in p",
           _memory(gfy.Shannon()), SIZES),
)  # fmt: skip
