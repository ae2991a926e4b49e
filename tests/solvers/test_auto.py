"""Auto picks by what the problem provides, says why, and is what `gfy` uses where no solver is named."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from gfy.protocols import default_solver


@pytest.mark.parametrize(
    ("name", "picked"),
    [
        ("bilinear-shannon-simplex", "ClosedForm"),
        ("rank2-norm-reals", "ClosedForm"),
        ("rank1-gini-box", "DualNewton"),
        ("spen-relu-gini-box", "DualNewton"),
        ("dense-norm-hull", "ProjectedGradient"),
    ],
)
def test_picks_and_says_why(name: str, picked: str, rng: np.random.Generator) -> None:
    problem, v = problems.catalogue(rng)[name]
    choice = solvers.Auto().choose(problem, v)
    assert choice.solver.name == picked
    assert len(choice.reason.split()) >= 4


def test_is_the_default() -> None:
    assert default_solver().name == "Auto"


def test_a_metric_in_and_out_of_the_set(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(0.1), gfy.Box(0.0, 1.0))
    v = torch.as_tensor(np.array([[0.2, 0.7, 0.4], [0.2, 1.9, -0.6]]))
    found = solvers.Auto().solve(problem, gfy.Metric.Input(v), stop=gfy.Stop(1e-9, 2000))
    assert torch.allclose(found.p[0], v[0])
    assert bool(found.converged[0])
    outside = gfy.Metric.Input(v[1:])
    assert gfy.certify(problem, outside, found.p[1:]).gap.max() <= 1e-8


def test_global_reference_beats_one_start(rng: np.random.Generator) -> None:
    """SPENs have many local maxima: the reference is at least as high as any single local solve."""
    pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Spen("softplus"), gfy.BinaryGini(0.05), gfy.Box(0.0, 1.0))
    v = problems.spen(rng, 5, 4)
    v = problems.place(gfy.Spen.Input(0.2 * v.u, 3 * v.W1, v.b1, -3 * np.abs(v.W2), v.b2), "torch")
    stop = gfy.Stop(1e-8, 400)
    reference = solvers.MultiStart(starts=4)
    assert reference.exhaustive(problem, 4)
    assert "lower bound" in reference.says
    best = problem.value(v, reference.solve(problem, v, stop=stop).p)
    single = problem.value(v, solvers.ProjectedGradient().solve(problem, v, stop=stop).p)
    assert bool((best >= single - 1e-9).all())
    assert bool((best > single + 1e-3).any()), "choose data with several basins"
