"""Auto picks by what the problem provides, says why, and is what `gfy` uses where no solver is named."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from gfy.numerics import native
from gfy.protocols import default_solver
from solvers import measured


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


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_dense_quadratic_energies_go_to_compiled_code(
    framework: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By structure, size and what is installed; the reason names the size."""
    pytest.importorskip(framework)
    pytest.importorskip("numba")
    A = rng.normal(size=(3, 7, 7))
    v = problems.place(gfy.LinearQuadratic.Input(rng.normal(size=(3, 7)), -A @ A.swapaxes(1, 2)), framework)
    for omega, domain in (
        (gfy.BinaryGini(), gfy.Box(0.0, 1.0)),
        (gfy.Gini(), gfy.Simplex()),
        (gfy.BinaryGini(), gfy.CappedSimplex(2)),
    ):
        problem = gfy.InnerProblem(gfy.LinearQuadratic(), omega, domain)
        choice = solvers.Auto().choose(problem, v)
        assert choice.solver.name == "ActiveSet"
        assert "k = 7" in choice.reason
        found = gfy.argmax(problem, v, return_solution=True)
        certificate = gfy.certify(problem, v, found.p)
        assert (certificate.gap <= 1e-10 * np.maximum(1, np.abs(certificate.value))).all()
    monkeypatch.setattr(native, "installed", lambda: False)
    assert solvers.Auto().choose(problem, v).solver.name == "ProjectedGradient"


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_the_choice_follows_the_rows_of_the_nearest_measured_size(
    framework: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(framework)
    pytest.importorskip("numba")
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))

    def chosen(k: int) -> solvers.auto.Choice:
        A = rng.normal(size=(2, k, k))
        v = gfy.LinearQuadratic.Input(rng.normal(size=(2, k)), -A @ A.swapaxes(1, 2))
        return solvers.Auto().choose(problem, problems.place(v, framework))

    form = {"U": "dense", "omega": "quadratic", "total": "free", "rank": 0, "framework": framework}
    slow = {**form, "k": 8, "settings": 4, "times": {"ActiveSet": 2.5, "ProjectedGradient": 1.0}}
    level = {**form, "k": 32, "settings": 9, "times": {"ActiveSet": 1.2, "ProjectedGradient": 1.0}}
    other = {**slow, "total": "fixed", "k": 30}
    monkeypatch.setattr(measured, "entries", lambda: (slow, level, other))
    assert chosen(9).solver.name.startswith("ProjectedGradient")
    assert (
        f"measured at k = 8 in {framework}: ActiveSet took 2.5 times as long (4 settings)" in chosen(9).reason
    )
    assert chosen(30).solver.name == "ActiveSet", (
        "solvers that are level are chosen by the number of operations"
    )
    assert "measured at k = 32" in chosen(30).reason
    assert "measured" not in chosen(1).reason, "no measured size is near"
    assert chosen(1).solver.name == "ActiveSet"


def test_smooth_energies_take_steps_of_one_gradient() -> None:
    """The answer is judged by the certificate, and by what one gradient per step allows."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    u, W = torch.tensor(2 * rng.normal(size=(8, 10))), torch.tensor(rng.normal(size=(6, 10)))
    count = 0

    def energy(v: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return (v * p).sum(-1) - torch.nn.functional.softplus(p @ W.T).sum(-1)

    problem = gfy.InnerProblem(
        gfy.CustomEnergy(energy, concave=True, k=10), gfy.BinaryGini(), gfy.Box(0.0, 1.0)
    )
    v = gfy.CustomEnergy.Input(u)
    choice = solvers.Auto().choose(problem, v)
    assert choice.solver == solvers.ProjectedGradient("steady")
    count = 0
    found = choice.solver.solve(problem, v, stop=gfy.Stop(1e-10, 2000))
    assert count <= int(found.steps.max()) + 16
    assert bool(found.converged.all())
    assert gfy.certify(problem, v, found.p).gap.max() <= 1e-12
    one = choice.solver.solve(problem, gfy.CustomEnergy.Input(u[3]), stop=gfy.Stop(1e-10, 2000))
    np.testing.assert_allclose(one.p.numpy(), found.p[3].numpy(), atol=1e-9)
    hard = gfy.InnerProblem(problem.energy, gfy.BinaryGini(1e-3), problem.domain)
    weak = choice.solver.solve(hard, v, stop=gfy.Stop(1e-8, 20_000))
    assert bool(weak.converged.all())
    assert gfy.certify(hard, v, weak.p).gap.max() <= 1e-8


def test_is_the_default() -> None:
    assert default_solver().name == "Auto"


def test_a_metric_in_and_out_of_the_set() -> None:
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


@pytest.mark.parametrize("mapped", ["each", "a shared A"])
def test_a_mapped_loss_may_ask_the_second_solver(mapped: str, rng: np.random.Generator) -> None:
    """Under vmap both branches run, and the start has no axis there: the host was given shapes that did not fit."""
    jax = pytest.importorskip("jax")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(0.5), gfy.Box(0.0, 1.0))
    u, A = jax.numpy.asarray(rng.normal(size=(3, 5))), jax.numpy.asarray(rng.normal(size=(3, 5, 2)))
    A, axis = (A, 0) if mapped == "each" else (A[0], None)
    loss = gfy.FenchelYoungLoss(problem)
    y = jax.numpy.full((5,), 0.25)

    def of_one(u: object, A: object) -> object:
        return loss(gfy.Pairwise.Input(u, A), y)

    found = jax.jit(jax.vmap(jax.grad(of_one), in_axes=(0, axis)))(u, A)
    p = solvers.Auto().solve(problem, gfy.Pairwise.Input(u, A)).p
    assert np.abs(np.asarray(found) - np.asarray(p - y)).max() <= 1e-12  # the derivative in u is p* - y
