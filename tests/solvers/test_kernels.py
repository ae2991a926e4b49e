"""The compiled kernels against CVXPY, closed forms and the certificate; every way in which they are called."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import get_backend, tree_map
from gfy.numerics import native
from gfy.protocols import Result
from solvers.kernels import call

pytest.importorskip("numba")

STOP = gfy.Stop(tol=1e-10, max_steps=500)
DENSE = gfy.LinearQuadratic()
FRAMEWORKS = ("jax", "torch")
KINDS = [
    (gfy.BinaryGini(), gfy.Box(0.0, 1.0)),
    (gfy.BinaryGini(0.01), gfy.Box(-0.5, 2.0)),
    (gfy.SquaredNorm(0.3), gfy.Reals()),
    (gfy.Gini(), gfy.Simplex()),
    (gfy.SquaredNorm(0.05), gfy.Simplex()),
    (gfy.BinaryGini(), gfy.CappedSimplex(2)),
    (gfy.Gini(0.1), gfy.CappedSimplex(1.5)),
    (gfy.BinaryShannon(), gfy.Box(0.0, 1.0)),
    (gfy.BinaryShannon(0.02), gfy.Box(0.1, 0.8)),
    (gfy.BinaryShannon(0.2), gfy.CappedSimplex(2)),
    (gfy.Shannon(), gfy.Simplex()),
    (gfy.Shannon(0.02), gfy.Simplex()),
    (gfy.Shannon(0.3), gfy.CappedSimplex(2)),
    (gfy.Shannon(0.5), gfy.Box(0.0, 3.0)),
]
NAMES = [f"{omega}-{domain}" for omega, domain in KINDS]


def dense(seed: int, batch: int = 5, k: int = 6, condition: float = 30.0, shared: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(() if shared else (batch,)) + (k, k))
    Q = np.linalg.qr(root)[0]
    U = -(Q * np.geomspace(1e-3, 1e-3 * condition, k)[::-1]) @ np.swapaxes(Q, -1, -2)
    scale = np.sqrt(1e-3 * condition) + 1
    return gfy.LinearQuadratic.Input(scale * rng.normal(size=(batch, k)), (U + np.swapaxes(U, -1, -2)) / 2)


def place(v: Any, framework: str, dtype: str = "float64") -> Any:
    library = get_backend(framework)
    return tree_map(lambda x: library.asarray(np.array(x), dtype=dtype), v)


def problem_of(omega: Any, domain: Any) -> gfy.InnerProblem:
    return gfy.InnerProblem(DENSE, omega, domain)


def solve(problem: Any, v: Any, p0: Any = None, stop: gfy.Stop = STOP) -> Any:
    assert call.serves(problem, v)
    return solvers.ActiveSet().solve(problem, v, p0, stop)


def relative_gap(problem: Any, v: Any, p: Any) -> np.ndarray:
    found = gfy.certify(problem, v, p)
    assert found.feasibility.max() <= 1e-12
    return found.gap / np.maximum(1, np.abs(found.value))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("omega", "domain"), KINDS, ids=NAMES)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_the_certificate_is_zero(omega: Any, domain: Any, framework: str, shared: bool) -> None:
    problem = problem_of(omega, domain)
    for k, condition in ((6, 30.0), (19, 1e4)):
        v = place(dense(k, k=k, condition=condition, shared=shared), framework)
        found = solve(problem, v)
        assert bool(found.converged.all()), found.result
        assert relative_gap(problem, v, found.p).max() <= 1e-12
        warm = solve(problem, v, found.p)
        assert bool(warm.converged.all())
        assert int(warm.steps.max()) <= 2
        np.testing.assert_allclose(np.asarray(warm.p), np.asarray(found.p), atol=1e-9)


@pytest.mark.parametrize(("omega", "domain"), KINDS, ids=NAMES)
def test_cvxpy_finds_nothing_better(omega: Any, domain: Any) -> None:
    """An outside judge: the value of CVXPY's point is no larger, and its own bound no smaller."""
    pytest.importorskip("cvxpy")
    problem = problem_of(omega, domain)
    v = dense(3, batch=3)
    ours = solve(problem, place(v, "torch")).p.numpy()
    theirs = np.asarray(solvers.CvxpyReference().solve(problem, place(v, "torch"), None, STOP).p)
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    value = [np.asarray(problem.value(place(v, "torch"), place(p, "torch"))) for p in (ours, theirs)]
    assert (value[0] >= value[1] - 1e-7).all()


def test_closed_form_without_bounds() -> None:
    v = dense(1, k=9)
    p = solve(problem_of(gfy.SquaredNorm(0.7), gfy.Reals()), place(v, "torch")).p.numpy()
    exact = np.linalg.solve(0.7 * np.eye(9) - v.U, v.u[..., None])[..., 0]
    np.testing.assert_allclose(p, exact, rtol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 33, 64])
def test_every_size(k: int) -> None:
    """Blocks of four rows and eight columns, and what is left of them."""
    kinds = (
        (gfy.BinaryGini(), gfy.Box(0.0, 1.0)),
        (gfy.SquaredNorm(), gfy.Reals()),
        (gfy.Shannon(), gfy.Simplex()),
    )
    for omega, domain in kinds:
        problem = problem_of(omega, domain)
        v = place(dense(k, k=k), "torch")
        found = solve(problem, v)
        assert bool(found.converged.all())
        assert relative_gap(problem, v, found.p).max() <= 1e-13


def test_bounds_of_every_sort() -> None:
    inf = np.inf
    low, high = [0.0, -1.0, 0.2, -inf, -inf, 0.0], [1.0, 1.0, 0.2, 3.0, inf, 0.0]
    problem = problem_of(gfy.SquaredNorm(0.1), gfy.Box(low, high))
    v = place(dense(4), "torch")
    found = solve(problem, v)
    assert relative_gap(problem, v, found.p).max() <= 1e-13
    assert (found.p[:, 2] == 0.2).all()
    assert (found.p[:, 5] == 0.0).all()


@pytest.mark.parametrize(("omega", "domain"), [KINDS[0], KINDS[3], KINDS[7], KINDS[10]])
def test_degenerate_matrices(omega: Any, domain: Any) -> None:
    """No interaction at all, copies of one label, rank one, ties everywhere."""
    problem, k = problem_of(omega, domain), 8
    ones = np.ones((k, k))
    rng = np.random.default_rng(0)
    a = rng.normal(size=k)
    copies = np.repeat(np.arange(k // 2), 2)
    A = rng.normal(size=(k // 2, 3))[copies]
    cases = [(rng.normal(size=k), 0 * ones), (np.zeros(k), -ones), (a, -np.outer(a, a))]
    cases += [(a[copies], -A @ A.T), (0 * a, 0 * ones)]
    for u, U in cases:
        v = place(gfy.LinearQuadratic.Input(u[None], U[None]), "torch")
        found = solve(problem, v)
        assert bool(found.converged.all())
        assert relative_gap(problem, v, found.p).max() <= 1e-12


@pytest.mark.parametrize("scale", [1e-9, 1e4, 1e9])
@pytest.mark.parametrize(("omega", "domain"), [KINDS[0], KINDS[3], KINDS[5], KINDS[7]])
def test_scales(omega: Any, domain: Any, scale: float) -> None:
    problem = problem_of(omega, domain)
    v = dense(2, k=12)
    v = place(type(v)(scale * v.u, scale * v.U), "torch")
    found = solve(problem, v)
    assert bool(found.converged.all()), (found.result, found.error)
    assert relative_gap(problem, v, found.p).max() <= 1e-12


@pytest.mark.parametrize("gamma", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("kind", [gfy.BinaryShannon, gfy.Shannon])
def test_small_entropies(kind: Any, gamma: float) -> None:
    domain = gfy.Box(0.0, 1.0) if kind is gfy.BinaryShannon else gfy.Simplex()
    problem = problem_of(kind(gamma), domain)
    v = place(dense(5, k=20), "torch")
    found = solve(problem, v)
    assert bool(found.converged.all()), (found.result, found.error)
    assert relative_gap(problem, v, found.p).max() <= 1e-12


@pytest.mark.parametrize("condition", [1e3, 1e6, 1e8])
def test_conditions(condition: float) -> None:
    for omega, domain in (KINDS[0], KINDS[3], KINDS[5]):
        problem = problem_of(omega, domain)
        v = place(dense(6, k=30, condition=1e3 * condition), "torch")
        found = solve(problem, v, stop=gfy.Stop(1e-9, 1000))
        assert bool(found.converged.all()), (found.result, found.error)
        assert relative_gap(problem, v, found.p).max() <= 1e-12


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("omega", "domain"), [KINDS[0], KINDS[3], KINDS[7], KINDS[11]])
def test_what_is_not_finite_is_said(framework: str, omega: Any, domain: Any) -> None:
    problem = problem_of(omega, domain)
    v = dense(0)
    v.u[1, 2], v.U[2, 0, 1], v.U[2, 1, 0], v.u[3, 0] = np.nan, np.nan, np.nan, np.inf
    found = solve(problem, place(v, framework))
    assert np.asarray(found.result).tolist() == [0, *[int(Result.NOT_FINITE)] * 3, 0]
    assert np.asarray(found.converged).tolist() == [True, False, False, False, True]
    assert np.isfinite(np.asarray(found.p)).all()
    assert (np.asarray(domain.violation(np.asarray(found.p))) <= 1e-12).all()


def test_the_step_limit_is_kept_and_said() -> None:
    problem = problem_of(*KINDS[0])
    v = place(dense(8, k=40, condition=1e8), "torch")
    found = solve(problem, v, stop=gfy.Stop(1e-12, 2))
    assert (found.steps <= 2).all()
    assert (found.result == int(Result.STEP_LIMIT)).any()
    assert (found.converged == (found.error <= 1e-12)).all()


def test_zero_tolerance_ends_at_the_rounding_floor() -> None:
    for omega, domain in KINDS:
        v = place(dense(9, k=20), "torch")
        found = solve(problem_of(omega, domain), v, stop=gfy.Stop(0.0, 10_000))
        assert bool(found.converged.all())
        assert int(found.steps.max()) < 100


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("omega", "domain"), KINDS, ids=NAMES)
def test_single_precision(framework: str, omega: Any, domain: Any) -> None:
    """p is the rounded solution of the rounded inputs, and `converged` speaks of it."""
    problem = problem_of(omega, domain)
    v = place(dense(11, k=15, condition=1e3), framework, "float32")
    found = solve(problem, v, stop=gfy.Stop(1e-6, 500))
    assert "float32" in str(found.p.dtype)
    assert "float32" in str(found.error.dtype)
    assert bool(found.converged.all()), (found.result, found.error)
    exact = solve(
        problem, tree_map(lambda x: get_backend(framework).asarray(np.asarray(x), dtype="float64"), v)
    )
    np.testing.assert_allclose(np.asarray(found.p), np.asarray(exact.p), atol=2e-6)
    certificate = gfy.certify(problem, v, found.p)
    assert (certificate.gap / np.maximum(1, np.abs(certificate.value))).max() <= 1e-6


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_shapes(framework: str) -> None:
    problem = problem_of(*KINDS[0])
    v = dense(12, batch=6)
    flat = np.asarray(solve(problem, place(v, framework)).p)
    twice = type(v)(v.u.reshape(2, 3, 6), v.U.reshape(2, 3, 6, 6))
    assert np.array_equal(np.asarray(solve(problem, place(twice, framework)).p), flat.reshape(2, 3, 6))
    for n in range(6):
        one = solve(problem, place(type(v)(v.u[n], v.U[n]), framework))
        assert tuple(one.error.shape) == ()
        assert np.array_equal(np.asarray(one.p), flat[n])
    none = solve(problem, place(type(v)(v.u[:0], v.U[:0]), framework))
    assert tuple(none.p.shape) == (0, 6)
    assert tuple(none.result.shape) == (0,)
    alone = solve(problem, place(type(v)(v.u[0], v.U), framework))  # one u, many matrices
    assert tuple(alone.p.shape) == (6, 6)
    start = place(np.full((4, 1, 6), 0.5), framework)
    assert tuple(solve(problem, place(v, framework), start).p.shape) == (4, 6, 6)


def test_jax_transformations() -> None:
    jax = pytest.importorskip("jax")
    problem = problem_of(*KINDS[0])
    v = place(dense(13), "jax")
    work = lambda v: solve(problem, v).p  # noqa: E731
    expected = np.asarray(work(v))
    assert np.array_equal(jax.jit(work)(v), expected)
    assert np.array_equal(jax.vmap(work)(v), expected)
    twice = jax.jit(jax.vmap(jax.vmap(work, in_axes=(type(v)(0, None),))))
    assert np.array_equal(twice(type(v)(v.u[:, None], v.U)), expected[:, None])
    shared = type(v)(v.u, v.U[0])
    both = jax.vmap(work, in_axes=(type(v)(0, None),))(shared)
    np.testing.assert_allclose(both, work(shared), atol=1e-14)
    start = jax.vmap(lambda v, p0: solve(problem, v, p0).steps)(v, expected)
    assert int(start.max()) <= 1
    # no derivative passes, and none is asked for
    slope = jax.grad(lambda v: (solve(problem, v).p ** 2).sum() + v.u.sum())(v)
    assert np.array_equal(slope.u, np.ones_like(slope.u))
    assert np.array_equal(slope.U, np.zeros_like(slope.U))


def test_jax_lowers_the_framework_for_a_gpu() -> None:
    jax = pytest.importorskip("jax")
    problem = problem_of(*KINDS[0])
    v = place(dense(14), "jax")
    staged = jax.jit(lambda v: solve(problem, v).p).trace(v)
    assert "gfy_solve" in staged.lower(lowering_platforms=("cpu",)).as_text()
    assert "gfy_solve" not in staged.lower(lowering_platforms=("cuda",)).as_text()


def test_jax_without_foreign_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    from solvers.kernels import jax_call

    problem = problem_of(*KINDS[3])
    v = place(dense(15, batch=7), "jax")
    expected = np.asarray(solve(problem, v).p)
    monkeypatch.setattr(jax_call, "register", lambda: False)
    jax_call._eager.clear_cache()
    assert np.array_equal(solve(problem, v).p, expected)
    assert np.array_equal(jax.jit(lambda v: solve(problem, v).p)(v), expected)
    jax_call._eager.clear_cache()


def test_torch_views_compile_and_vmap() -> None:
    torch = pytest.importorskip("torch")
    problem = problem_of(*KINDS[0])
    v = place(dense(16), "torch")
    expected = solve(problem, v).p
    turned = type(v)(v.u.t().contiguous().t(), v.U.transpose(-1, -2))  # not contiguous
    assert torch.equal(solve(problem, turned).p, expected)
    assert torch.equal(torch.func.vmap(lambda u, U: solve(problem, type(v)(u, U)).p)(*v), expected)
    shared = torch.func.vmap(lambda u: solve(problem, type(v)(u, v.U[0])).p)(v.u)
    assert torch.allclose(shared, solve(problem, type(v)(v.u, v.U[0])).p)
    graph = torch.compile(lambda u, U: 2 * solve(problem, type(v)(u, U)).p, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it looks through the caches of the call
        assert torch.equal(graph(*v), 2 * expected)
    from solvers.kernels import torch_call

    facts = torch.tensor(call.numbers(problem, STOP, 6, "float64", 1, 0).copy())
    torch.library.opcheck(torch_call._operator, (v.u, v.U, v.u[:0], facts))
    leaf = v.u.clone().requires_grad_()
    assert not solve(problem, type(v)(leaf, v.U)).p.requires_grad


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_threads_give_the_same(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(*KINDS[0])
    v = place(dense(17, batch=301, k=10), framework)
    monkeypatch.setattr(call, "threads_for", lambda *_: 1)
    expected = np.asarray(solve(problem, v).p)
    for threads in (2, 3, 200):
        monkeypatch.setattr(call, "threads_for", lambda *_, n=threads: n)
        assert np.array_equal(np.asarray(solve(problem, v).p), expected)
    with ThreadPoolExecutor(8) as pool:  # many of Python's threads at once, each with its own
        monkeypatch.setattr(call, "threads_for", lambda *_: 2)
        found = list(pool.map(lambda _: np.asarray(solve(problem, v).p), range(32)))
    assert all(np.array_equal(p, expected) for p in found)


def test_threads_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    assert call.threads_for("jax", 10**9) == 6
    assert call.threads_for("jax", 10) == 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    assert call.threads_for("jax", 10**9) == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert call.threads_for("jax", 10**9) == 3
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert call.threads_for("torch", 10**9) == 2
    assert call.threads_for("jax", 10**9) == 3


def test_without_numba_the_framework_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(*KINDS[0])
    v = place(dense(18), "torch")
    expected = solve(problem, v).p
    monkeypatch.setattr(native, "installed", lambda: False)
    assert not call.serves(problem, v)
    found = solvers.ActiveSet().solve(problem, v, None, STOP)
    assert bool(found.converged.all())
    np.testing.assert_allclose(found.p, expected, atol=1e-9)


def test_what_is_left_to_the_frameworks() -> None:
    torch = pytest.importorskip("torch")
    v = place(dense(19), "torch")
    problem = problem_of(*KINDS[0])
    assert call.serves(problem, v)
    assert not call.serves(problem, tree_map(lambda x: x.to(torch.bfloat16), v))
    assert not call.serves(problem, type(v)(v.u, v.U.float()))
    assert not call.serves(problem, tree_map(lambda x: x.to("meta"), v))
    assert not call.serves(problem_of(gfy.Tsallis(1.5), gfy.Simplex()), v)
    assert not call.serves(gfy.InnerProblem(gfy.LinearQuadratic(concave=False), *KINDS[0]), v)
    assert not call.serves(problem_of(gfy.SquaredNorm(), gfy.Ball()), v)


def test_the_switch_in_the_environment() -> None:
    code = "from gfy.numerics import native; print(native.installed())"
    for value, expected in (("0", "False"), ("1", "True")):
        env = {**os.environ, native.SWITCH: value}
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60
        )
        assert found.stdout.strip() == expected
