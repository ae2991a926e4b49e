"""Retrieve stored patterns from noisy ones with sparse and dense associative memories, in torch and in JAX.

The same code serves both frameworks. From any point within a pattern's retrieval radius, sparse weights (Gini, Tsallis)
return the pattern to the last digit in one update; softmax weights (attention) add a small part of every other pattern.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np
import torch

import gfy

jax.config.update("jax_enable_x64", True)
QUERIES = 20 if os.environ.get("GFY_QUICK") == "1" else 200
PATTERNS, SIZE, BETA = 12, 64, 0.25
ASSOCIATIONS = {"softmax": gfy.Shannon(), "1.5-entmax": gfy.Tsallis(1.5), "sparsemax": gfy.Gini()}


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(PATTERNS, SIZE))
    chosen = rng.integers(PATTERNS, size=QUERIES)
    flips = rng.uniform(size=(QUERIES, SIZE)) < 0.1
    query = np.where(flips, -X[chosen], X[chosen])
    frameworks: dict[str, Any] = {"torch": torch.as_tensor, "jax": jax.numpy.asarray}
    for framework, array in frameworks.items():
        for name, psi in ASSOCIATIONS.items():
            energy = gfy.Hopfield(psi, beta=BETA)
            problem = gfy.InnerProblem(energy, gfy.SquaredNorm(), gfy.Reals())
            v = gfy.Hopfield.Input(u=array(np.zeros_like(query)), X=array(X))
            found = np.asarray(gfy.retrieve(problem, v, array(query)).p)
            exact = (found == X[chosen]).all(-1).mean()
            radius = np.asarray(energy.retrieval_radius(v)).min()
            right = ((found > 0) == (X[chosen] > 0)).all(-1).mean()
            sure = f"certain within a radius of {radius:.2f}" if np.isfinite(radius) else "never certain"
            print(
                f"{framework:5s} {name:10s} one update: {right:4.0%} of the queries have all signs right, "
                f"{exact:4.0%} are the pattern to the last digit; {sure}"
            )


if __name__ == "__main__":
    main()
