"""Every solver on every problem it serves, judged by the certificate alone; at small k as well as large."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers

OURS = {
    "Auto": solvers.Auto(),
    "ClosedForm": solvers.ClosedForm(),
    "CoordinateAscent": solvers.CoordinateAscent(),
    "CoordinateAscent-shuffled": solvers.CoordinateAscent(order="shuffled", seed=3),
    "DualNewton": solvers.DualNewton(),
    "FrankWolfe": solvers.FrankWolfe(),
    "MirrorAscent": solvers.MirrorAscent(),
    "ProjectedGradient": solvers.ProjectedGradient(),
    "ProjectedGradient-spectral": solvers.ProjectedGradient("spectral"),
    "ProjectedGradient-backtracking": solvers.ProjectedGradient("backtracking"),
    "ProjectedNewton": solvers.ProjectedNewton(linear_solve="cholesky"),
    "ProjectedNewton-cg": solvers.ProjectedNewton(linear_solve="cg"),
}
# sublinear or slow by nature: judged at fewer digits
SLOW = {"MirrorAscent": 1e-7, "FrankWolfe": 1e-6}
STOP = gfy.Stop(tol=1e-9, max_steps=500)


def check(
    solver_name: str, problem: object, v: object, backend: str, jit: bool = False, stop: gfy.Stop = STOP
) -> None:
    solver = OURS[solver_name]
    reason = solver.unsupported(problem)
    if reason is not None:
        pytest.skip(reason)
    arrays = problems.place(v, backend)
    work = gfy.get_backend(backend).jit(lambda w: solver.solve(problem, w, stop=stop))
    found = work(arrays) if jit else solver.solve(problem, arrays, stop=stop)
    gap = problems.relative_gap(problem, arrays, found.p)
    assert gap.max() <= SLOW.get(solver_name, 1e-10), f"{solver_name}: {gap}"
    assert tuple(found.steps.shape) == tuple(found.converged.shape) == gap.shape
    if solver_name not in SLOW:
        assert bool(found.converged.all())


def pairs() -> list[tuple[str, str]]:
    """Every solver and problem; the methods that take thousands of small steps on a few problems of each kind."""
    few = {
        "MirrorAscent": ("shared-shannon-simplex", "dense-shannon-box", "dense-tsallis-simplex"),
        "FrankWolfe": ("shared-gini-simplex", "dense-norm-hull", "shared-shannon-simplex"),
        "CoordinateAscent": (
            "rank1-gini-box", "rank2-gini-box", "dense-gini-box", "rank2-gini-simplex", "dense-norm-capped",
            "dense-tsallis-simplex",
        ),
        "CoordinateAscent-shuffled": ("dense-gini-box", "rank1-norm-uneven"),
        "ProjectedGradient-backtracking": ("dense-gini-box", "dense-norm-ball", "rank1-shannon-box"),
        "ProjectedGradient-spectral": ("dense-gini-box", "shared-gini-simplex", "icnn-gini-box"),
    }  # fmt: skip
    return [(solver, name) for solver in OURS for name in few.get(solver, problems.NAMES)]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("solver", "name"), pairs())
def test_torch_certified(solver: str, name: str, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    if name in problems.KINKED and solver.startswith("ProjectedGradient"):
        pytest.skip("gradient steps stall at kinks and say so: see test_projected_gradient")
    problem, v = problems.catalogue(rng)[name]
    check(solver, problem, v, "torch")


# JAX compiles for every problem: each solver where it matters most
@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("solver", "name"),
    [
        ("DualNewton", "rank1-gini-box"),
        ("DualNewton", "rank2-shannon-simplex"),
        ("DualNewton", "spen-relu-gini-box"),
        ("CoordinateAscent", "dense-gini-box"),
        ("CoordinateAscent", "rank2-gini-simplex"),
        ("ProjectedGradient", "dense-norm-hull"),
        ("ProjectedGradient", "dense-shannon-box"),
        ("ProjectedNewton", "shared-gini-simplex"),
        ("ProjectedNewton-cg", "icnn-gini-box"),
        ("FrankWolfe", "dense-norm-birkhoff"),
        ("MirrorAscent", "shared-shannon-simplex"),
        ("Auto", "dense-norm-capped"),
    ],
)
def test_jax_certified(solver: str, name: str, rng: np.random.Generator) -> None:
    pytest.importorskip("jax")
    problem, v = problems.catalogue(rng)[name]
    check(solver, problem, v, "jax", jit=True)


@pytest.mark.thin(3)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("solver", ["DualNewton", "CoordinateAscent", "ProjectedNewton", "ProjectedGradient"])
def test_small_dimensions(solver: str, k: int, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    for regularizer in (gfy.BinaryGini(), gfy.BinaryShannon()):
        problem = gfy.InnerProblem(gfy.Pairwise(), regularizer, gfy.Box(0.0, 1.0))
        check(solver, problem, problems.pairwise(rng, 7, k, 1), "torch")


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["DualNewton", "CoordinateAscent", "ProjectedNewton", "ProjectedGradient"])
def test_large_dimension(solver: str, backend: str, rng: np.random.Generator) -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    # strongly coupled labels: coordinate ascent takes 5,000 sweeps
    check(solver, problem, problems.pairwise(rng, 4, 700, 3), backend, jit=True, stop=gfy.Stop(1e-9, 10_000))
