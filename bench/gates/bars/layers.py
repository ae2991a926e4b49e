"""Forward and backward of 64 dense box QPs against the differentiable layers people use.

All differentiate the same number, the sum of the conjugates Omega^Phi(v): the layers through their argmax,
because that is what they offer.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.gates.bars.differentiate import relative
from bench.gates.bars.ladder import LADDER, Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, fastest, milliseconds
from bench.gates.problems import make
from bench.measure.programs import set_up, to_numpy
from bench.problems.base import Named

ACCURACY = 1e-10
Call = Callable[[], Any]  # returns the gradient in (u, U)


def _value_gradient(workload: Named, solver: Any, backend: str, tol: float, scale: Scale) -> Call:
    """Our conjugate and its envelope gradient."""
    import gfy

    bench = set_up(workload.instance, backend, scale.device)
    library, v = bench.backend, bench.inputs[-1]
    stop = gfy.Stop(tol=tol, max_steps=20_000)

    def total(inputs: Any) -> Any:
        return gfy.conjugate(
            workload.problem, inputs, solver=solver, gradient=gfy.Envelope(), stop=stop
        ).sum()

    both = library.jit(library.value_and_grad(total))
    return lambda: tuple(library.sync(both(v))[1])


def _torch_layer(workload: Named, layer: Callable[[Any, Any], Any]) -> Call:
    """A layer p = argmax of a QP in torch: value of its p, then backward through it."""
    import torch

    u0, U0 = (torch.as_tensor(np.array(x)) for x in workload.inputs)

    def run() -> Any:
        u, U = (x.detach().requires_grad_(True) for x in (u0, U0))
        p = layer(u, U)
        value = (p * (u + 0.5 * torch.einsum("bij,bj->bi", U, p)) - p * (p - 1.0)).sum()
        return torch.autograd.grad(value, (u, U))

    return run


def _qplayer(workload: Named, tol: float) -> Call:
    import torch
    from proxsuite.torch.qplayer import QPFunction

    k = workload.k
    eye = torch.eye(k, dtype=torch.float64)
    low, high = torch.zeros(k, dtype=torch.float64), torch.ones(k, dtype=torch.float64)
    none = torch.Tensor().double()
    solve = QPFunction(eps=max(tol, 1e-13), maxIter=1000, eps_backward=max(tol, 1e-13), omp_parallel=True)

    def layer(u: Any, U: Any) -> Any:
        return solve(2.0 * eye - U, -(u + 1.0), none, none, eye, low, high)[0]

    return _torch_layer(workload, layer)


def _qpth(workload: Named, tol: float) -> Call:
    import torch
    from qpth.qp import QPFunction

    k = workload.k
    eye = torch.eye(k, dtype=torch.float64)
    G = torch.cat([eye, -eye])
    h = torch.cat([torch.ones(k), torch.zeros(k)]).double()
    none = torch.Tensor().double()
    solve = QPFunction(verbose=-1, eps=tol, maxIter=50)
    return _torch_layer(workload, lambda u, U: solve(2.0 * eye - U, -(u + 1.0), G, h, none, none))


def _cvxpylayers(workload: Named, tol: float) -> Call:
    import cvxpy as cp
    import torch
    from cvxpylayers.torch import CvxpyLayer

    k = workload.k
    p, u, root = cp.Variable(k), cp.Parameter(k), cp.Parameter((k, k))
    objective = u @ p - 0.5 * cp.sum_squares(root @ p) - cp.sum_squares(p) + cp.sum(p)
    layer = CvxpyLayer(
        cp.Problem(cp.Maximize(objective), [p >= 0, p <= 1]), parameters=[u, root], variables=[p]
    )

    def solve(u: Any, U: Any) -> Any:
        return layer(u, torch.linalg.cholesky(-U).mT, solver_args={"eps": max(tol, 1e-10)})[0]

    return _torch_layer(workload, solve)


LAYERS = {
    "QPLayer": ("proxsuite", _qplayer),
    "qpth": ("qpth", _qpth),
    "cvxpylayers": ("cvxpylayers", _cvxpylayers),
}


def _error(call: Call, truth: np.ndarray) -> float:
    return relative(tuple(call()), truth)


def truth_of(workload: Named) -> np.ndarray:
    """The gradient p*, 1/2 p* p*^T at a solution whose certified distance from p* is at most 1e-11."""
    import gfy
    import solvers

    v = set_up(workload.instance, "torch").inputs[-1]
    p = to_numpy(solvers.ProjectedNewton().solve(workload.problem, v, stop=gfy.Stop(tol=1e-14)).p)
    distance = float(np.max(gfy.certify(workload.problem, workload.inputs, p).distance))
    if distance > 1e-11:
        raise RuntimeError(f"the reference of {workload.name} may be {distance:.1e} away from the solution")
    return np.concatenate([p.ravel(), 0.5 * (p[:, :, None] * p[:, None, :]).ravel()])


def _most_accurate(name: str, make_call: Callable[[float], Call], truth: np.ndarray, ours: bool) -> Contender:
    """At the loosest tolerance whose gradient is right to 1e-10, else at the most accurate one."""
    best: tuple[float, float, Call] | None = None
    for tol in (t for t in LADDER if t <= 1e-6):
        call = make_call(tol)
        error = _error(call, truth)
        if best is None or error < best[0]:
            best = (error, tol, call)
        if error <= ACCURACY:
            break
    assert best is not None
    error, tol, call = best
    return Contender(name, call, ours, tol=tol, note=f"gradient error {error:.0e}")


def _measure(scale: Scale) -> list[Line]:
    import solvers

    workload = make("dense-gini", scale.size(50, 10), scale.size(64, 8))
    truth = truth_of(workload)

    def call(solver: Any, backend: str) -> Callable[[float], Call]:
        return lambda tol: _value_gradient(workload, solver, backend, tol, scale)

    everyone, absent = [], []
    for name in ("CoordinateAscent", "ProjectedNewton", "Auto"):
        for backend in scale.backends:
            made = call(getattr(solvers, name)(), backend)
            everyone.append(_most_accurate(f"{name} + envelope ({backend})", made, truth, True))
    if importlib.util.find_spec("jaxopt"):
        made = call(solvers.JaxoptBoxCDQP(), "jax")
        everyone.append(_most_accurate("jaxopt CD + envelope", made, truth, False))
    for name, (library, build) in LAYERS.items():
        if importlib.util.find_spec(library) is None:
            absent.append(f"{name} is not installed")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            everyone.append(_most_accurate(name, partial(build, workload), truth, False))
    take_turns(everyone, scale.rounds, scale.slice_s)
    return _lines(workload, truth, everyone, absent)


def _lines(workload: Named, truth: np.ndarray, everyone: list[Contender], absent: list[str]) -> list[Line]:
    exact = [c for c in everyone if c.ours and _error(c.call, truth) <= ACCURACY]
    best, rival = fastest(exact), fastest(c for c in everyone if not c.ours)
    what = f"{workload.name}: forward and backward, against the fastest layer"
    if best is None or rival is None:
        missing = (
            "none of ours reached a gradient error of 1e-10" if best is None else "no layer is installed"
        )
        return [Line("layers", what, float("nan"), ">=", 1.0, missing=missing, workload=workload)]
    shown = [
        f"{c.name} {milliseconds(c.seconds)}, {c.note}" for c in (best, *(c for c in everyone if not c.ours))
    ]
    detail = "; ".join([*shown, *absent])
    return [
        Line("layers", what, rival.seconds / best.seconds, ">=", 1.0, detail, workload, tuple(everyone)),
        Line(
            "layers",
            f"{workload.name}: gradient error of {best.name}",
            _error(best.call, truth),
            "<=",
            ACCURACY,
        ),
    ]


BARS = (Bar("layers", "gradients", "64 box QPs, k = 50: faster than every layer, error <= 1e-10", _measure),)
