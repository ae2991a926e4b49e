"""Energies with kinks that are not concave: the answer is a local maximum, and single precision has a second try."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers

BOX = gfy.Box(0.0, 1.0)
CASES = [
    (gfy.BinaryGini(), BOX),
    (gfy.Zero(), BOX),
    (gfy.Shannon(0.1), gfy.Simplex()),
    (gfy.SquaredNorm(), gfy.Reals()),
    (gfy.SquaredNorm(0.01), gfy.Ball(1.0)),
]


def draw(rng: np.random.Generator, batch: int, k: int, hidden: int) -> Any:
    """Weights of both signs, so that some units bend upwards and others downwards."""
    return gfy.Spen.Input(
        rng.normal(size=(batch, k)), rng.normal(size=(hidden, k)), rng.normal(size=hidden),
        rng.normal(size=hidden), np.asarray(0.0),
    )  # fmt: skip


def gains(problem: Any, v: Any, p: np.ndarray, rng: np.random.Generator, size: float) -> np.ndarray:
    """The largest increase of the value per unit of length at random feasible points near p, [B], in plain NumPy."""

    def value(q: np.ndarray) -> np.ndarray:
        hidden = np.maximum(q @ v.W1.T + v.b1, 0.0)
        return (v.u * q).sum(-1) - hidden @ v.W2 - problem.regularizer.value(q)

    near = (problem.domain.project(p + size * rng.normal(size=p.shape)) for _ in range(100))
    return np.max([(value(q) - value(p)) / size for q in near], axis=0)


@pytest.mark.parametrize(("omega", "domain"), CASES, ids=lambda part: part.name)
def test_relu_networks_that_are_not_concave_end_at_a_local_maximum(omega: Any, domain: Any) -> None:
    """Gradient steps stall at a kink for up to all of these examples."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    problem = gfy.InnerProblem(gfy.Spen(), omega, domain)
    for k, hidden in ((1, 3), (5, 4), (8, 20)):
        v = draw(rng, 30, k, hidden)
        found = solvers.Auto().solve(problem, problems.place(v, "torch"), stop=gfy.Stop(1e-9))
        assert bool(found.converged.all())
        assert (gains(problem, v, found.p.numpy(), rng, 1e-6) <= 1e-2).all()  # 1e-8 of the value
    assert int(solvers.ProjectedGradient().solve(problem, problems.place(v, "torch")).converged.sum()) < 30


def tangent_gains(problem: Any, v: Any, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The largest increase at random points of C, [B], in NumPy; units that bend upwards are their tangents at p."""
    at = p @ v.W1.T + v.b1

    def value(q: np.ndarray) -> np.ndarray:
        hidden = q @ v.W1.T + v.b1
        bent = np.where(v.W2 > 0, np.maximum(hidden, 0.0), (at > 0) * hidden)
        return (v.u * q).sum(-1) - bent @ v.W2 - problem.regularizer.value(q)

    far = (
        problem.domain.project(p + 10.0 ** rng.uniform(-3, 1) * rng.normal(size=p.shape)) for _ in range(300)
    )
    return np.max([value(q) - value(p) for q in far], axis=0)


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize(("omega", "domain"), CASES, ids=lambda part: part.name)
def test_the_certificate_is_zero_at_a_local_maximum_and_a_bound_elsewhere(
    omega: Any, domain: Any, framework: str
) -> None:
    """The bound is that of the problem with tangents at p; the slope at a kink would leave a gap of 0.1 at p*."""
    pytest.importorskip(framework)
    rng = np.random.default_rng(5)
    problem = gfy.InnerProblem(gfy.Spen(), omega, domain)
    v = draw(rng, 20, 5, 9)
    given = problems.place(v, framework)
    found = solvers.Auto().solve(problem, given, stop=gfy.Stop(1e-10))
    p = np.asarray(found.p)
    certificate = gfy.certify(problem, given, found.p)
    assert (certificate.gap <= 1e-8 * np.maximum(1.0, np.abs(certificate.value))).all()
    assert not certificate.concave
    there = problem.domain.project(p + 0.3 * rng.normal(size=p.shape))
    moved = gfy.certify(problem, given, problems.place(there, framework))
    gain = tangent_gains(problem, v, there, rng)
    assert (moved.gap >= gain - 1e-12).all()
    assert (gain > 1e-3).mean() > 0.5


def test_the_value_does_not_fall_below_that_of_the_start() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    problem = gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), BOX)
    v = problems.place(draw(rng, 30, 8, 20), "torch")
    start = problems.place(rng.uniform(size=(30, 8)), "torch")
    found = solvers.DualNewton().solve(problem, v, start)
    assert bool((problem.value(v, found.p) >= problem.value(v, start)).all())
    again = solvers.DualNewton().solve(problem, v, found.p)
    assert float((again.p - found.p).abs().max()) < 1e-8


def test_many_starts_of_a_network_with_kinks_are_all_solved() -> None:
    """Every local solve of MultiStart was one of gradient steps, which stall: a concave network was off by 1e-3."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    many = solvers.MultiStart(starts=8, most_vertices=1)
    for energy in (gfy.Spen(), gfy.ConcaveSpen()):
        problem = gfy.InnerProblem(energy, gfy.BinaryGini(), BOX)
        v = problems.place(draw(rng, 20, 6, 8), "torch")
        best, one = many.solve(problem, v), solvers.Auto().solve(problem, v)
        assert bool(best.converged.all())
        assert bool((problem.value(v, best.p) >= problem.value(v, one.p) - 1e-9).all())


@pytest.mark.parametrize("energy", [gfy.ConcaveSpen(), gfy.Spen()], ids=lambda part: part.name)
def test_single_precision_is_solved_for_a_weak_regularizer(energy: Any) -> None:
    """In float32 no step was taken at gamma = 1e-5: the answer counted as one of rounding, and was told as unsolved."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    problem = gfy.InnerProblem(energy, gfy.BinaryGini(1e-5), BOX)
    given = draw(rng, 30, 6, 8)
    v = problems.place(given, "torch", "float32")
    found = solvers.Auto().solve(problem, v)
    assert "float32" in str(found.p.dtype)
    assert bool(found.converged.all())
    wide = type(v)(*(leaf.double() for leaf in v))
    exact = solvers.Auto().solve(problem, wide)
    assert float((problem.value(wide, exact.p) - problem.value(wide, found.p.double())).abs().max()) < 1e-5


def test_jax_finds_the_same_local_maximum() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("torch")
    given = draw(np.random.default_rng(7), 6, 5, 6)
    problem = gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), BOX)
    found = jax.jit(lambda w: solvers.Auto().solve(problem, w))(problems.place(given, "jax"))
    other = solvers.Auto().solve(problem, problems.place(given, "torch"))
    assert bool(found.converged.all())
    assert np.abs(np.asarray(found.p) - other.p.numpy()).max() < 1e-9
