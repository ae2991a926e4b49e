"""An amortised solve is right whatever is proposed, says what the certificate says, and a fitted proposal helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import get_backend, tree_map
from gfy.errors import GfyTypeError, GfyValueError, UnsupportedError
from solvers import conformance
from solvers.amortised import Proposal, ProposalLearner

optimize = pytest.importorskip("scipy.optimize")
BOX = gfy.Box(0.0, 1.0)
PROBLEM = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryShannon(0.5), BOX)
STOP = gfy.Stop(1e-8, 500)


def inputs(seed: int, batch: int = 6, k: int = 5, rank: int = 2, size: float = 1.5) -> Any:
    rng = np.random.default_rng(seed)
    return gfy.Pairwise.Input(2 * rng.normal(size=(batch, k)), size * rng.normal(size=(batch, k, rank)))


def place(backend: str, v: Any) -> Any:
    return tree_map(lambda x: get_backend(backend).asarray(np.array(x), dtype="float64"), v)


def reference(v: Any, gamma: float = 0.5) -> np.ndarray:
    """p* by SciPy, from the formulas alone: <u, p> - |A^T p|^2 / 2 - gamma (p log p + (1 - p) log(1 - p))."""
    found = []
    for u, A in zip(v.u, v.A, strict=True):

        def loss(t: np.ndarray, u: np.ndarray = u, A: np.ndarray = A) -> tuple[float, np.ndarray]:
            p = 1 / (1 + np.exp(-t))
            entropy = p * np.log(p) + (1 - p) * np.log1p(-p)
            slope = u - A @ (A.T @ p) - gamma * t
            value = u @ p - 0.5 * ((A.T @ p) ** 2).sum() - gamma * entropy.sum()
            return -value, -slope * p * (1 - p)

        end = optimize.minimize(
            loss, np.zeros(len(u)), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 2000}
        )
        found.append(1 / (1 + np.exp(-end.x)))
    return np.array(found)


@dataclass(frozen=True)
class Forbidden:
    """A solver that must not be asked."""

    name: str = "Forbidden"

    def unsupported(self, problem: Any) -> str | None:
        return None

    def solve(self, *given: Any) -> gfy.Solution:
        raise AssertionError("the fallback was asked although every example was certified")


@dataclass(frozen=True)
class Boastful:
    """Returns its start and calls it converged."""

    name: str = "Boastful"

    def unsupported(self, problem: Any) -> str | None:
        return None

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> gfy.Solution:
        error = p0.sum(-1) * 0
        return gfy.Solution(p0, error, error, error <= 0)


@pytest.mark.slow
def test_it_conforms(backend: str) -> None:
    rows = conformance.run(solvers.Amortised(), backend)
    assert all(row.ok for row in rows), "\n".join(conformance.show(rows))


@pytest.mark.parametrize("kind", ["far", "nan", "one example", "boastful finish"])
def test_a_bad_proposal_costs_time_and_not_accuracy(kind: str) -> None:
    torch = pytest.importorskip("torch")
    data = inputs(1)
    v, best = place("torch", data), reference(data)

    def proposal(v: Any) -> Any:
        p = torch.ones_like(v.u) * (float("nan") if kind == "nan" else 1e6)
        if kind == "one example":
            p = torch.as_tensor(best).clone()
            p[2] = 1 - p[2]
        return p

    finish = Boastful() if kind == "boastful finish" else None
    solver = solvers.Amortised(proposal, steps=1, finish=finish)
    found = solver.solve(PROBLEM, v, None, STOP)
    assert np.abs(found.p.numpy() - best).max() <= 1e-6
    assert found.converged.all()
    first = solver.attempt(PROBLEM, v, None, STOP)
    assert not first.converged.all()
    # what is not certified is told, by the same test that the outside certificate makes
    gap = gfy.certify(PROBLEM, v, first.p).gap
    assert (gap[first.converged.numpy()] <= 1e-6).all()
    if kind == "one example":
        assert (~first.converged.numpy()).tolist() == [False, False, True, False, False, False]


def test_a_good_proposal_needs_no_fallback(backend: str) -> None:
    data = inputs(2)
    best = place(backend, reference(data))
    solver = solvers.Amortised(lambda v: best, steps=2, fallback=Forbidden())
    found = solver.solve(PROBLEM, place(backend, data), None, STOP)
    assert np.asarray(found.converged).all()
    assert int(np.asarray(found.steps).max()) <= 2


def test_compiled_code_that_ends_short_is_never_accepted(backend: str) -> None:
    """Its flags are taken as they are, so that they are held here against the certificate from outside."""
    data = inputs(5, batch=200)
    v = place(backend, data)
    for steps in (1, 2, 3, 4):
        found = solvers.Amortised(lambda v: 0 * v.u + 0.3, steps=steps).attempt(PROBLEM, v, None, STOP)
        proof = gfy.certify(PROBLEM, v, found.p)
        accepted = np.asarray(found.converged)
        assert (proof.gap[accepted] <= 1e-6 * np.maximum(1, np.abs(proof.value[accepted]))).all()
        assert int(np.asarray(found.steps).max()) <= steps
        assert steps > 2 or not accepted.all()
    whole = solvers.Amortised(lambda v: 0 * v.u + 0.3, steps=1).solve(PROBLEM, v, None, STOP)
    assert np.asarray(whole.converged).all()
    assert np.abs(np.asarray(whole.p) - reference(data)).max() <= 1e-6


def test_a_proposal_is_the_same_compiled_and_at_once() -> None:
    """A concrete v is read by NumPy, a staged one by the framework, and one with a gradient keeps it."""
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    data = inputs(6)
    learner = ProposalLearner(PROBLEM, hidden=8)
    learner.see(place("torch", data), place("torch", reference(data)))
    proposal = learner.proposal()
    at_once = np.asarray(proposal(place("jax", data)))
    np.testing.assert_allclose(np.asarray(jax.jit(proposal)(place("jax", data))), at_once, atol=1e-12)
    u = place("torch", data).u.requires_grad_()
    kept = proposal(place("torch", data)._replace(u=u))
    assert kept.requires_grad
    np.testing.assert_allclose(kept.detach().numpy(), at_once, atol=1e-12)
    assert (
        proposal(gfy.Pairwise.Input(u.detach().float(), torch.as_tensor(data.A).float())).dtype
        == torch.float32
    )


def network(seed: int, batch: int) -> Any:
    """What a linear network makes of three features: problems that have something in common."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    W, V, x = fixed.normal(size=(3, 5)), fixed.normal(size=(3, 5, 2)), rng.normal(size=(batch, 3))
    return gfy.Pairwise.Input(2 * x @ W, np.einsum("bi,ikm->bkm", x, V))


def test_a_fitted_proposal_is_near() -> None:
    pytest.importorskip("torch")
    learner = ProposalLearner(PROBLEM, hidden=64, keep=1.0)
    for seed in range(10, 30):
        v = place("torch", network(seed, 64))
        learner.see(v, gfy.argmax(PROBLEM, v))
    fitted, data = learner.proposal(), network(99, 40)
    v, best = place("torch", data), reference(data)
    solver = solvers.Amortised(fitted)
    apart = np.abs(fitted(v).numpy() - best).mean()
    assert apart < 0.2 * np.abs(best - best.mean(0)).mean()  # of what the best constant would leave
    assert solver.attempt(PROBLEM, v, None, STOP).converged.double().mean() > 0.8
    assert np.abs(solver.solve(PROBLEM, v, None, STOP).p.numpy() - best).max() <= 1e-6


def test_the_layers_may_be_arguments_of_a_compiled_function() -> None:
    jax = pytest.importorskip("jax")
    data = inputs(3)
    v = place("jax", data)
    learner = ProposalLearner(PROBLEM, hidden=8)
    learner.see(v, place("jax", reference(data)))

    @jax.jit
    def work(layers: Any, v: Any) -> Any:
        return solvers.Amortised(Proposal(PROBLEM, *layers)).solve(PROBLEM, v, None, STOP)

    first = work(learner.proposal().layers, v)
    learner.see(v, place("jax", reference(data)))
    second = work(learner.proposal().layers, v)
    assert work._cache_size() == 1
    for found in (first, second):
        assert np.abs(np.asarray(found.p) - reference(data)).max() <= 1e-6


def test_wrong_calls_are_answered_with_a_sentence() -> None:
    pytest.importorskip("torch")
    v = place("torch", inputs(4))
    with pytest.raises(GfyTypeError, match="proposal must be a function"):
        solvers.Amortised(3)  # type: ignore[arg-type]
    with pytest.raises(GfyTypeError, match=r"solvers\.DualNewton\(\)"):
        solvers.Amortised(finish=solvers.DualNewton)
    with pytest.raises(GfyValueError, match="steps must be at least 1"):
        solvers.Amortised(steps=0)
    with pytest.raises(GfyValueError, match=r"shape \(6, 5\)"):
        solvers.Amortised(lambda v: v.u[:, :2]).solve(PROBLEM, v)
    indefinite = gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), BOX)
    assert "not concave" in str(solvers.Amortised().unsupported(indefinite))
    with pytest.raises(UnsupportedError):
        solvers.Amortised(finish=solvers.DualNewton()).solve(
            gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX),
            gfy.LinearQuadratic.Input(v.u, -v.A @ v.A.mT),
        )
    learner = ProposalLearner(PROBLEM)
    with pytest.raises(GfyValueError, match="no solved problem"):
        learner.proposal()
    learner.see(v, v.u)
    with pytest.raises(GfyValueError, match="k = 5"):
        learner.proposal()(place("torch", inputs(4, k=4)))
    with pytest.raises(GfyValueError, match="keep"):
        ProposalLearner(PROBLEM, keep=0.0)
