"""The only loop: finished examples freeze, broken ones keep their last good point, nobody waits for ever."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from solvers.loop import run


class _State(NamedTuple):
    p: Any
    error: Any


class Countdown:
    """Halves p towards 0 and turns an example into NaN once its p is below a poison level given by v."""

    name = "Countdown"

    def unsupported(self, problem: Any) -> None:
        return None

    def init(self, problem: Any, v: Any, p0: Any) -> _State:
        p = problem.initial_point(v, p0)
        return _State(p, p.sum(-1))

    def step(self, problem: Any, v: Any, state: _State) -> _State:
        p = state.p / 2
        p = p + (p.sum(-1)[..., None] < v.v[..., :1]) * float("nan")
        poisoned = gfy.backend_of(v).xp.where(
            p.sum(-1)[..., None] < v.v[..., :1], p * float("nan"), state.p / 2
        )
        return _State(poisoned, poisoned.sum(-1))


PROBLEM = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))


def test_each_example_has_its_own_end(backend: str) -> None:
    v = problems.place(gfy.Bilinear.Input(np.full((3, 2), -10.0)), backend)  # p* = 0
    p0 = problems.place(np.array([[0.5, 0.5], [1e-9, 1e-9], [0.001, 0.001]]), backend)
    found = run(Countdown(), PROBLEM, v, p0, gfy.Stop(tol=1e-3, max_steps=50))
    steps = np.asarray(gfy.get_backend(backend).to_numpy(found.steps))
    assert steps.tolist() == [10, 0, 1]
    assert bool(found.converged.all())
    assert float(found.p[1, 0]) == 1e-9, "a finished example must not move"


def test_nan_keeps_the_last_good_point(backend: str) -> None:
    level = np.array([[-10.0, -10.0], [0.2, 0.0]])  # p* = 0 in the first example
    v = problems.place(gfy.Bilinear.Input(level), backend)
    p0 = problems.place(np.full((2, 2), 0.5), backend)

    class Poison(Countdown):
        def step(self, problem: Any, v: Any, state: _State) -> _State:
            half = state.p / 2
            bad = half.sum(-1)[..., None] < v.v[..., :1]
            p = gfy.backend_of(v).xp.where(bad, half * float("nan"), half)
            return _State(p, p.sum(-1))

    found = run(Poison(), PROBLEM, v, p0, gfy.Stop(tol=1e-3, max_steps=50))
    library = gfy.get_backend(backend)
    assert library.to_numpy(found.converged).tolist() == [True, False]
    assert np.isfinite(library.to_numpy(found.p)).all()
    assert float(found.p[1].sum()) >= 0.2


def test_stops_at_the_last_step(backend: str) -> None:
    v = problems.place(gfy.Bilinear.Input(np.zeros((1, 2))), backend)
    p0 = problems.place(np.full((1, 2), 0.5), backend)
    found = run(Countdown(), PROBLEM, v, p0, gfy.Stop(tol=0.0, max_steps=7))
    assert int(found.steps[0]) == 7
    assert not bool(found.converged[0])


@pytest.mark.parametrize(
    "solver",
    [
        solvers.ProjectedGradient(),
        solvers.DualNewton(),
        solvers.CoordinateAscent(),
        solvers.ProjectedNewton(),
    ],
    ids=lambda s: s.name,
)
def test_nan_inputs_give_a_finite_feasible_point(solver: Any) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = problems.pairwise(rng, 3, 4, 1)
    v.u[1, 2] = np.nan
    found = solver.solve(problem, problems.place(v, "torch"))
    assert found.converged.tolist() == [True, False, True]
    assert np.isfinite(found.p.numpy()).all()
    assert (gfy.Box(0.0, 1.0).violation(found.p).numpy() == 0).all()


def test_solve_can_be_mapped_over_one_more_axis(rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = problems.place(problems.pairwise(rng, 6, 5, 1), "jax")
    whole = solvers.DualNewton().solve(problem, v).p
    stacked = jax.tree_util.tree_map(lambda x: x.reshape(2, 3, *x.shape[1:]), v)
    mapped = jax.vmap(lambda w: solvers.DualNewton().solve(problem, w).p)(stacked)
    np.testing.assert_allclose(np.asarray(mapped).reshape(6, 5), np.asarray(whole), atol=1e-9)
