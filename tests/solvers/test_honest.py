"""`converged` implies a small certified gap: every solver, wide ranges of gamma, scale, rank, shape and dtype.

The certificate is computed in float64 from outside. What is allowed beyond the tolerance is `rounding_floor` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from gfy.backend import get_backend, tree_map
from gfy.numerics import chunking, native
from solvers import loop
from solvers.kernels import call
from solvers.verdict import rounding_floor

STOP = gfy.Stop(tol=1e-8, max_steps=40)
# A loop that a user writes by hand claims what such a loop claims; comparisons count how often that is true.
UNJUDGED = {"ByHand"}
SOLVERS: dict[str, Any] = {
    **{name: getattr(solvers, name)() for name in solvers.__all__ if name not in UNJUDGED},
    "ProjectedGradient-spectral": solvers.ProjectedGradient("spectral"),
    "ProjectedNewton": solvers.ProjectedNewton(linear_solve="cholesky"),
}
BOX = gfy.Box(0.0, 1.0)
REGULARIZERS = (
    gfy.Shannon, gfy.BinaryShannon, gfy.Gini, gfy.BinaryGini, gfy.SquaredNorm, lambda g: gfy.Tsallis(1.5, g),
)  # fmt: skip


def draw(rng: np.random.Generator, batch: int, k: int) -> tuple[Any, Any]:
    """A quadratic problem: ranks 1 to k + 2, duplicate and zero columns and labels, any gamma and scale."""
    gamma, scale, size = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-3, 9), 10.0 ** rng.uniform(-3, 4.5)
    omega = REGULARIZERS[rng.integers(len(REGULARIZERS))](gamma)
    domain = (BOX, gfy.Simplex(), gfy.CappedSimplex(0.3 * k + 0.4))[rng.integers(3)]
    rank = int(rng.integers(1, k + 3))
    u, A = scale * rng.normal(size=(batch, k)), size * rng.normal(size=(batch, k, rank))
    kind = rng.integers(5)
    if kind == 0:
        A[..., -1] = A[..., 0]  # a column twice
    elif kind == 1:
        A[..., 0] = 0.0  # a column of zeros: U = 0 at rank 1
    elif kind == 2:
        A[:, -1], u[:, -1] = A[:, 0], u[:, 0]  # two labels that cannot be told apart
    energy: Any = gfy.Pairwise()
    v: Any = gfy.Pairwise.Input(u, A)
    if rng.integers(2):
        energy, v = gfy.LinearQuadratic(), gfy.LinearQuadratic.Input(u, -(A @ np.swapaxes(A, -1, -2)))
    return gfy.InnerProblem(energy, omega, domain), v


def check(problem: Any, v: Any, found: Any, stop: gfy.Stop = STOP) -> np.ndarray:
    """Which examples converged; all that claim to are accurate, and every p is finite and feasible."""
    library = gfy.backend_of(v)
    eps = library.eps(found.p)
    v64, p = tree_map(lambda x: library.to_numpy(x).astype(np.float64), (v, found.p))
    assert np.isfinite(p).all()
    certificate = gfy.certify(problem, v, found.p)  # a matrix in float32 is concave to its own rounding
    assert (certificate.feasibility <= 64 * eps).all()
    size = np.maximum(1.0, np.abs(certificate.value))
    allowed = np.maximum(1e3 * stop.tol, rounding_floor(problem, v64, p, eps=eps) / size)
    result, converged = (np.asarray(library.to_numpy(x)) for x in (found.result, found.converged))
    assert result.shape == converged.shape == p.shape[:-1]
    assert (converged == (result <= gfy.Result.ROUNDING_FLOOR)).all()
    gap = certificate.gap / size
    assert (gap <= allowed)[converged].all(), (problem, gap[converged], allowed[converged], result)
    return converged


def walk(name: str, first: int, wanted: int, dtype: str, framework: str) -> None:
    """Check as many problems as are wanted; those that the solver refuses are passed over."""
    pytest.importorskip(framework)
    solver, refusals = SOLVERS[name], []
    for seed in range(first, first + 100 * wanted):
        rng = np.random.default_rng(seed)
        batch, k = int(rng.choice([1, 3, 70])), int(rng.choice([1, 2, 5, 9]))
        problem, v = draw(rng, batch, k)
        v = problems.place(v, framework, dtype)
        try:
            found = solver.solve(problem, v, stop=STOP)
        except gfy.UnsupportedError as refusal:
            refusals.append(str(refusal))
            continue
        except gfy.GfyValueError as refusal:
            # The reference computes in float64, and a U that was rounded to float32 may not be concave there.
            if dtype == "float64" or "claims to be concave" not in str(refusal):
                raise
            refusals.append(str(refusal))
            continue
        check(problem, v, found)
        wanted -= 1
        if wanted == 0:
            return
    if all("not installed" in refusal for refusal in refusals):
        pytest.skip(refusals[0])
    assert name in NEVER, f"{wanted} further problems are wanted: {set(refusals)}"


# These problems are quadratic on sets without a list of vertices, so that neither solver serves one of them.
NEVER = {"ClosedForm", "PyepoFrankWolfe"}


@pytest.mark.thin(5)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SOLVERS)
def test_converged_is_certified(name: str, dtype: str) -> None:
    walk(name, 100, 6, dtype, "torch")


@pytest.mark.thin(20)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SOLVERS)
def test_converged_is_certified_in_jax(name: str, dtype: str) -> None:
    walk(name, 100, 3, dtype, "jax")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SOLVERS)
def test_converged_is_certified_at_length(name: str, dtype: str) -> None:
    walk(name, 1000, 150, dtype, "torch")


@pytest.mark.parametrize("name", ["Auto", "DualNewton", "InteriorPoint"])
def test_small_batches_are_solved_not_only_honest(name: str) -> None:
    """Honest refusals would pass the tests above: at ordinary scales these three must converge for every gamma."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    for gamma in (1e-6, 1e-3, 1.0, 1e3, 1e6):
        for regularizer in (gfy.BinaryGini(gamma), gfy.BinaryShannon(gamma)):
            problem = gfy.InnerProblem(gfy.Pairwise(), regularizer, BOX)
            v = problems.place(problems.pairwise(rng, 5, 7, 3), "torch")
            assert check(problem, v, SOLVERS[name].solve(problem, v)).all(), regularizer


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compiled_or_not(dtype: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    if compiled:
        pytest.importorskip("numba")
    monkeypatch.setattr(native, "installed", lambda: compiled)
    rng = np.random.default_rng(11)
    for gamma, size in ((1e-6, 30.0), (1e-2, 3.0), (1.0, 1e4), (1e3, 1e-3)):
        problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(gamma), BOX)
        v = problems.pairwise(rng, 9, 12, 4)
        v = problems.place(gfy.Pairwise.Input(v.u, size * v.A), "torch", dtype)
        assert call.serves(problem, v) == compiled
        check(problem, v, solvers.DualNewton().solve(problem, v, stop=STOP))


@pytest.mark.parametrize("name", ["DualNewton", "ProjectedGradient", "CoordinateAscent"])
def test_alone_as_in_a_batch(name: str) -> None:
    """An example has the same flag and the same accuracy whoever is solved beside it, on both sides of the split."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    batch = loop._LONG + 6
    for rank, omega in ((1, gfy.BinaryGini(1e-5)), (3, gfy.BinaryShannon(0.3))):
        problem = gfy.InnerProblem(gfy.Pairwise(), omega, BOX)
        given = problems.pairwise(rng, batch, 6, rank)
        v = problems.place(gfy.Pairwise.Input(given.u, 3 * given.A), "torch")
        stop = gfy.Stop(1e-8, 100)
        together = check(problem, v, SOLVERS[name].solve(problem, v, stop=stop))
        for n in range(0, batch, 11):
            one = gfy.Pairwise.Input(v.u[n], v.A[n])
            assert bool(check(problem, one, SOLVERS[name].solve(problem, one, stop=stop))) == together[n]


@pytest.mark.parametrize(
    ("name", "dtype", "omega"),
    [
        ("DualNewton", "float32", gfy.BinaryGini(0.01)),
        ("DualNewton", "float64", gfy.BinaryShannon(1e-4)),
        ("ProjectedGradient", "float32", gfy.BinaryGini(0.01)),
        ("CoordinateAscent", "float64", gfy.Shannon(1e-3)),
        ("Auto", "float64", gfy.Shannon(1e-4)),
    ],
)
def test_staged(name: str, dtype: str, omega: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One compilation, several scales; the dense ones in chunks of two examples."""
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(chunking, "HEAVY", 1)
    monkeypatch.setattr(chunking, "SIZE", 2 * get_backend("jax").xp.dtype(dtype).itemsize * (36 + 6))
    energy = gfy.Pairwise() if name == "DualNewton" else gfy.LinearQuadratic()
    problem = gfy.InnerProblem(energy, omega, BOX)
    work = jax.jit(lambda w: SOLVERS[name].solve(problem, w, stop=STOP))
    for scale in (1e-3, 1.0, 1e4):
        rng = np.random.default_rng(3)
        u, A = scale * rng.normal(size=(5, 6)), 3 * rng.normal(size=(5, 6, 1 if name == "DualNewton" else 6))
        v = gfy.Pairwise.Input(u, A)
        if name != "DualNewton":
            v = gfy.LinearQuadratic.Input(u, -(A @ np.swapaxes(A, -1, -2)))
        v = problems.place(v, "jax", dtype)
        check(problem, v, work(v))


def test_each_result_has_a_sentence() -> None:
    sentences = {result.sentence for result in gfy.Result}
    assert len(sentences) == len(gfy.Result)
    assert all(sentence.endswith(".") and len(sentence.split()) >= 5 for sentence in sentences)


def test_why_a_solve_ended() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    v = problems.place(problems.quadratic(rng, 3, 5), "torch")
    v.u[1, 0] = float("nan")
    found = solvers.ProjectedGradient().solve(problem, v)
    assert found.result.tolist() == [gfy.Result.CONVERGED, gfy.Result.NOT_FINITE, gfy.Result.CONVERGED]
    assert found.result.dtype == torch.int32
    short = solvers.ProjectedGradient().solve(problem, v, stop=gfy.Stop(1e-8, 2))
    assert short.result.tolist()[0] == gfy.Result.STEP_LIMIT
    kinked = gfy.InnerProblem(gfy.ConcaveSpen("relu"), gfy.BinaryGini(), BOX)
    w = problems.place(problems.spen(rng, 20, 5, 6), "torch")
    stalled = solvers.ProjectedGradient().solve(kinked, w, stop=gfy.Stop(1e-8, 2000))
    assert (stalled.result == int(gfy.Result.STALLED_AT_KINK)).any()


class Boaster:
    """A peer that is content with the middle of the set."""

    name = "Boaster"

    def unsupported(self, problem: Any) -> None:
        return None


def test_a_peer_is_not_believed() -> None:
    pytest.importorskip("torch")
    from solvers.peers.host import on_host

    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    v = problems.place(problems.quadratic(np.random.default_rng(0), 3, 5), "torch")
    content = lambda one, start: (np.full(5, 0.5), 0.0, 1, True)  # noqa: E731
    found = on_host(Boaster(), problem, v, None, STOP, lambda inputs, stop: content)
    assert found.result.tolist() == 3 * [gfy.Result.INACCURATE]
    assert not found.converged.any()


def test_a_direction_that_is_not_finite_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(), gfy.Simplex())
    v = gfy.LinearQuadratic.Input(np.array([[0.3, 0.1, 0.0]]), -np.eye(3)[None])
    solver = solvers.ProjectedNewton()
    state = solver.init(problem, v, None)._replace(safe=np.array([False]))
    for direction in (np.inf, np.nan):
        found = np.full((1, 3), direction)
        monkeypatch.setattr(solvers.ProjectedNewton, "_direction", lambda *_, found=found: found)
        assert np.isfinite(solver.step(problem, v, state).p).all()
