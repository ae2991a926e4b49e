"""Define energies with a prior network on p, its weights shared by the batch: SPENs and input-convex networks."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance, single, spread


def _spen(energy: Any, regularizer: Any, activation: str = "relu") -> Any:
    def build(
        rng: np.random.Generator, k: int, batch: int, hidden: int, active: float, strength: float
    ) -> Instance:
        problem = gfy.InnerProblem(energy(activation), regularizer(), gfy.Box(0.0, 1.0))
        v = energy.Input(
            u=spread(active) * rng.normal(size=(batch, k)),
            W1=rng.normal(size=(hidden, k)) / np.sqrt(k),
            b1=0.5 * rng.normal(size=hidden),
            W2=strength * rng.normal(size=hidden),
            b2=np.asarray(0.1 * rng.normal()),
        )
        return single(rng, problem, v, batch, k)

    return build


def input_convex(rng: np.random.Generator, k: int, batch: int, hidden: int, active: float) -> Instance:
    """Draw two hidden layers of `hidden` and hidden // 2 softplus units, convex in p."""
    second = max(1, hidden // 2)
    problem = gfy.InnerProblem(gfy.InputConvexNetwork(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = gfy.InputConvexNetwork.Input(
        u=spread(active) * rng.normal(size=(batch, k)),
        W0=rng.normal(size=(hidden, k)) / np.sqrt(k),
        b0=0.5 * rng.normal(size=hidden),
        Wz=rng.normal(size=(second, hidden)) - 2.0,
        Wp=rng.normal(size=(second, k)) / np.sqrt(k),
        b1=0.5 * rng.normal(size=second),
        wz=rng.normal(size=second),
    )
    return single(rng, problem, v, batch, k)


PRIOR = {"k": 50, "batch": 64, "hidden": 16, "active": 0.5, "strength": 1.0}

FAMILIES = (
    Family("concave-spen-gini", "an input-concave SPEN with kinks",
           _spen(gfy.ConcaveSpen, gfy.BinaryGini), PRIOR),
    Family("smooth-spen-gini", "an input-concave SPEN with a softplus prior",
           _spen(gfy.ConcaveSpen, gfy.BinaryGini, "softplus"), PRIOR),
    Family("spen-gini", "a SPEN, not concave: only stationarity is certified",
           _spen(gfy.Spen, gfy.BinaryGini), PRIOR),
    Family("input-convex-gini", "an input-convex network of two layers", input_convex,
           {"k": 50, "batch": 64, "hidden": 16, "active": 0.5}),
)  # fmt: skip
