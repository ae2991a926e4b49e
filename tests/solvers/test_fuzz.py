"""Hostile inputs: a certified answer or `converged=False` with a finite feasible p; never NaN, never endless."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st

STOP = gfy.Stop(tol=1e-8, max_steps=150)
BOX, SIMPLEX = gfy.Box(0.0, 1.0), gfy.Simplex()
HOSTILE = ("plain", "conditioned", "zero", "duplicate", "active", "huge", "tiny")
SOLVERS: dict[str, Any] = {
    "DualNewton": solvers.DualNewton(),
    "ProjectedGradient": solvers.ProjectedGradient(),
    "ProjectedNewton": solvers.ProjectedNewton(linear_solve="cholesky"),
    "CoordinateAscent": solvers.CoordinateAscent(),
    "FrankWolfe": solvers.FrankWolfe(max_atoms=6),
    "MirrorAscent": solvers.MirrorAscent(),
}
REGULARIZERS = {
    "box": (gfy.BinaryGini(), gfy.BinaryShannon(), gfy.SquaredNorm(0.1)),
    "simplex": (gfy.Gini(), gfy.Shannon(), gfy.Tsallis(1.5)),
}


def hostile(kind: str, seed: int, k: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    u, A = rng.normal(size=(2, k)), rng.normal(size=(2, k, rank))
    if kind == "conditioned":
        A = A * np.logspace(-4, 4, k)[:, None]  # U = -A A^T: 1e16 between its corners
    elif kind == "zero":
        A = 0 * A
    elif kind == "duplicate":
        A, u = np.repeat(A[:, :1], k, axis=1), np.repeat(u[:, :1], k, axis=1)
    elif kind == "active":
        u = 50 * np.sign(u)
    elif kind == "huge":
        u, A = 1e8 * u, 1e3 * A
    elif kind == "tiny":
        u, A = 1e-12 * u, 1e-9 * A
    return u, A


def judge(problem: Any, v: Any, found: Any, size: float) -> None:
    p = np.asarray(gfy.backend_of(v).to_numpy(found.p))
    assert np.isfinite(p).all()
    certificate = gfy.certify(problem, v, found.p)
    assert (certificate.feasibility <= 1e-9).all()
    fine = np.asarray(gfy.backend_of(v).to_numpy(found.converged))
    allowed = 1e-6 * np.maximum(1.0, np.abs(certificate.value)) + 1e-9 * size
    assert (certificate.gap[fine] <= allowed[fine]).all(), (certificate.gap, found)


def build(energy: str, domain: str, regularizer: int, kind: str, seed: int, k: int) -> tuple[Any, Any, float]:
    u, A = hostile(kind, seed, k, 1 + seed % 3)
    omega = REGULARIZERS[domain][regularizer]
    where = BOX if domain == "box" else SIMPLEX
    size = float(np.abs(u).max(initial=0.0) + (A * A).sum((-1, -2)).max(initial=0.0))
    if energy == "pairwise":
        return gfy.InnerProblem(gfy.Pairwise(), omega, where), gfy.Pairwise.Input(u, A), size
    U = -(A @ np.swapaxes(A, -1, -2))
    return gfy.InnerProblem(gfy.LinearQuadratic(), omega, where), gfy.LinearQuadratic.Input(u, U), size


@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=12)
@given(
    energy=st.sampled_from(["pairwise", "dense"]),
    domain=st.sampled_from(["box", "simplex"]),
    regularizer=st.integers(0, 2),
    kind=st.sampled_from(HOSTILE),
    seed=st.integers(0, 10_000),
    k=st.integers(1, 5),
)
def test_torch_survives(
    solver: str, energy: str, domain: str, regularizer: int, kind: str, seed: int, k: int
) -> None:
    pytest.importorskip("torch")
    problem, v, size = build(energy, domain, regularizer, kind, seed, k)
    if SOLVERS[solver].unsupported(problem) is not None:
        return
    v = problems.place(v, "torch")
    judge(problem, v, SOLVERS[solver].solve(problem, v, stop=STOP), size)


@pytest.mark.parametrize("solver", ["DualNewton", "ProjectedGradient"])
def test_jax_survives(solver: str) -> None:
    """One compilation, every hostile kind: the shapes stay, the numbers change."""
    jax = pytest.importorskip("jax")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    work = jax.jit(lambda w: SOLVERS[solver].solve(problem, w, stop=STOP))
    for seed in range(12):
        for kind in HOSTILE:
            u, A = hostile(kind, seed, 5, 1)
            v = problems.place(gfy.Pairwise.Input(u, A), "jax")
            judge(problem, v, work(v), float(np.abs(u).max() + (A * A).sum((-1, -2)).max()))


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32(solver: str, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    if SOLVERS[solver].unsupported(problem) is not None:
        pytest.skip(str(SOLVERS[solver].unsupported(problem)))
    v = problems.place(problems.quadratic(rng, 3, 5), "torch", "float32")
    found = SOLVERS[solver].solve(problem, v, stop=gfy.Stop(1e-8, 400))
    assert "float32" in str(found.p.dtype)
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-4


@pytest.mark.parametrize("solver", SOLVERS)
def test_empty_batch(solver: str, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(), SIMPLEX)
    if SOLVERS[solver].unsupported(problem) is not None:
        problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    make = problems.quadratic if isinstance(problem.energy, gfy.LinearQuadratic) else problems.pairwise
    v = make(rng, 0, 4) if make is problems.quadratic else make(rng, 0, 4, 1)
    found = SOLVERS[solver].solve(problem, problems.place(v, "torch"), stop=STOP)
    assert tuple(found.p.shape) == (0, 4)
