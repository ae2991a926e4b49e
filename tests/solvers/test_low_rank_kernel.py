"""The compiled duals of low rank against the same methods in a framework, the certificate and CVXPY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from gfy.numerics import native
from solvers.kernels import call

pytest.importorskip("numba")
pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st

STOP = gfy.Stop(tol=1e-10, max_steps=200)
BOXES = (
    gfy.Box(0.0, 1.0),
    gfy.Box(-0.5, 2.0),
    gfy.Box([0.0, -1.0, 0.2, 0.0], [1.0, 1.0, 0.2, 3.0]),
    gfy.Reals(),
)
OMEGAS = (gfy.BinaryGini(), gfy.BinaryGini(0.05), gfy.SquaredNorm(3.0), gfy.Gini())


def problem_of(domain: Any = BOXES[0], omega: Any = OMEGAS[0]) -> gfy.InnerProblem:
    return gfy.InnerProblem(gfy.Pairwise(), omega, domain)


def solve(problem: gfy.InnerProblem, v: Any, p0: Any = None, stop: gfy.Stop = STOP) -> Any:
    assert call.serves(problem, v)
    return solvers.DualNewton().solve(problem, v, p0, stop)


@settings(max_examples=60)
@given(
    domain=st.sampled_from(BOXES),
    omega=st.sampled_from(OMEGAS),
    rank=st.integers(1, 9),
    scale=st.sampled_from([1e-6, 1.0, 30.0]),
    seed=st.integers(0, 10_000),
)
def test_agrees_with_the_framework(domain: Any, omega: Any, rank: int, scale: float, seed: int) -> None:
    pytest.importorskip("torch")
    problem = problem_of(domain, omega)
    v = problems.place(problems.pairwise(np.random.default_rng(seed), 3, 4, rank, scale=scale), "torch")
    found = solve(problem, v)
    assert bool(found.converged.all())
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-12
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "installed", lambda: False)
        assert not call.serves(problem, v)
        other = solvers.DualNewton().solve(problem, v, stop=STOP)
    np.testing.assert_allclose(found.p.numpy(), other.p.numpy(), atol=1e-8 * (1 + scale))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_is_kept(rng: np.random.Generator, backend: str, dtype: str) -> None:
    v = problems.place(problems.pairwise(rng, 5, 30, 4), backend, dtype)
    found = solve(problem_of(), v)
    assert dtype in str(found.p.dtype)
    assert bool(found.converged.all())
    assert problems.relative_gap(problem_of(), v, found.p).max() <= (1e-13 if dtype == "float64" else 1e-6)


def test_on_many_threads_as_on_one(
    rng: np.random.Generator, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    v = problems.place(problems.pairwise(rng, 37, 60, 3), backend)
    one = solve(problem_of(), v)
    monkeypatch.setattr(call, "threads_for", lambda *_: 5)
    many = solve(problem_of(), v)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


KINDS = (
    (gfy.Gini(), gfy.Simplex()),
    (gfy.SquaredNorm(0.05), gfy.Simplex()),
    (gfy.BinaryGini(), gfy.CappedSimplex(2)),
    (gfy.BinaryShannon(), gfy.Box(0.0, 1.0)),
    (gfy.BinaryShannon(0.02), gfy.Box(0.1, 0.8)),
    (gfy.BinaryShannon(0.2), gfy.CappedSimplex(2)),
    (gfy.Shannon(), gfy.Simplex()),
    (gfy.Shannon(0.02), gfy.Simplex()),
    (gfy.Shannon(0.5), gfy.Box(0.0, 3.0)),
)


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize(("omega", "domain"), KINDS)
def test_the_certificate_is_zero(omega: Any, domain: Any, rank: int) -> None:
    """Entropies and constraints on sum p, at every rank; a warm start ends at once."""
    pytest.importorskip("torch")
    problem = problem_of(domain, omega)
    v = problems.place(problems.pairwise(np.random.default_rng(rank), 20, 17, rank), "torch")
    found = solve(problem, v)
    assert bool(found.converged.all()), found.result
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-12
    assert gfy.certify(problem, v, found.p).feasibility.max() <= 1e-12
    warm = solve(problem, v, found.p)
    assert int(warm.steps.max()) <= 2
    narrow = problems.place(problems.pairwise(np.random.default_rng(rank), 20, 17, rank), "torch", "float32")
    single = solve(problem, narrow, stop=gfy.Stop(1e-6, 200))
    assert bool(single.converged.all()), single.result
    np.testing.assert_allclose(single.p.numpy(), found.p.numpy(), atol=2e-4)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(("omega", "domain"), [KINDS[0], KINDS[2], KINDS[5], KINDS[6]])
def test_cvxpy_finds_the_same(omega: Any, domain: Any, rank: int) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("cvxpy")
    problem = problem_of(domain, omega)
    v = problems.place(problems.pairwise(np.random.default_rng(3), 2, 6, rank), "torch")
    theirs = solvers.CvxpyReference().solve(problem, v, None, STOP).p
    np.testing.assert_allclose(solve(problem, v).p.numpy(), np.asarray(theirs), atol=2e-4)


@pytest.mark.parametrize("gamma", [1e-3, 1e-5])
@pytest.mark.parametrize("rank", [1, 2])
def test_a_weak_omega_keeps_its_digits(gamma: float, rank: int) -> None:
    """t has too few digits for p where gamma is small: p is corrected itself."""
    pytest.importorskip("torch")
    problem = problem_of(omega=gfy.BinaryGini(gamma))
    v = problems.place(problems.pairwise(np.random.default_rng(5), 30, 12, rank), "torch")
    found = solve(problem, v)
    assert bool(found.converged.all()), (found.result, found.error)
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-12


@pytest.mark.parametrize(
    ("u", "A"),
    [((6, 5), (5, 3)), ((5,), (6, 5, 3)), ((2, 1, 5), (3, 5, 3)), ((5,), (5, 3)), ((0, 5), (0, 5, 3))],
)
def test_batch_axes_broadcast(
    rng: np.random.Generator, backend: str, u: tuple[int, ...], A: tuple[int, ...]
) -> None:
    v = problems.place(gfy.Pairwise.Input(rng.normal(size=u), rng.normal(size=A)), backend)
    found = solve(problem_of(), v)
    assert tuple(found.p.shape) == (*np.broadcast_shapes(u[:-1], A[:-2]), 5)
    assert tuple(found.steps.shape) == tuple(found.p.shape[:-1])
    assert problems.relative_gap(problem_of(), v, found.p).max(initial=0.0) <= 1e-12


def test_mapped_by_jax(rng: np.random.Generator) -> None:
    """vmap gives the whole batch to one call; weights that it does not map stay shared."""
    jax = pytest.importorskip("jax")
    v = problems.place(problems.pairwise(rng, 7, 5, 3), "jax")
    whole = solve(problem_of(), v)
    mapped = jax.jit(jax.vmap(lambda w: solve(problem_of(), w)))(v)
    np.testing.assert_array_equal(np.asarray(whole.p), np.asarray(mapped.p))
    shared = jax.vmap(lambda u: solve(problem_of(), gfy.Pairwise.Input(u, v.A[0])).p)(v.u)
    again = solve(problem_of(), gfy.Pairwise.Input(v.u, v.A[0])).p
    np.testing.assert_array_equal(np.asarray(shared), np.asarray(again))


def test_warm_start(rng: np.random.Generator, backend: str) -> None:
    v = problems.place(problems.pairwise(rng, 5, 30, 4), backend)
    cold = solve(problem_of(), v)
    warm = solve(problem_of(), v, p0=cold.p)
    assert int(cold.steps.max()) > 1
    assert int(warm.steps.max()) <= 1


def test_nan_is_not_an_answer(rng: np.random.Generator) -> None:
    """Staged, an input cannot be refused: its example is told from the others."""
    jax = pytest.importorskip("jax")
    v = problems.pairwise(rng, 3, 5, 2)
    v.u[1, 2] = np.nan
    v.A[2, 0, 0] = np.inf
    found = jax.jit(lambda w: solve(problem_of(), w))(problems.place(v, "jax"))
    assert np.asarray(found.converged).tolist() == [True, False, False]
    assert np.isfinite(np.asarray(found.p)).all()


def test_stops_when_told(rng: np.random.Generator, backend: str) -> None:
    v = problems.place(problems.pairwise(rng, 4, 30, 4), backend)
    found = solve(problem_of(), v, stop=gfy.Stop(1e-12, max_steps=1))
    assert int(found.steps.max()) == 1
    assert not bool(found.converged.all())


@pytest.mark.thin(4)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("scale", [1e6, 1e7, 1e9])
def test_large_rows_leave_no_error_behind(
    rng: np.random.Generator, backend: str, scale: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label of 1e9 that becomes fixed: what its removal leaves of the Hessian, or of a pivot, is not used."""
    v = problems.pairwise(rng, 50, 40, 3)
    v = gfy.Pairwise.Input(v.u, np.abs(v.A))
    v.A[:, 0] *= scale
    v.u[:, 0] = 0.0
    v = problems.place(v, backend)
    monkeypatch.setattr(native, "installed", lambda: compiled)
    found = solvers.DualNewton().solve(problem_of(), v, stop=gfy.Stop(1e-9, 300))
    assert bool(found.converged.all())
    assert int(found.steps.max()) <= 10
    assert problems.relative_gap(problem_of(), v, found.p).max() <= 1e-12


def test_steps_aside() -> None:
    """Derivatives being taken by torch.func are the framework's; large ranks and other regularizers go there too."""
    torch = pytest.importorskip("torch")
    v = problems.place(problems.pairwise(np.random.default_rng(0), 2, 4, 2), "torch")
    assert not call.serves(problem_of(gfy.Simplex(), gfy.Tsallis(1.5)), v)
    long = problems.place(problems.pairwise(np.random.default_rng(0), 1, 2**17, 1), "torch")
    assert not call.serves(problem_of(), long)
    wide = problems.place(problems.pairwise(np.random.default_rng(0), 1, 4, 40), "torch")
    assert not call.serves(problem_of(), wide)

    def total(u: Any) -> Any:
        return gfy.conjugate(problem_of(), gfy.Pairwise.Input(u, v.A)).sum()

    plain = v.u.clone().requires_grad_(True)
    total(plain).backward()
    np.testing.assert_allclose(torch.func.grad(total)(v.u).numpy(), plain.grad.numpy(), atol=1e-9)
