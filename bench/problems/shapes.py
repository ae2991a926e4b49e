"""Define sets with many vertices or few: matchings, hulls of given points; metrics; an energy of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance, negative_definite, single, spread


def matching(rng: np.random.Generator, k: int, batch: int, size: float) -> Instance:
    """Draw scores of an n x n matching, k = n n, with a weak dense interaction."""
    n = round(np.sqrt(k))
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), gfy.Birkhoff())
    u = rng.normal(size=(batch, n * n))
    U = negative_definite(rng, 1, n * n, 100.0, size)[0]
    return single(rng, problem, gfy.LinearQuadratic.Input(u=u, U=U), batch, n * n)


def hull(rng: np.random.Generator, k: int, batch: int, points: int, size: float) -> Instance:
    """Draw p in the convex hull of `points` given corners (marginals of structured outputs are of this kind)."""
    corners = rng.integers(0, 2, size=(points, k)).astype(np.float64)
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), gfy.ConvexHull(corners))
    u = rng.normal(size=(batch, k))
    U = negative_definite(rng, 1, k, 10.0, size)[0]
    return single(rng, problem, gfy.LinearQuadratic.Input(u=u, U=U), batch, k)


def metric(rng: np.random.Generator, k: int, batch: int) -> Instance:
    """Draw -|v - p| with v inside the box: p* is v itself where Omega is flat enough."""
    problem = gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(0.1), gfy.Box(0.0, 1.0))
    return single(rng, problem, gfy.Metric.Input(rng.uniform(size=(batch, k))), batch, k)


def quartic(v: Any, p: Any) -> Any:
    """Compute a user's own concave energy, written for either framework: <v, p> - |p - 1/2|^4."""
    apart = p - 0.5
    square = (apart * apart).sum(-1)
    return (v * p).sum(-1) - square * square


def custom(rng: np.random.Generator, k: int, batch: int, active: float) -> Instance:
    """Use the function above through CustomEnergy: the solvers know nothing but its values."""
    problem = gfy.InnerProblem(gfy.CustomEnergy(quartic), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = gfy.CustomEnergy.Input(spread(active) * rng.normal(size=(batch, k)))
    return single(rng, problem, v, batch, k)


FAMILIES = (
    Family("quadratic-norm-birkhoff", "a relaxed matching (doubly stochastic matrices)", matching,
           {"k": 36, "batch": 16, "size": 1.0}),
    Family("quadratic-norm-hull", "the convex hull of given points", hull,
           {"k": 20, "batch": 16, "points": 40, "size": 1.0}),
    Family("metric-norm", "a metric energy, with a kink at the solution", metric, {"k": 20, "batch": 32}),
    Family("custom-gini", "an energy given by a function of one's own", custom,
           {"k": 50, "batch": 64, "active": 0.5}),
)  # fmt: skip
