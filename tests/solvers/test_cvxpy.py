"""CVXPY, written from the formulas alone, checks every solver, and the certificate's promise to be a bound."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from solvers.peers.cvxpy_model import Model

pytest.importorskip("cvxpy")
pytest.importorskip("torch")


@pytest.mark.parametrize("name", problems.NAMES)
def test_agrees_with_auto(name: str, rng: np.random.Generator) -> None:
    problem, v = problems.catalogue(rng, batch=2, k=4)[name]
    v = problems.place(v, "torch")
    reference = solvers.CvxpyReference().solve(problem, v)
    assert bool(reference.converged.all()), reference.error
    ours = solvers.Auto().solve(problem, v, stop=gfy.Stop(1e-10, 3000))
    assert float((problem.value(v, ours.p) - problem.value(v, reference.p)).abs().max()) <= 1e-8
    assert float((ours.p - reference.p).abs().max()) <= 1e-4


@pytest.mark.parametrize(
    "name",
    ["rank2-gini-box", "dense-shannon-box", "shared-gini-simplex", "icnn-gini-box", "spen-relu-gini-box"],
)
def test_the_certificate_bounds_the_suboptimality(name: str, rng: np.random.Generator) -> None:
    problem, v = problems.catalogue(rng, batch=3, k=5)[name]
    v = problems.place(v, "torch")
    best = problem.value(v, solvers.CvxpyReference().solve(problem, v).p)
    for scale in (1.0, 0.1, 1e-3):
        p = problem.domain.project(problems.place(scale * rng.normal(size=(3, 5)) + 0.4, "torch"))
        certificate = gfy.certify(problem, v, p)
        short = (best - problem.value(v, p)).numpy()
        assert (certificate.gap >= short - 1e-8).all()


def test_models_are_parametrised_once(rng: np.random.Generator) -> None:
    for name in ("rank2-gini-box", "dense-norm-hull", "icnn-gini-box", "spen-softplus-gini-box"):
        problem, v = problems.catalogue(rng, batch=1, k=4)[name]
        from solvers.peers.host import example

        assert Model(problem, example(problem, v, (0,))).model.is_dcp(dpp=True), name


@pytest.mark.parametrize("solver", ["OSQP", "SCS"])
def test_other_solvers_can_be_chosen(solver: str, rng: np.random.Generator) -> None:
    problem, v = problems.catalogue(rng, batch=2, k=4)["dense-gini-box"]
    v = problems.place(v, "torch")
    found = solvers.CvxpyReference(solver=solver).solve(problem, v)
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-9


def test_works_inside_jit(rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax")
    problem, v = problems.catalogue(rng, batch=2, k=4)["rank1-gini-box"]
    v = problems.place(v, "jax")
    p = jax.jit(lambda w: solvers.CvxpyReference().solve(problem, w).p)(v)
    assert problems.relative_gap(problem, v, p).max() <= 1e-10


def test_refuses_what_is_not_convex() -> None:
    reference = solvers.CvxpyReference()
    spen = gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    assert "not known to be concave" in str(reference.unsupported(spen))
    custom = gfy.InnerProblem(
        gfy.CustomEnergy(lambda v, p: (v * p).sum(-1), concave=True), gfy.Gini(), gfy.Simplex()
    )
    assert "CVXPY cannot look inside it" in str(reference.unsupported(custom))
    entropy = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryShannon(), gfy.Box(0.0, 1.0))
    assert "quadratic" in str(solvers.CvxpyReference(solver="OSQP").unsupported(entropy))
    with pytest.raises(gfy.GfyValueError, match="CLARABEL"):
        solvers.CvxpyReference(solver="GUROBI")
