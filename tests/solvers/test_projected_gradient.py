"""Projected gradients: step rules, energies that are not concave, kinks, differentiable steps."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers

BOX = gfy.Box(0.0, 1.0)


def test_acceleration_pays(rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    root = rng.normal(size=(2, 30, 30))
    U = -(root @ np.swapaxes(root, -1, -2)) * 3
    v = problems.place(gfy.LinearQuadratic.Input(5 * rng.normal(size=(2, 30)), U), "torch")
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    steps = {
        rule: int(solvers.ProjectedGradient(rule).solve(problem, v, stop=gfy.Stop(1e-7, 5000)).steps.max())
        for rule in ("accelerated", "backtracking", "spectral")
    }
    assert steps["accelerated"] < 0.6 * steps["backtracking"]
    assert steps["spectral"] < 0.6 * steps["backtracking"]


def test_non_concave_energies_reach_a_stationary_point(rng: np.random.Generator, backend: str) -> None:
    problem = gfy.InnerProblem(gfy.Spen("softplus"), gfy.BinaryGini(0.2), BOX)
    v = problems.spen(rng, 4, 6)
    v = problems.place(gfy.Spen.Input(v.u, 2 * v.W1, v.b1, 3 * v.W2, v.b2), backend)
    found = solvers.ProjectedGradient().solve(problem, v, stop=gfy.Stop(1e-9, 3000))
    assert bool(found.converged.all())
    certificate = gfy.certify(problem, v, found.p)
    assert certificate.residual.max() <= 1e-7
    assert not certificate.concave


def test_stalling_at_a_kink_is_not_convergence(rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.ConcaveSpen("relu"), gfy.BinaryGini(), BOX)
    v = problems.place(problems.spen(rng, 20, 5, 6), "torch")
    found = solvers.ProjectedGradient().solve(problem, v, stop=gfy.Stop(1e-8, 2000))
    gap = problems.relative_gap(problem, v, found.p)
    assert (gap[found.converged.numpy()] <= 1e-8).all()
    assert np.isfinite(found.p.numpy()).all()


@pytest.mark.parametrize("name", ["dense-gini-box", "rank1-shannon-box"])
def test_unrolled_steps_carry_the_derivative(name: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    problem, v = problems.catalogue(rng, batch=2, k=4)[name]
    v = problems.place(v, "torch")
    weight = torch.as_tensor(rng.normal(size=4))
    grads = []
    for mode in (gfy.Unrolled(steps=150), gfy.Implicit()):
        u = v.u.clone().requires_grad_()
        p = gfy.argmax(problem, v._replace(u=u), solver=solvers.ProjectedGradient(), gradient=mode)
        grads.append(torch.autograd.grad((p * weight).sum(), u)[0])
    assert float((grads[0] - grads[1]).abs().max()) <= 1e-6


def test_warm_start_takes_fewer_steps(rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    problem, v = problems.catalogue(rng)["dense-norm-capped"]
    v = problems.place(v, "torch")
    cold = solvers.ProjectedGradient().solve(problem, v)
    warm = solvers.ProjectedGradient().solve(problem, v, p0=cold.p)
    assert int(warm.steps.max()) < int(cold.steps.max())


def test_refuses_an_unbounded_problem() -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), gfy.Reals())
    assert "infinite" in str(solvers.ProjectedGradient().unsupported(problem))
    with pytest.raises(gfy.GfyValueError, match="accelerated"):
        solvers.ProjectedGradient("heavy ball")
