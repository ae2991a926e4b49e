"""Peers that are layers of their own: right answers against closed forms and enumeration, or a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import get_backend, tree_map

K, BATCH = 5, 3
STOP = gfy.Stop(tol=1e-10, max_steps=5_000)


def sparsemax(theta: np.ndarray) -> np.ndarray:
    """The projection of theta [k] onto the simplex, by sorting."""
    ordered = np.sort(theta)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(theta) + 1)
    last = np.nonzero(ordered > excess)[0][-1]
    return np.maximum(theta - excess[last], 0.0)


def best_of_a_grid(u: np.ndarray, U: np.ndarray, c: float) -> float:
    """max <u, p> + <p, U p> / 2 - c <p, p> / 2 + c sum(p) / 2 on a box, by coordinate maximisation from many starts."""
    rng, best = np.random.default_rng(0), -np.inf
    H, g = c * np.eye(len(u)) - U, u + c / 2
    for _ in range(5):
        p = rng.uniform(size=len(u))
        for _ in range(400):
            for i in range(len(u)):
                p[i] = np.clip(p[i] + (g - H @ p)[i] / H[i, i], 0, 1)
        best = max(best, g @ p - 0.5 * p @ H @ p)
    return float(best)


def solve(name: str, problem: Any, v: Any, backend: str) -> tuple[np.ndarray, Any]:
    solver = getattr(solvers, name)()
    reason = solver.unsupported(problem)
    if reason is not None and "not installed" in reason:
        pytest.skip(reason)
    assert reason is None
    ops = get_backend(backend)
    found = solver.solve(problem, tree_map(lambda x: ops.asarray(np.array(x)), v), None, STOP)
    return np.asarray(ops.to_numpy(found.p)), found


@pytest.mark.parametrize("name", ["PyepoFrankWolfe", "CvxpyLayers"])
def test_sparsemax(name: str, backend: str) -> None:
    theta = np.random.default_rng(3).normal(size=(BATCH, K))
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
    p, _ = solve(name, problem, gfy.Bilinear.Input(theta), backend)
    expected = np.stack([sparsemax(t / problem.regularizer.curvature) for t in theta])
    np.testing.assert_allclose(p, expected, atol=1e-4)
    assert np.sum(p, -1) == pytest.approx(1.0)
    assert (p >= 0).all()


def test_frank_wolfe_on_a_matching() -> None:
    pytest.importorskip("torch")
    u = np.random.default_rng(4).normal(size=(2, 9))
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Birkhoff())
    p, _ = solve("PyepoFrankWolfe", problem, gfy.Bilinear.Input(u), "torch")
    assert (gfy.certify(problem, gfy.Bilinear.Input(u), p).gap < 1e-6).all()


def test_a_layer_of_a_quadratic_model() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    u, root = rng.normal(size=(BATCH, K)), rng.normal(size=(BATCH, K, K)) / 2
    U = -root @ np.swapaxes(root, -1, -2)
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(0.8), gfy.Box(0.0, 1.0))
    p, found = solve("CvxpyLayers", problem, gfy.LinearQuadratic.Input(u, U), "torch")
    for n in range(BATCH):
        value = u[n] @ p[n] + 0.5 * p[n] @ U[n] @ p[n] - 0.4 * p[n] @ p[n] + 0.4 * p[n].sum()
        assert value == pytest.approx(best_of_a_grid(u[n], U[n], 0.8), abs=1e-7)
    assert bool(np.asarray(found.converged).all())


@pytest.mark.parametrize(
    ("name", "problem", "words"),
    [
        ("PyepoFrankWolfe", gfy.InnerProblem(gfy.Pairwise(), gfy.Gini(), gfy.Simplex()), "linear"),
        ("PyepoFrankWolfe", gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex()), "squared norm"),
        ("PyepoFrankWolfe", gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Ball()), "polytope"),
    ],
)
def test_what_is_not_served_is_refused(name: str, problem: Any, words: str) -> None:
    reason = getattr(solvers, name)().unsupported(problem)
    assert reason is not None
    assert words in reason or "not installed" in reason


def test_an_unknown_engine_of_a_layer_is_named() -> None:
    with pytest.raises(gfy.GfyError, match="DIFFCP"):
        solvers.CvxpyLayers(solver="ECOS")
