"""`converged` at scales where rounding of the scores could leave any p: the gap is counted in fractions, exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import gfy
import solvers

K, EXAMPLES = 8, 6
UNITS = 16 * float(np.finfo(np.float64).eps)


def exactly(x: np.ndarray) -> list[Any]:
    return [Fraction(float(n)) for n in x] if x.ndim == 1 else [exactly(row) for row in x]


def gap_and_floor(u: np.ndarray, A: np.ndarray, gamma: float, p: np.ndarray) -> tuple[float, float]:
    """How far p is below the maximum at most, for gamma (p^2 - p) on [0, 1], and what rounding may cost in float64.

    The floor is that of `solvers.verdict`: scores off by d_j = 16 eps times the sum of their terms' sizes cost
    sum_j min(d_j^2 / (4 gamma), d_j), and the sums of the value cost 16 eps of their terms.
    """
    rows, c, x = exactly(A), Fraction(gamma), exactly(p)
    t = [sum(row[i] * q for row, q in zip(rows, x, strict=True)) for i in range(A.shape[1])]
    scores = [
        b - sum(a * s for a, s in zip(row, t, strict=True)) for b, row in zip(exactly(u), rows, strict=True)
    ]
    best = [min(max((g / c + 1) / 2, Fraction(0)), Fraction(1)) for g in scores]
    gap = sum(g * (q - y) - c * (q * q - q - y * y + y) for g, q, y in zip(scores, best, x, strict=True))
    sizes = np.abs(u) + gamma + np.abs(A) @ (np.abs(A).T @ p)
    off = UNITS * sizes
    floor = np.minimum(off**2 / (4 * gamma), off).sum()
    floor += UNITS * (np.abs(np.array(scores, dtype=float) * p).sum() + 4 * gamma * K)
    return float(gap), float(floor)


@pytest.mark.parametrize("gamma", [1e-2, 1e-5])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("solver", ["DualNewton", "Auto"])
def test_what_rounding_cannot_explain_is_not_called_rounding(
    solver: str, rank: int, gamma: float, rng: np.random.Generator, asarray: Callable[..., Any], tonumpy: Any
) -> None:
    u, A = rng.normal(size=(EXAMPLES, K)), 1e6 * rng.normal(size=(EXAMPLES, K, rank))
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(gamma), gfy.Box(0.0, 1.0))
    v = gfy.Pairwise.Input(asarray(u), asarray(A))
    found = getattr(solvers, solver)().solve(problem, v, None, gfy.Stop(1e-8, 300))
    happy, p = tonumpy(found.converged), tonumpy(found.p)
    if solver == "Auto":
        assert happy.all()
    for i in np.flatnonzero(happy):
        gap, floor = gap_and_floor(u[i], A[i], gamma, p[i])
        assert gap <= max(1e-6, 0.5 * floor), f"example {i}: {gap:.2g} is left, rounding explains {floor:.2g}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("domain", [gfy.Simplex(), gfy.CappedSimplex(2)], ids=lambda domain: domain.name)
@pytest.mark.parametrize("solver", ["DualNewton", "Auto"])
def test_p_stays_in_the_set_where_scores_are_large(
    solver: str, domain: Any, dtype: str, rng: np.random.Generator, asarray: Callable[..., Any], tonumpy: Any
) -> None:
    """The multiplier of the sum has no digits for gamma beside scores of 1e18: p = 0 was returned on a simplex."""
    u, A = rng.normal(size=(40, K)), 1e9 * rng.normal(size=(40, K, 4))
    A[..., 1], A[..., 2] = A[..., 0], 0.0
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.SquaredNorm(1e-3), domain)
    v = gfy.Pairwise.Input(asarray(u, dtype), asarray(A, dtype))
    p = tonumpy(getattr(solvers, solver)().solve(problem, v, None, gfy.Stop(1e-8, 100)).p).astype(float)
    assert np.abs(p.sum(-1) - domain.total).max() <= 1e-5
    assert p.min() >= -1e-5
