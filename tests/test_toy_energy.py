"""A quadratic energy written outside the packages is served by every solver that serves quadratic energies.

It is one class. Nothing in `gfy`, `solvers` or `bench` knows it; its Input is unlike theirs. The references are written
here: every face of a small box is tried, and derivatives are central differences of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gfy
import solvers
from bench.plan.registry import make_problem
from bench.problems.base import Instance
from gfy.backend import get_backend, tree_map
from gfy.energies import Dense, LowRank, QuadraticEnergy, QuadraticForm
from solvers import conformance

BATCH, K = 3, 4


class RepulsionInput(NamedTuple):
    """u [..., k], log_strength [...] and B [..., k, m]: pairs are scored by U = -exp(log_strength) B B^T."""

    u: Any
    log_strength: Any
    B: Any


@dataclass(frozen=True)
class Repulsion(QuadraticEnergy):
    """Phi(v, p) = <u, p> - exp(log_strength) / 2 |B^T p|^2, told as a matrix or by its factor."""

    interactions: str = "dense"
    proven = True
    in_v = "nonconvex"
    Input = RepulsionInput
    ranks = {"u": 1, "log_strength": 0, "B": 2}

    def quadratic(self, v: Any) -> QuadraticForm:
        xp = gfy.backend_of(v).xp
        A = xp.exp(0.5 * v.log_strength)[..., None, None] * v.B
        factor = LowRank(A)
        return QuadraticForm(v.u, factor if self.interactions == "low rank" else Dense(factor.dense()))


class Repelled:
    """The energy as a problem family, named by this file."""

    name = "repelled"
    defaults = {"k": K, "batch": BATCH, "rank": 2}

    def make(self, rng: np.random.Generator, k: int, batch: int, rank: int) -> Instance:
        problem = gfy.InnerProblem(Repulsion(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        return Instance(problem, (inputs(rng, rank, batch, k),), rng.integers(0, 2, (batch, k)).astype(float))


def inputs(rng: np.random.Generator, rank: int = 2, batch: int = BATCH, k: int = K) -> RepulsionInput:
    return RepulsionInput(
        2 * rng.normal(size=(batch, k)), 0.4 * rng.normal(size=batch), rng.normal(size=(batch, k, rank))
    )


# The counterpart of ours that a solver must serve for the toy to be served, and the problem itself.
OURS = {"dense": gfy.LinearQuadratic(), "low rank": gfy.Pairwise()}
BOX, SIMPLEX = gfy.Box(0.0, 1.0), gfy.Simplex()
NEEDS_ONE = ("ScipyFindRoot", "JaxoptBisection")  # their dual has one unknown: rank 1
COMPILE = ("JaxoptBisection", "JaxoptBoxCDQP", "JaxoptBoxOSQP", "JaxoptProjectedGradient", "Moreau", "Qpax")


def problem(interactions: str, domain: Any = BOX, omega: Any = gfy.BinaryGini()) -> Any:
    return gfy.InnerProblem(Repulsion(interactions), omega, domain)


def serving() -> list[Any]:
    found = []
    for name in solvers.__all__:
        solver = getattr(solvers, name)()
        for interactions, energy in OURS.items():
            asked = gfy.InnerProblem(energy, gfy.BinaryGini(), BOX)
            if solver.unsupported(asked) is None:
                marks = [pytest.mark.slow] if name in COMPILE else []
                found.append(pytest.param(solver, interactions, id=f"{name}-{interactions}", marks=marks))
    return found


def place(v: Any, backend: str) -> Any:
    return tree_map(lambda x: get_backend(backend).asarray(np.array(x), dtype="float64"), v)


def brute(v: RepulsionInput) -> np.ndarray:
    """p* of every example for BinaryGini(1) on [0, 1]^k: the best point of all faces, each by a linear system."""
    best = np.zeros(np.shape(v.u))
    for n in range(len(best)):
        H = 2 * np.eye(K) + np.exp(v.log_strength[n]) * v.B[n] @ v.B[n].T
        rhs, top = v.u[n] + 1, -np.inf
        for face in itertools.product((0.0, 1.0, None), repeat=K):
            free = np.array([side is None for side in face])
            p = np.array([0.0 if side is None else side for side in face])
            p[free] = np.linalg.solve(H[np.ix_(free, free)], rhs[free] - H[np.ix_(free, ~free)] @ p[~free])
            value = rhs @ p - 0.5 * p @ H @ p
            if ((p >= 0) & (p <= 1)).all() and value > top:
                best[n], top = p, value
    return best


def values(v: RepulsionInput, p: np.ndarray) -> np.ndarray:
    """Phi - Omega by its formula."""
    across = np.einsum("bkm,bk->bm", v.B, p)
    return (v.u * p - p * (p - 1)).sum(-1) - 0.5 * np.exp(v.log_strength) * (across**2).sum(-1)


def differences(fn: Callable[[RepulsionInput], float], v: RepulsionInput, step: float = 1e-6) -> Any:
    """The gradient of a number in every leaf of v, by central differences."""

    def leaf(field: str) -> np.ndarray:
        out = np.zeros(np.shape(getattr(v, field)))
        for index in np.ndindex(*out.shape):
            ends = []
            for sign in (1, -1):
                moved = np.array(getattr(v, field))
                moved[index] += sign * step
                ends.append(fn(v._replace(**{field: moved})))
            out[index] = (ends[0] - ends[1]) / (2 * step)
        return out

    return RepulsionInput(*(leaf(field) for field in v._fields))


@pytest.mark.thin(3)
@pytest.mark.parametrize(("solver", "interactions"), serving())
def test_every_solver_of_quadratics_serves_it(solver: Any, interactions: str) -> None:
    """Served where the energy of ours with that structure is, and solved; torch, as most of them compile in JAX."""
    pytest.importorskip("torch")
    asked = problem(interactions)
    assert solver.unsupported(asked) is None
    v = inputs(np.random.default_rng(3), rank=1 if solver.name in NEEDS_ONE else 2)
    found = solver.solve(asked, place(v, "torch"), None, gfy.Stop(1e-9, 5_000))
    p = get_backend("torch").to_numpy(found.p)
    short = values(v, brute(v)) - values(v, p)
    assert short.max() <= 1e-6
    assert np.abs(p - brute(v)).max() <= 2e-3


@pytest.mark.parametrize("domain", [BOX, SIMPLEX], ids=["box", "simplex"])
@pytest.mark.parametrize("interactions", OURS)
def test_no_solver_tells_it_from_ours(interactions: str, domain: Any) -> None:
    """For every solver, regularizer and set: served where the energy of ours is, refused where that is."""
    for name in solvers.__all__:
        solver = getattr(solvers, name)()
        for omega in (gfy.BinaryGini(), gfy.Shannon(), gfy.Tsallis(1.5), gfy.Zero()):
            ours = solver.unsupported(gfy.InnerProblem(OURS[interactions], omega, domain))
            theirs = solver.unsupported(problem(interactions, domain, omega))
            assert (ours is None) == (theirs is None), (name, omega, ours, theirs)


@pytest.mark.parametrize(
    ("solver", "interactions"),
    [
        (solvers.ActiveSet(), "dense"),
        (solvers.DualNewton(), "low rank"),
        pytest.param(solvers.CoordinateAscent(), "dense", marks=pytest.mark.slow),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_in_jax_staged_and_mapped(solver: Any, interactions: str) -> None:
    jax = pytest.importorskip("jax")
    asked, v = problem(interactions), inputs(np.random.default_rng(4))
    solve = lambda v: solver.solve(asked, v, None, gfy.Stop(1e-10, 2_000)).p  # noqa: E731
    here = place(v, "jax")
    for p in (jax.jit(solve)(here), jax.vmap(solve)(here)):
        np.testing.assert_allclose(p, brute(v), atol=1e-6)


def modes() -> Iterator[Any]:
    """Every framework, mode and structure; in JAX two of them quickly, since each is compiled."""
    for backend, interactions in itertools.product(("torch", "jax"), OURS):
        for mode in (gfy.Envelope(), gfy.Implicit(), gfy.Unrolled(steps=150)):
            quick = backend == "torch" or (mode.name, interactions) in (
                ("envelope", "dense"),
                ("implicit", "low rank"),
            )
            marks = [] if quick else [pytest.mark.slow]
            name = f"{backend}-{mode.name}-{interactions}"
            yield pytest.param(backend, mode, interactions, id=name, marks=marks)


@pytest.mark.thin(4)
@pytest.mark.parametrize(("backend", "mode", "interactions"), list(modes()))
def test_gradient_modes(backend: str, mode: Any, interactions: str) -> None:
    """The loss's gradient in every leaf of its Input, against central differences of the brute-force maximum."""
    pytest.importorskip(backend)
    v, y = inputs(np.random.default_rng(5)), np.array([[1.0, 0, 0, 1], [0, 1.0, 0, 0], [1.0, 1, 0, 0]])

    def loss(v: RepulsionInput) -> float:
        return float((values(v, brute(v)) - values(v, y)).sum())

    solver = solvers.ProjectedGradient() if mode.name == "unrolled" else solvers.Auto()
    ours = gfy.FenchelYoungLoss(problem(interactions), solver=solver, gradient=mode)
    library = get_backend(backend)
    there = library.asarray(y, dtype="float64")
    value, grad = library.jit(library.value_and_grad(lambda v: ours(v, there).sum()))(place(v, backend))
    assert abs(float(value) - loss(v)) <= 1e-9
    for found, wanted in zip(grad, differences(loss, v), strict=True):
        np.testing.assert_allclose(library.to_numpy(found), wanted, atol=2e-7)


@pytest.mark.parametrize("interactions", ["dense", pytest.param("low rank", marks=pytest.mark.slow)])
def test_derivatives_of_the_maximiser(backend: str, interactions: str) -> None:
    v = inputs(np.random.default_rng(6))
    weight = np.random.default_rng(7).normal(size=(BATCH, K))
    library = get_backend(backend)
    scale = library.asarray(weight, dtype="float64")

    def looked_at(v: Any) -> Any:
        return (scale * gfy.argmax(problem(interactions), v, gradient=gfy.Implicit())).sum()

    _, grad = library.jit(library.value_and_grad(looked_at))(place(v, backend))
    wanted = differences(lambda v: float((weight * brute(v)).sum()), v)
    for found, known in zip(grad, wanted, strict=True):
        np.testing.assert_allclose(library.to_numpy(found), known, atol=2e-7)


@pytest.mark.parametrize("interactions", OURS)
def test_certificate(interactions: str) -> None:
    """Zero at p*, and above the true shortfall everywhere else."""
    rng = np.random.default_rng(8)
    v, asked = inputs(rng), problem(interactions)
    best = brute(v)
    assert gfy.certify(asked, v, best).gap.max() <= 1e-12
    for p in rng.uniform(size=(5, BATCH, K)):
        short = values(v, best) - values(v, p)
        assert (gfy.certify(asked, v, p).gap >= short - 1e-12).all()


def test_explain() -> None:
    """What is said of it is what is said of a quadratic energy of ours."""
    for interactions, energy in OURS.items():
        some = [solvers.DualNewton(), solvers.ActiveSet(), solvers.ClosedForm()]
        plane = (gfy.SquaredNorm(), gfy.Reals())
        for rest in ((gfy.BinaryGini(), BOX), plane):
            ours, theirs = (
                gfy.explain(gfy.InnerProblem(e, *rest), k=K, solvers=some)
                for e in (energy, Repulsion(interactions))
            )
            assert theirs.closed_form == ours.closed_form
            assert {n: r is None for n, r in theirs.solvers.items()} == {
                n: r is None for n, r in ours.solvers.items()
            }
            assert theirs.loss == "nonconvex"


@pytest.mark.parametrize("interactions", OURS)
def test_conformance(interactions: str) -> None:
    """One line puts it before the suite that every solver of one's own is held to."""
    pytest.importorskip("torch")
    case = conformance.Case(problem(interactions), inputs(np.random.default_rng(9), k=conformance.K))
    solver = solvers.DualNewton() if interactions == "low rank" else solvers.ActiveSet()
    assert all(row.ok for row in conformance.run(solver, "torch", [case]))


def test_as_a_problem_of_the_benchmark() -> None:
    """Named by its file, as `gfy compare --problem` names it."""
    named = make_problem(f"{Path(__file__)}:Repelled", {"batch": 2}, seed=1)
    assert named.columns["energy"] == "Repulsion"
    assert named.name == "repelled-k4-b2-r2"
    found = solvers.Auto().solve(named.problem, named.inputs)
    np.testing.assert_allclose(found.p, brute(named.inputs), atol=1e-7)
