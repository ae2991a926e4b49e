"""The peers behind their adapters give the right answer too: otherwise a race against them means nothing."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers

STOP = gfy.Stop(tol=1e-9, max_steps=3000)


@pytest.mark.parametrize("name", ["JaxoptBoxCDQP", "JaxoptBoxOSQP", "JaxoptProjectedGradient"])
def test_jaxopt_is_certified(name: str, rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("jaxopt")
    problem, v = problems.catalogue(rng)["dense-gini-box"]
    v = problems.place(v, "jax")
    solver = getattr(solvers, name)()
    found = jax.jit(lambda w: solver.solve(problem, w, stop=STOP))(v)
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-7


def test_jaxopt_gradient_with_weights_shared_by_the_batch(rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("jaxopt")
    problem, v = problems.catalogue(rng)["shared-gini-simplex"]
    v = problems.place(v, "jax")
    found = jax.jit(lambda w: solvers.JaxoptProjectedGradient().solve(problem, w, stop=STOP))(v)
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-7


@pytest.mark.parametrize("name", ["rank1-gini-box", "rank1-shannon-box", "spen-softplus-gini-box"])
def test_lbfgsb_is_certified(name: str, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("scipy")
    problem, v = problems.catalogue(rng)[name]
    v = problems.place(v, "torch")
    found = solvers.ScipyLBFGSB().solve(problem, v, stop=STOP)
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-8


@pytest.mark.parametrize("name", ["rank2-gini-box", "shared-gini-simplex"])
def test_proxsuite_is_certified(name: str, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("proxsuite")
    problem, v = problems.catalogue(rng)[name]
    v = problems.place(v, "torch")
    found = solvers.Proxsuite().solve(problem, v, stop=STOP)
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-7


def test_refusals_are_sentences() -> None:
    entropy = gfy.InnerProblem(gfy.Pairwise(), gfy.Shannon(), gfy.Simplex())
    for name in ("JaxoptBoxCDQP", "JaxoptBoxOSQP", "ScipyLBFGSB", "Proxsuite"):
        reason = getattr(solvers, name)().unsupported(entropy)
        assert reason is not None
        assert len(reason.split()) >= 4
