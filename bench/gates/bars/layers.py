"""Measure forward and backward of 64 dense box QPs with dp*/dv, against the differentiable layers people use.

All differentiate the same number, <c, p*(u, U)> for a fixed c, in u and U. The true derivative comes from the linear
system of the free coordinates, written out in NumPy at the solution of another code. Derivatives in U are compared by
their symmetric parts, because layers differ in what they make of a symmetric matrix.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.gates.argmax import argmax_call
from bench.gates.bars.ladder import LADDER, Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, fastest, milliseconds
from bench.gates.problems import make
from bench.measure.programs import set_up, to_numpy
from bench.problems.base import Named

ACCURACY = 1e-10
Call = Callable[[], Any]  # returns the gradient in (u, U)
Built = Callable[[Named, np.ndarray, float], Call]


def _ours(workload: Named, tol: float, backend: str, device: str) -> Call:
    """Return our argmax with implicit derivatives and the default solver."""
    import gfy
    import solvers

    bench = set_up(workload.instance, backend, device)
    call = argmax_call(bench, solvers.Auto(), gfy.Implicit(), tol, 20_000)
    return lambda: tuple(call()[1])


def _torch_layer(workload: Named, cotangent: np.ndarray, layer: Callable[[Any, Any], Any]) -> Call:
    """Return a layer p = argmax of a QP in torch: <c, p>, then backward through it."""
    import torch

    u0, U0, c = (torch.as_tensor(np.array(x)) for x in (*workload.inputs, cotangent))

    def run() -> Any:
        u, U = (x.detach().requires_grad_(True) for x in (u0, U0))
        return torch.autograd.grad((layer(u, U) * c).sum(), (u, U))

    return run


def _jax_layer(workload: Named, cotangent: np.ndarray, one: Callable[[Any, Any], Any]) -> Call:
    """Return a layer for one example in JAX, mapped and staged: <c, p>, and its gradient."""
    import jax
    import jax.numpy as jnp

    u, U, c = (jnp.asarray(np.array(x)) for x in (*workload.inputs, cotangent))
    run = jax.jit(jax.grad(lambda u, U: (jax.vmap(one)(u, U) * c).sum(), (0, 1)))
    return lambda: jax.block_until_ready(run(u, U))


def _qplayer(workload: Named, cotangent: np.ndarray, tol: float) -> Call:
    import torch
    from proxsuite.torch.qplayer import QPFunction

    k = workload.k
    eye = torch.eye(k, dtype=torch.float64)
    low, high = torch.zeros(k, dtype=torch.float64), torch.ones(k, dtype=torch.float64)
    none = torch.Tensor().double()
    solve = QPFunction(eps=max(tol, 1e-13), maxIter=1000, eps_backward=max(tol, 1e-13), omp_parallel=True)

    def layer(u: Any, U: Any) -> Any:
        return solve(2.0 * eye - U, -(u + 1.0), none, none, eye, low, high)[0]

    return _torch_layer(workload, cotangent, layer)


def _qpth(workload: Named, cotangent: np.ndarray, tol: float) -> Call:
    import torch
    from qpth.qp import QPFunction

    k = workload.k
    eye = torch.eye(k, dtype=torch.float64)
    G = torch.cat([eye, -eye])
    h = torch.cat([torch.ones(k), torch.zeros(k)]).double()
    none = torch.Tensor().double()
    solve = QPFunction(verbose=-1, eps=tol, maxIter=50)

    def layer(u: Any, U: Any) -> Any:
        return solve(2.0 * eye - U, -(u + 1.0), G, h, none, none)

    return _torch_layer(workload, cotangent, layer)


def _cvxpylayers(workload: Named, cotangent: np.ndarray, tol: float) -> Call:
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

    return _torch_layer(workload, cotangent, solve)


def _moreau(workload: Named, cotangent: np.ndarray, tol: float) -> Call:
    import moreau
    import torch
    from moreau.torch import Solver

    k, n = workload.k, workload.batch
    solver = Solver(
        n=k, m=2 * k, P_row_offsets=torch.arange(k + 1) * k, P_col_indices=torch.arange(k).repeat(k),
        A_row_offsets=torch.arange(2 * k + 1), A_col_indices=torch.arange(k).repeat(2),
        cones=moreau.Cones(num_nonneg_cones=2 * k),
        settings=moreau.Settings(
            device="cpu", batch_size=n, enable_grad=True,
            active_set_settings=moreau.ActiveSetSettings(primal_tol=max(tol, 1e-14), dual_tol=max(tol, 1e-14)),
        ),
    )  # fmt: skip
    eye = torch.eye(k, dtype=torch.float64)
    one, zero = torch.ones(k, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)
    rows = torch.cat([one, -one]).expand(n, 2 * k).contiguous()
    right = torch.cat([one, zero]).expand(n, 2 * k).contiguous()

    def layer(u: Any, U: Any) -> Any:
        return solver.solve((2.0 * eye - U).reshape(n, k * k), rows, -(u + 1.0), right).x

    return _torch_layer(workload, cotangent, layer)


def _qpax(workload: Named, cotangent: np.ndarray, tol: float) -> Call:
    import jax.numpy as jnp
    import qpax

    k = workload.k
    eye = jnp.eye(k)
    G, h = jnp.concatenate([eye, -eye]), jnp.concatenate([jnp.ones(k), jnp.zeros(k)])
    A, b = jnp.zeros((0, k)), jnp.zeros(0)

    def one(u: Any, U: Any) -> Any:
        given = (2.0 * eye - U, -(u + 1.0), A, b, G, h)
        return qpax.solve_qp_primal(*given, solver_tol=max(tol, 1e-12), target_kappa=max(tol, 1e-12))

    return _jax_layer(workload, cotangent, one)


def _jaxopt(workload: Named, cotangent: np.ndarray, tol: float) -> Call:
    import jax.numpy as jnp

    from solvers.peers.jaxopt_shared import jaxopt

    library, k = jaxopt(), workload.k
    from jaxopt.linear_solve import solve_lu  # jaxopt's default stops at an error of 1e-4

    solver = library.BoxCDQP(maxiter=10_000, tol=tol, implicit_diff_solve=solve_lu)

    def one(u: Any, U: Any) -> Any:
        bounds = (jnp.zeros(k), jnp.ones(k))
        found = solver.run(
            jnp.full(k, 0.5), params_obj=(2.0 * jnp.eye(k) - U, -(u + 1.0)), params_ineq=bounds
        )
        return found.params

    return _jax_layer(workload, cotangent, one)


LAYERS: dict[str, tuple[str, Built]] = {
    "Moreau": ("moreau", _moreau),
    "QPLayer": ("proxsuite", _qplayer),
    "qpax": ("qpax", _qpax),
    "jaxopt BoxCDQP, implicit": ("jaxopt", _jaxopt),
    "qpth": ("qpth", _qpth),
    "cvxpylayers": ("cvxpylayers", _cvxpylayers),
}


def truth_of(workload: Named, cotangent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return z and z p*^T in NumPy, z = (2 I - U)^-1 c on the free coordinates of a p* that another code found.

    Raises:
        RuntimeError: where a coordinate lies so close to its bound that it is not known to be free.
    """
    import gfy
    from solvers.peers.quadprog_qp import Quadprog
    from solvers.peers.quadratic import programs

    given = programs(workload.problem, workload.inputs, (workload.batch,))
    p = np.clip(Quadprog()._batch(given, None, gfy.Stop()).p, 0.0, 1.0)
    slack = np.minimum(p, 1.0 - p)
    free = slack > 1e-7
    if ((slack > 1e-12) & ~free).any():
        raise RuntimeError(f"{workload.name} has a coordinate within 1e-7 of its bound: take another seed")
    z, pairs = np.zeros_like(p), np.zeros_like(given.H)
    for n in range(workload.batch):
        here = np.flatnonzero(free[n])
        block = given.hessian(n)[np.ix_(here, here)]
        held = np.where(free[n], 0.0, np.round(p[n]))
        exact = held.copy()
        exact[here] = np.linalg.solve(block, -(given.g[n] + given.hessian(n) @ held)[here])
        z[n, here] = np.linalg.solve(block, cotangent[n, here])
        pairs[n] = np.outer(z[n], exact)
    return z, pairs


def _error(call: Call, truth: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the largest relative error of the two leaves; only the symmetric part of U's counts."""
    u, U = (to_numpy(x) for x in call())
    worst = 0.0
    for found, exact in ((u, truth[0]), (_even(U), _even(truth[1]))):
        worst = max(worst, float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))
    return worst if np.isfinite(worst) else float("inf")


def _even(U: np.ndarray) -> np.ndarray:
    return (U + np.swapaxes(U, -1, -2)) / 2


def _most_accurate(
    name: str, build: Callable[[float], Call], truth: Any, own: bool, backend: str
) -> Contender:
    """Return the contender at the loosest tolerance whose error meets the bar, or that is about as good as its best."""
    tried: list[tuple[float, float, Call]] = []
    for tol in LADDER[1::3]:
        call = build(tol)
        tried.append((_error(call, truth), tol, call))
        if tried[-1][0] <= ACCURACY or (len(tried) > 1 and tried[-1][0] > 0.5 * tried[-2][0]):
            break
    best = min(error for error, _, _ in tried)
    error, tol, call = next(t for t in tried if t[0] <= max(ACCURACY, 2.0 * best))
    return Contender(name, call, own, backend, tol, note=f"gradient error {error:.0e}")


def _measure(scale: Scale) -> list[Line]:
    workload = make("dense-gini", scale.size(50, 6), scale.size(64, 4))
    cotangent = to_numpy(set_up(workload.instance, scale.backends[0]).cotangent)
    truth = truth_of(workload, cotangent)
    everyone, absent = [], []
    for backend in scale.backends:
        build = lambda tol, b=backend: _ours(workload, tol, b, scale.device)  # noqa: E731
        everyone.append(_most_accurate(f"Auto + implicit in {backend}", build, truth, True, backend))
    for name, (library, peer) in LAYERS.items():
        if importlib.util.find_spec(library) is None:
            absent.append(f"{name} is not installed")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = partial(peer, workload, cotangent)
                everyone.append(_most_accurate(name, made, truth, False, ""))
            except Exception as error:  # the line names a peer that fails, and the others go on
                absent.append(f"{name} failed: {type(error).__name__}: {error}".splitlines()[0])
    take_turns(everyone, scale.rounds, min(scale.slice_s, 0.1), patience_s=2.0)
    return _lines(workload, truth, everyone, absent)


def _lines(workload: Named, truth: Any, everyone: list[Contender], absent: list[str]) -> list[Line]:
    theirs = [c for c in everyone if not c.ours]
    rival = fastest(theirs)
    shown = [f"{c.name} {milliseconds(c.seconds)}, {c.note}" for c in theirs]
    lines = []
    for mine in (c for c in everyone if c.ours):
        what = f"{workload.name}: {mine.backend}, forward and backward with dp*/dv, against the fastest layer"
        if rival is None:
            lines.append(Line("layers", what, float("nan"), ">=", 3.0, missing="no layer is installed"))
            continue
        own = f"{mine.name} {milliseconds(mine.seconds)}, {mine.note}"
        ratio, detail = rival.seconds / mine.seconds, "; ".join([own, *shown, *absent])
        lines.append(Line("layers", what, ratio, ">=", 3.0, detail, workload, tuple(everyone)))
        what = f"{workload.name}: {mine.backend}, relative error of the gradient of <c, p*>"
        lines.append(Line("layers", what, _error(mine.call, truth), "<=", ACCURACY, mine.note, workload))
    return lines


BARS = (Bar("layers", "64 box QPs, k = 50, dp*/dv: >= 3 x every layer, error <= 1e-10", _measure),)
