"""Weak regularizers: an entropy with a small gamma is neither smooth nor a barrier, and p* is nearly a vertex."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from gfy.numerics import native
from solvers.methods import sweeps

BOX, SIMPLEX, CAPPED = gfy.Box(0.0, 1.0), gfy.Simplex(), gfy.CappedSimplex(3)
GAMMAS = (1.0, 0.1, 1e-2, 1e-4, 1e-6)
OMEGAS = {
    "Shannon": gfy.Shannon,
    "BinaryShannon": gfy.BinaryShannon,
    "Tsallis": lambda gamma: gfy.Tsallis(1.5, gamma),
    "Gini": gfy.Gini,
}


def dense(batch: int, k: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(batch, k, k))
    return 3 * rng.normal(size=(batch, k)), -(root @ np.swapaxes(root, -1, -2))


def maximum(u: np.ndarray, U: np.ndarray, gamma: float, total: float | None) -> float:
    """max <u, p> + <p, U p> / 2 + gamma entropy(p) on [0, 1]^k, by CVXPY."""
    cp = pytest.importorskip("cvxpy")
    p = cp.Variable(len(u))
    root = np.linalg.cholesky(-U + 1e-12 * np.eye(len(u)))
    objective = u @ p - 0.5 * cp.sum_squares(root.T @ p) + gamma * cp.sum(cp.entr(p))
    limits = [p >= 0, p <= 1] + ([] if total is None else [cp.sum(p) == total])
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # an answer that Clarabel calls inaccurate is held to the same tolerance
        value = float(cp.Problem(cp.Maximize(objective), limits).solve(solver="CLARABEL"))
    if not np.isfinite(value):
        pytest.skip("Clarabel did not solve the reference")
    return value


@pytest.mark.thin(3)
@pytest.mark.parametrize("gamma", [0.1, 1e-3, 1e-6])
@pytest.mark.parametrize("domain", [BOX, SIMPLEX, CAPPED], ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("solver", "compiled"),
    [
        pytest.param(solvers.CoordinateAscent(), False, marks=pytest.mark.slow),  # thousands of trades
        (solvers.Auto(), True),
        (solvers.Auto(), False),
    ],
    ids=["CoordinateAscent", "Auto-compiled", "Auto-framework"],
)
def test_the_maximum_is_found(
    solver: Any, compiled: bool, domain: Any, gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coordinate ascent called itself converged at values lower by 6 to 10, Auto at values lower by 0.3 to 2."""
    pytest.importorskip("torch")
    if compiled:
        pytest.importorskip("numba")
    monkeypatch.setattr(native, "installed", lambda: compiled)
    u, U = dense(2)
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Shannon(gamma), domain)
    v = problems.place(gfy.LinearQuadratic.Input(u, U), "torch")
    found = solver.solve(problem, v)
    assert bool(found.converged.all())
    values = problem.value(v, found.p).numpy()
    for n in range(2):
        assert abs(values[n] - maximum(u[n], U[n], gamma, domain.total)) <= 1e-6 * max(1.0, abs(values[n]))


@pytest.mark.thin(4)
@pytest.mark.parametrize("low", [False, True], ids=["dense", "low-rank"])
@pytest.mark.parametrize("domain", [BOX, SIMPLEX, CAPPED], ids=lambda d: d.name)
@pytest.mark.parametrize("name", OMEGAS)
def test_interior_points_need_few_steps(name: str, domain: Any, low: bool) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    for gamma in GAMMAS:
        if low:
            energy: Any = gfy.Pairwise()
            v: Any = problems.pairwise(rng, 5, 8, 2, scale=3.0)
        else:
            energy, v = gfy.LinearQuadratic(), gfy.LinearQuadratic.Input(*dense(5, seed=2))
        problem = gfy.InnerProblem(energy, OMEGAS[name](gamma), domain)
        v = problems.place(v, "torch")
        found = solvers.InteriorPoint().solve(problem, v)
        assert bool(found.converged.all())
        assert int(found.steps.max()) <= 25
        assert problems.relative_gap(problem, v, found.p).max() <= 1e-10


@pytest.mark.parametrize("energy", ["spen", "icnn"])
def test_networks_with_a_weak_entropy(energy: str) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    kind: Any = gfy.ConcaveSpen("softplus") if energy == "spen" else gfy.InputConvexNetwork("softplus")
    v = problems.place(getattr(problems, energy)(rng, 3, 5), "torch")
    for gamma in (1e-2, 1e-5):
        problem = gfy.InnerProblem(kind, gfy.BinaryShannon(gamma), BOX)
        found = solvers.Auto().solve(problem, v)
        assert bool(found.converged.all())
        assert problems.relative_gap(problem, v, found.p).max() <= 1e-8


def test_a_loss_is_never_negative(backend: str) -> None:
    """L(v, y) >= 0 for every y in C: at small gamma it fell to -2 because the maximum was not found."""
    u, U = dense(4)
    v = problems.place(gfy.LinearQuadratic.Input(u, U), backend)
    rng = np.random.default_rng(0)
    for domain in (BOX, SIMPLEX):
        problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Shannon(1e-3), domain)
        loss = gfy.FenchelYoungLoss(problem)
        corners = domain.vertices(8)
        targets = [corners[rng.integers(len(corners), size=4)] for _ in range(6)]
        best = gfy.get_backend(backend).to_numpy(loss.predict(v))
        for y in (*targets, best):
            values = np.asarray(gfy.get_backend(backend).to_numpy(loss(v, problems.place(y, backend))))
            assert (values >= -1e-12 * (1 + np.abs(u).max())).all(), values


@pytest.mark.parametrize("name", ["Shannon", "BinaryShannon", "Tsallis"])
@pytest.mark.parametrize("gamma", [1e3, 1.0, 1e-2, 1e-6])
def test_coordinate_updates_are_exact(name: str, gamma: float) -> None:
    """s x - h x^2 / 2 - omega(x) has no higher value on a grid that is refined around the answer."""
    rng = np.random.default_rng(0)
    omega = OMEGAS[name](gamma)
    s = rng.normal(size=300) * 10.0 ** rng.uniform(-3, 3, size=300)
    h = 10.0 ** rng.uniform(-4, 3, size=300)
    h[:20] = 0.0

    def value(x: np.ndarray) -> np.ndarray:
        return np.asarray(s * x - h * x * x / 2 - omega.coordinate_value(x))

    with np.errstate(all="ignore"):
        x = sweeps.best_coordinate(omega, s, h, 0.0, 1.0, 0 * s + 0.5)
    highest = value(x)
    slack = 1e-14 * (gamma + np.abs(s) + h)
    for center in (0.5, x):
        for width in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
            for step in np.linspace(-1, 1, 41):
                assert (value(np.clip(center + width * step, 0.0, 1.0)) <= highest + slack).all()
    assert ((x >= 0) & (x <= 1)).all()


def test_unsolved_examples_are_solved_by_the_next(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Auto keeps what its first choice solved, and asks the next about the rest alone."""
    u, U = dense(4)
    U = U * np.array([1e-6, 1.0, 1e-6, 1.0])[:, None, None]  # two of four are easy
    v = problems.place(gfy.LinearQuadratic.Input(u, U), backend)
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryShannon(1e-4), BOX)
    asked: list[int] = []
    original = solvers.InteriorPoint.solve

    def counted(self: Any, problem: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(v.u.shape[0])
        return original(self, problem, v, *args, **kwargs)

    monkeypatch.setattr(solvers.InteriorPoint, "solve", counted)
    monkeypatch.setattr("solvers.kernels.call.serves", lambda *_: False)  # compiled code solves them all
    first = solvers.Auto().choose(problem, v).solver.solve(problem, v, stop=gfy.Stop(1e-8, 300))
    found = solvers.Auto().solve(problem, v)
    left = int((~np.asarray(first.converged)).sum())
    assert 0 < left < 4, "choose other data"
    assert asked == [left]
    assert bool(np.asarray(found.converged).all())
    kept = np.asarray(first.converged)
    np.testing.assert_array_equal(np.asarray(found.p)[kept], np.asarray(first.p)[kept])


def test_interior_points_without_a_regularizer_end_at_rounding() -> None:
    """Steps beyond rounding ended in numbers that are not finite, in float32, and the answer was called unsolved."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 4, 4))
    u, U = rng.normal(size=(6, 4)), -root @ root.swapaxes(1, 2) / 4
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Zero(), gfy.Simplex())
    v = gfy.LinearQuadratic.Input(*(torch.tensor(x, dtype=torch.float32) for x in (u, U)))
    found = solvers.InteriorPoint().solve(problem, v)
    assert bool(found.converged.all())
    judged = gfy.certify(problem, v, found.p)
    assert (judged.gap / np.maximum(1, np.abs(judged.value))).max() <= 16 * np.finfo(np.float32).eps


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("domain", [gfy.Simplex(), gfy.CappedSimplex(2)], ids=["simplex", "capped"])
def test_interior_points_without_a_regularizer_in_single_precision(domain: Any, backend: str) -> None:
    """Where Omega is zero and U has a low rank, steps in float32 lost their digits, in a quarter of these examples."""
    module = pytest.importorskip("jax.numpy" if backend == "jax" else "torch")
    rng = np.random.default_rng(0)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), domain)
    for rank in (1, 2):
        u, A = (rng.normal(size=shape).astype(np.float32) for shape in ((12, 5), (12, 5, rank)))
        v = gfy.Pairwise.Input(module.asarray(u), module.asarray(A))
        found = solvers.InteriorPoint().solve(problem, v)
        assert found.p.dtype == module.float32
        assert bool(found.converged.all())
        # A score u_j - (A A^T p)_j is known up to 16 eps (|score_j| + h_j sum_i h_i p_i), h_j the norm of row j
        # of A, and C is 1 wide; the sum of its terms adds 16 eps times their sizes.
        p = np.asarray(found.p, dtype=np.float64)
        score, h = np.abs(u - np.einsum("bir,bjr,bj->bi", A, A, p)), np.linalg.norm(A, axis=-1)
        floor = (score + h * (h * p).sum(-1, keepdims=True)).sum(-1) + (score * p).sum(-1)
        assert (gfy.certify(problem, v, found.p).gap <= 16 * np.finfo(np.float32).eps * floor).all()
        assert np.abs(p.sum(-1) - domain.total).max() <= 1e-6


@pytest.mark.parametrize(
    "domain", [gfy.Simplex(), gfy.CappedSimplex(2), gfy.Box(0.0, 1.0)], ids=lambda c: c.name
)
def test_interior_points_without_a_regularizer_keep_their_digits(domain: Any) -> None:
    """Two of a thousand examples ended at a gap of 1e-8 or in NaN, others on each processor."""
    pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), domain)
    rng = np.random.default_rng(0)
    for rank in (1, 2):
        v = problems.place(problems.pairwise(rng, 600, 5, rank), "torch")
        found = solvers.InteriorPoint().solve(problem, v)
        assert bool(found.converged.all())
        assert int(found.steps.max()) <= 40
        assert problems.relative_gap(problem, v, found.p).max() <= 1e-8
