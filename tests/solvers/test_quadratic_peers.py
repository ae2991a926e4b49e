"""Outside codes for quadratic programs behind the protocol: right answers, in both frameworks, or a sentence."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import get_backend, tree_map

PEERS = ("MujocoBoxQP", "Daqp", "Quadprog", "Piqp", "Osqp", "Clarabel", "Moreau", "Qpax", "Proxsuite")
K, BATCH, RANK = 5, 4, 2
TIGHT = gfy.Stop(tol=1e-10, max_steps=20_000)


def problem_of(domain: Any, low_rank: bool) -> Any:
    energy = gfy.Pairwise() if low_rank else gfy.LinearQuadratic()
    return gfy.InnerProblem(energy, gfy.Gini(0.7), domain)


def inputs(rng: np.random.Generator, low_rank: bool, shared: bool, batch: tuple[int, ...]) -> Any:
    u = 2 * rng.normal(size=(*batch, K))
    A = rng.normal(size=(*(() if shared else batch), K, RANK if low_rank else K))
    if low_rank:
        return gfy.Pairwise.Input(u, A)
    return gfy.LinearQuadratic.Input(u, -A @ np.swapaxes(A, -1, -2) / K)


def best_by_enumeration(
    H: np.ndarray, g: np.ndarray, low: float, high: float, total: float | None
) -> np.ndarray:
    """The solution of a small strictly convex program, by trying which coordinates rest on which bound."""
    import itertools

    k, best, value = len(g), None, np.inf
    for sides in itertools.product((0, 1, 2), repeat=k):  # free, at low, at high
        side = np.array(sides)
        free = side == 0
        p = np.where(side == 1, low, high).astype(float)
        n = int(free.sum())
        size = n + (total is not None)
        system, right = np.zeros((size, size)), np.zeros(size)
        system[:n, :n] = H[np.ix_(free, free)]
        right[:n] = -g[free] - H[np.ix_(free, ~free)] @ p[~free]
        if total is not None:
            system[n, :n] = system[:n, n] = 1.0
            right[n] = total - p[~free].sum()
            if n == 0 and abs(right[n]) > 1e-12:
                continue
        if n:
            p[free] = np.linalg.solve(system, right)[:n]
        if (p < low - 1e-12).any() or (p > high + 1e-12).any():
            continue
        here = 0.5 * p @ H @ p + g @ p
        if here < value:
            best, value = p, here
    assert best is not None
    return best


@pytest.fixture(scope="module")
def truth() -> dict[tuple[bool, bool, bool], tuple[Any, np.ndarray]]:
    """Inputs and solutions for boxes and simplices, low rank and dense, shared and per example."""
    found = {}
    for simplex in (False, True):
        for low_rank in (False, True):
            for shared in (False, True):
                rng = np.random.default_rng([7, simplex, low_rank, shared])
                v = inputs(rng, low_rank, shared, (BATCH,))
                p = []
                for n in range(BATCH):
                    matrix = v[1] if shared else v[1][n]
                    U = -matrix @ matrix.T if low_rank else matrix
                    H, g = 0.7 * np.eye(K) - U, -(v.u[n] + 0.35)
                    p.append(best_by_enumeration(H, g, 0.0, 1.0, 1.0 if simplex else None))
                found[simplex, low_rank, shared] = (v, np.stack(p))
    return found


@pytest.mark.thin(12)
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("simplex", [False, True])
@pytest.mark.parametrize("low_rank", [False, True])
def test_a_peer_finds_the_solution(
    name: str, simplex: bool, low_rank: bool, backend: str, truth: Any
) -> None:
    solver = getattr(solvers, name)()
    problem = problem_of(gfy.Simplex() if simplex else gfy.Box(0.0, 1.0), low_rank)
    reason = solver.unsupported(problem)
    if reason is not None:
        assert "sum" in reason or "not installed" in reason, reason
        pytest.skip(reason)
    library = get_backend(backend)
    compiles = name in ("Qpax",)  # for every shape, which takes longer than the rest together
    for shared in (False,) if compiles else (False, True):
        v, expected = truth[simplex, low_rank, shared]
        given = tree_map(lambda x: library.asarray(np.array(x), dtype="float64"), v)
        found = solver.solve(problem, given, None, TIGHT)
        p = library.to_numpy(found.p)
        assert np.abs(p - expected).max() < 1e-6, name
        if name != "Qpax":  # it goes on to its last step at this tolerance and then denies to have converged
            assert library.to_numpy(found.converged).all()
        if compiles:
            continue
        warm = solver.solve(problem, given, library.asarray(np.array(expected), dtype="float64"), TIGHT)
        assert np.abs(library.to_numpy(warm.p) - expected).max() < 1e-6, name


@pytest.mark.parametrize("name", PEERS)
def test_what_is_no_quadratic_program_is_refused(name: str) -> None:
    solver = getattr(solvers, name)()
    shannon = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryShannon(), gfy.Box(0.0, 1.0))
    for problem in (shannon, problem_of(gfy.Ball(1.0), False)):
        reason = solver.unsupported(problem)
        assert reason is not None
        assert len(reason.split()) >= 4


@pytest.mark.parametrize("name", ["Daqp", "MujocoBoxQP"])
def test_two_batch_axes_and_jit(name: str) -> None:
    jax = pytest.importorskip("jax")
    solver = getattr(solvers, name)()
    problem = problem_of(gfy.Box(0.0, 1.0), True)
    if (reason := solver.unsupported(problem)) is not None:
        pytest.skip(reason)
    v = inputs(np.random.default_rng(3), True, False, (2, 3))
    given = tree_map(jax.numpy.asarray, v)
    p = jax.jit(lambda v: solver.solve(problem, v, None, TIGHT).p)(given)
    assert p.shape == (2, 3, K)
    assert gfy.certify(problem, given, p).gap.max() < 1e-8


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", ["ScipyFindRoot", "JaxoptBisection", "ByHand"])
@pytest.mark.parametrize("omega", [gfy.BinaryGini(0.4), gfy.BinaryShannon(0.4)])
def test_the_same_idea_off_the_shelf_finds_the_solution(name: str, omega: Any, backend: str) -> None:
    """Rank 1: the dual equation by bisection in plain NumPy is the reference."""
    solver = getattr(solvers, name)()
    problem = gfy.InnerProblem(gfy.Pairwise(), omega, gfy.Box(0.0, 1.0))
    if (reason := solver.unsupported(problem)) is not None:
        assert "not installed" in reason or (name == "ByHand" and "Shannon" in reason)
        return
    rng = np.random.default_rng(5)
    u, a = rng.normal(size=(BATCH, K)), rng.normal(size=(BATCH, K))

    def response(t: np.ndarray) -> np.ndarray:
        theta = u - a * t[:, None]
        if isinstance(omega, gfy.BinaryGini):
            return np.clip((theta / 0.4 + 1) / 2, 0.0, 1.0)
        return 1 / (1 + np.exp(-theta / 0.4))

    low, high = -np.abs(a).sum(1), np.abs(a).sum(1)
    for _ in range(200):
        middle = (low + high) / 2
        above = middle > (a * response(middle)).sum(1)
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    library = get_backend(backend)
    v = gfy.Pairwise.Input(*(library.asarray(x, dtype="float64") for x in (u, a[..., None])))
    found = solver.solve(problem, v, None, gfy.Stop(tol=1e-12, max_steps=5_000))
    assert np.abs(library.to_numpy(found.p) - response(low)).max() < 1e-7
    assert library.to_numpy(found.converged).all()


@pytest.mark.parametrize("simplex", [False, True])
def test_daqp_sets_up_a_shared_matrix_once_per_thread(
    simplex: bool, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    daqp = pytest.importorskip("daqp")

    def anew(*_: Any, **__: Any) -> None:
        raise AssertionError("the matrix was set up again")

    monkeypatch.setattr(daqp, "solve", anew)
    problem = problem_of(gfy.Simplex() if simplex else gfy.Box(0.0, 1.0), False)
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        v, expected = truth[simplex, False, True]
        found = solvers.Daqp().solve(problem, v, None, TIGHT)
        assert np.abs(found.p - expected).max() < 1e-9
        assert found.converged.all()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_proxsuite_finds_the_solution_with_one_thread_and_with_several(
    threads: str, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("proxsuite")
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    for simplex in (False, True):
        v, expected = truth[simplex, False, False]
        problem = problem_of(gfy.Simplex() if simplex else gfy.Box(0.0, 1.0), False)
        found = solvers.Proxsuite().solve(problem, v, None, TIGHT)
        assert np.abs(found.p - expected).max() < 1e-7


@pytest.mark.parametrize(("name", "library"), [("Clarabel", "clarabel"), ("Osqp", "osqp")])
def test_a_lifted_program_is_set_up_once_for_a_shared_matrix(
    name: str, library: str, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library)
    module = importlib.import_module(f"solvers.peers.{library}_native")
    lifted, lift = [], module.lift
    monkeypatch.setattr(module, "lift", lambda given, n: lifted.append(n) or lift(given, n))
    for simplex in (False, True):
        for low_rank in (False, True):
            lifted.clear()
            v, expected = truth[simplex, low_rank, True]
            problem = problem_of(gfy.Simplex() if simplex else gfy.Box(0.0, 1.0), low_rank)
            found = getattr(solvers, name)().solve(problem, v, None, TIGHT)
            assert np.abs(found.p - expected).max() < 1e-6
            assert lifted == [0]
