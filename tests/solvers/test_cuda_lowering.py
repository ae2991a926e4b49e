"""Every solver, problem family and gradient mode is lowered for CUDA on a machine that has none.

JAX lowers no call to the host for a platform that the machine does not have, so such a call is replaced here by a
named one, which can be counted: paths compiled for the processor must leave none, and what needs the host by its
nature (CVXPY and other peers, assignments, projections on hulls) must leave some.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
import solvers

jax = pytest.importorskip("jax")

HOST = "gfy_test_host_call"
CALLBACK = r"custom_call @\w*callback"
COMPILED = "custom_call @gfy_solve"  # the foreign function of solvers.kernels; the bare name is a place in the text too
ON_HOST = (
    "Clarabel", "CvxpyLayers", "CvxpyReference", "Daqp", "Moreau", "MujocoBoxQP", "Osqp", "Piqp", "Proxsuite",
    "PyepoFrankWolfe", "Quadprog", "ScipyFindRoot", "ScipyLBFGSB",
)  # fmt: skip
MODES = {"envelope": gfy.Envelope(), "implicit": gfy.Implicit(), "unrolled": gfy.Unrolled(steps=2)}
SOLVERS = {name: getattr(solvers, name) for name in solvers.__all__}


def shape(*axes: int) -> Any:
    return jax.ShapeDtypeStruct(axes, jax.numpy.float32)


def _best_row(scores: np.ndarray) -> np.ndarray:
    return np.eye(scores.shape[-1])[scores.argmax(-1)]


def _custom(v: Any, p: Any) -> Any:
    return (v * p).sum(-1) - jax.nn.softplus(p).sum(-1)


def _spen(batch: int, k: int) -> Any:
    return gfy.ConcaveSpen.Input(shape(batch, k), shape(4, k), shape(4), shape(4), shape())


def families() -> dict[str, tuple[Any, Any]]:
    """Problems and abstract inputs; "compiled" is large enough for the paths compiled for the processor."""
    box, simplex = gfy.Box(0.0, 1.0), gfy.Simplex()
    points = np.random.default_rng(0).normal(size=(7, 5))
    dense, icnn = gfy.LinearQuadratic.Input, gfy.InputConvexNetwork.Input
    network = icnn(shape(3, 5), shape(4, 5), shape(4), shape(2, 4), shape(2, 5), shape(2), shape(2))
    problem, quadratic = gfy.InnerProblem, gfy.LinearQuadratic()
    return {
        "bilinear": (problem(gfy.Bilinear(), gfy.Shannon(), simplex), gfy.Bilinear.Input(shape(3, 5))),
        "rank 1": (
            problem(gfy.Pairwise(), gfy.BinaryGini(), box),
            gfy.Pairwise.Input(shape(3, 5), shape(3, 5, 1)),
        ),
        "rank 2": (
            problem(gfy.Pairwise(), gfy.Gini(), simplex),
            gfy.Pairwise.Input(shape(3, 5), shape(5, 2)),
        ),
        "compiled": (
            problem(gfy.Pairwise(), gfy.BinaryGini(), box),
            gfy.Pairwise.Input(shape(2048, 32), shape(2048, 32, 2)),
        ),
        "dense": (problem(quadratic, gfy.BinaryGini(), box), dense(shape(3, 5), shape(3, 5, 5))),
        "dense wide": (problem(quadratic, gfy.BinaryGini(), box), dense(shape(600, 40), shape(600, 40, 40))),
        "dense entropy": (problem(quadratic, gfy.BinaryShannon(), box), dense(shape(3, 5), shape(3, 5, 5))),
        "capped": (
            problem(quadratic, gfy.SquaredNorm(), gfy.CappedSimplex(2)),
            dense(shape(3, 5), shape(3, 5, 5)),
        ),
        "ball": (problem(quadratic, gfy.SquaredNorm(), gfy.Ball()), dense(shape(3, 5), shape(5, 5))),
        "reals": (problem(quadratic, gfy.SquaredNorm(), gfy.Reals()), dense(shape(3, 5), shape(5, 5))),
        "birkhoff": (problem(quadratic, gfy.Shannon(), gfy.Birkhoff()), dense(shape(2, 9), shape(9, 9))),
        "birkhoff norm": (
            problem(quadratic, gfy.SquaredNorm(), gfy.Birkhoff()),
            dense(shape(2, 9), shape(9, 9)),
        ),
        "hull": (
            problem(quadratic, gfy.SquaredNorm(), gfy.ConvexHull(points)),
            dense(shape(3, 5), shape(5, 5)),
        ),
        "oracle": (
            problem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.OracleHull(_best_row, 5)),
            gfy.Bilinear.Input(shape(3, 5)),
        ),
        "spen relu": (problem(gfy.ConcaveSpen(), gfy.BinaryGini(), box), _spen(3, 5)),
        "spen": (problem(gfy.ConcaveSpen("softplus"), gfy.BinaryGini(), box), _spen(3, 5)),
        "spen not concave": (problem(gfy.Spen("softplus"), gfy.BinaryGini(), box), _spen(3, 5)),
        "spen relu not concave": (problem(gfy.Spen("relu"), gfy.BinaryGini(), box), _spen(3, 5)),
        "icnn": (problem(gfy.InputConvexNetwork(), gfy.Shannon(), simplex), network),
        "metric": (problem(gfy.Metric(), gfy.SquaredNorm(0.1), box), gfy.Metric.Input(shape(3, 5))),
        "custom": (
            problem(gfy.CustomEnergy(_custom, concave=True, k=5), gfy.BinaryGini(), box),
            gfy.CustomEnergy.Input(shape(3, 5)),
        ),
    }


def needs_host(family: str, solver: str, mode: str) -> bool:
    """Whether the host has a part in it by its nature: the solver is a library of the host, or the set asks it.

    The derivative of a closed form does not depend on the p that a solver found, so that no solver is left in it.
    """
    if family == "bilinear" and mode == "implicit":
        return False
    return (
        solver in ON_HOST
        or (family == "hull" and not (solver == "FrankWolfe" and mode == "envelope"))
        or family == "oracle"
        # its best vertices are assignments; steps that are unrolled ask for none
        or (family == "birkhoff norm" and solver in ("FrankWolfe", "MirrorAscent") and mode != "unrolled")
    )


@pytest.fixture
def named_host_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls to the host become calls of a name that any platform may have."""

    def call(fn: Callable[..., Any], shapes: Any, *args: Any, **options: Any) -> Any:
        flat, form = jax.tree_util.tree_flatten(shapes)
        given = jax.tree_util.tree_leaves(args)
        found = jax.ffi.ffi_call(HOST, flat, vmap_method="broadcast_all")(*given)
        return jax.tree_util.tree_unflatten(form, found)

    monkeypatch.setattr(jax, "pure_callback", call)


def lowered(problem: Any, v: Any, solver: Any, mode: Any) -> str:
    """The program that computes the gradient of the maximum, or of a sum of p*, for CUDA."""

    def scalar(w: Any) -> Any:
        if isinstance(mode, gfy.Envelope):
            return gfy.conjugate(problem, w, solver=solver, gradient=mode).sum()
        return gfy.argmax(problem, w, solver=solver, gradient=mode).sum()

    allowed = [jax.export.DisabledSafetyCheck.custom_call(HOST)]
    exported = jax.export.export(jax.jit(jax.grad(scalar)), platforms=["cuda"], disabled_checks=allowed)(v)
    assert exported.platforms == ("cuda",)
    return str(exported.mlir_module())


def cells() -> list[Any]:
    """Every solver, family and mode; the quick ones are the default solver everywhere and one family per solver."""
    first = {
        "ActiveSet": "dense", "ClosedForm": "bilinear", "CoordinateAscent": "dense", "CvxpyReference": "dense",
        "DualNewton": "compiled", "InteriorPoint": "dense",
        "FrankWolfe": "capped", "JaxoptBoxCDQP": "dense", "JaxoptBoxOSQP": "dense",
        "JaxoptProjectedGradient": "ball", "MirrorAscent": "rank 2", "MultiStart": "spen not concave",
        "ProjectedGradient": "spen", "ProjectedNewton": "dense entropy", "Proxsuite": "dense", "ScipyLBFGSB": "dense",
    }  # fmt: skip
    found = []
    for family in families():
        for solver in SOLVERS:
            for mode in MODES:
                quick = first.get(solver) == family or (solver == "Auto" and mode == "envelope")
                quick = quick and family != "dense wide"
                found.append(pytest.param(family, solver, mode, marks=() if quick else pytest.mark.slow))
    return found


@pytest.mark.thin(6)
@pytest.mark.parametrize(("family", "solver", "mode"), cells())
@pytest.mark.usefixtures("named_host_calls")
def test_lowers_for_cuda(family: str, solver: str, mode: str) -> None:
    problem, v = families()[family]
    method, how = SOLVERS[solver](), MODES[mode]
    reason = method.unsupported(problem) or how.unsupported(problem, method)
    if reason is not None:
        assert len(reason.split()) >= 4
        return
    if family == "compiled" and solver in (
        "JaxoptBisection",
        "ScipyFindRoot",
    ):  # the problem alone is of any rank
        with pytest.raises(gfy.UnsupportedError, match="rank 1"):
            lowered(problem, v, method, how)
        return
    text = lowered(problem, v, method, how)
    assert not re.search(CALLBACK, text)
    assert COMPILED not in text
    assert (HOST in text) == needs_host(family, solver, mode)


def test_a_compiled_path_is_taken_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The family "compiled" has a path for the processor that CUDA must not see: without it the test is empty."""
    pytest.importorskip("numba")
    problem, v = families()["compiled"]
    solve = jax.jit(lambda w: solvers.DualNewton().solve(problem, w).p)
    assert COMPILED in solve.lower(v).as_text()
