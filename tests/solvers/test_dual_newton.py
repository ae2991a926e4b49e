"""The scalar dual equation is piecewise: a bare Newton step cycles there. Many small problems, all certified."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from solvers.dual import one

BOX = gfy.Box(0.0, 1.0)


@pytest.mark.parametrize("k", range(1, 9))
def test_never_cycles(k: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(k)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    v = problems.place(problems.pairwise(rng, 400, k, 1, scale=3.0), "torch")
    found = solvers.DualNewton().solve(problem, v, stop=gfy.Stop(1e-10, 60))
    assert bool(found.converged.all())
    assert int(found.steps.max()) <= 20
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-12
    assert isinstance(found.p, torch.Tensor)


def test_a_bare_newton_step_would_cycle() -> None:
    """The safeguard is needed: without it this very problem has two points that map to each other."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    v = problems.pairwise(rng, 4000, 6, 1, scale=3.0)
    u, a = v.u, v.A[..., 0]
    t = np.zeros(len(u))
    for _ in range(60):
        theta = u - a * t[:, None]
        p = np.clip((theta + 1) / 2, 0, 1)
        inside = (theta > -1) & (theta < 1)
        F = t - (a * p).sum(-1)
        t = t - F / (1 + (a * a * inside / 2).sum(-1))
    stuck = np.abs(F) > 1e-3
    assert stuck.any(), "the trap is gone: choose other data"
    arrays = problems.place(gfy.Pairwise.Input(u[stuck], v.A[stuck]), "torch")
    found = solvers.DualNewton().solve(problem, arrays)
    assert problems.relative_gap(problem, arrays, found.p).max() <= 1e-12


def test_bracket_holds_the_root(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryShannon(0.3), BOX)
    v = problems.place(problems.pairwise(rng, 50, 4, 1), "torch")
    found = solvers.DualNewton().solve(problem, v, stop=gfy.Stop(1e-13, 100))
    root = (v.A[..., 0] * found.p).sum(-1)
    given = one.parts(problem, v)
    state = one.start(given, None)
    for _ in range(6):
        state = one.step(problem, given, state)
        slack = 1e-9 * (1 + root.abs())
        assert bool(torch.all((state.low <= root + slack) & (root <= state.high + slack)))


def test_warm_start_needs_one_look(rng: np.random.Generator, backend: str) -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    v = problems.place(problems.pairwise(rng, 5, 11, 1), backend)
    cold = solvers.DualNewton().solve(problem, v)
    warm = solvers.DualNewton().solve(problem, v, p0=cold.p)
    assert int(warm.steps.max()) <= 2


def test_a_million_labels_a_piece_at_a_time(rng: np.random.Generator, backend: str) -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = problems.place(problems.pairwise(rng, 1, 600_001, 1), backend)
    found = solvers.DualNewton().solve(problem, v, stop=gfy.Stop(1e-6))
    assert bool(found.converged.all())
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-12


def test_single_precision_stops_where_rounding_does(rng: np.random.Generator, backend: str) -> None:
    """A tolerance out of reach ends with the bracket, not with max_steps."""
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    ops = gfy.get_backend(backend)
    double = problems.pairwise(rng, 256, 174, 1)
    v = type(double)(*(ops.asarray(np.asarray(x), dtype="float32") for x in double))
    found = solvers.DualNewton().solve(problem, v, stop=gfy.Stop(tol=0.0, max_steps=5_000))
    assert int(found.steps.max()) < 100
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-6


def test_says_why_not() -> None:
    solver = solvers.DualNewton()
    dense = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(), gfy.Simplex())
    assert "low-rank" in str(solver.unsupported(dense))
    zero = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), BOX)
    assert "not differentiable" in str(solver.unsupported(zero))
    with pytest.raises(gfy.UnsupportedError, match="low-rank"):
        solver.solve(dense, problems.place(problems.quadratic(np.random.default_rng(0), 2, 3), "torch"))
