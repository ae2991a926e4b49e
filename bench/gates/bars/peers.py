"""Call the peers, each as its own documentation shows, tuned only in its tolerance."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.gates.bars.contenders import Build, certified, solver_contender
from bench.gates.bars.ladder import Contender
from bench.gates.bars.line import Scale
from bench.measure.programs import set_up
from bench.plan.registry import make_solver
from bench.problems.base import Named
from gfy.errors import UnsupportedError


def adapter(name: str, backend: str = "torch", max_steps: int = 10_000) -> Callable[[Named, Scale], Build]:
    """Return a peer behind its adapter of `solvers.peers`, staged where it is a JAX library."""

    def make(workload: Named, scale: Scale) -> Build:
        solver = _serving(name, workload)
        where = backend if backend in scale.backends else scale.backends[0]
        return solver_contender(workload, solver, where, scale, False, max_steps, name)

    return make


def native(name: str) -> Callable[[Named, Scale], Build]:
    """Return a quadratic-programming code on NumPy arrays in its own form: its matrices are made outside the clock."""

    def make(workload: Named, scale: Scale) -> Build:
        import gfy
        from solvers.peers.quadratic import programs

        solver = _serving(name, workload)
        given = programs(workload.problem, workload.inputs, (workload.batch,))
        given.hessian(0)

        def build(tol: float) -> tuple[Contender, Callable[[], Any]]:
            stop = gfy.Stop(tol=tol, max_steps=20_000)

            def solve() -> np.ndarray:
                p: np.ndarray = solver._batch(given, None, stop).p
                return p

            return Contender(name, solve, False, "numpy"), lambda: _feasible(workload, solve())

        return build

    return make


def _serving(name: str, workload: Named) -> Any:
    solver = make_solver(name)
    reason = solver.unsupported(workload.problem)
    if reason is not None:
        raise UnsupportedError(reason)
    return solver


def torch_bisection(workload: Named, scale: Scale) -> Build:
    """Solve the one-dimensional dual of rank 1 by bisection as a user writes it in torch, the whole batch at once."""
    import torch

    u, A = (torch.as_tensor(np.array(x)) for x in (workload.inputs.u, workload.inputs.A))
    a, omega = A[..., 0], workload.problem.regularizer

    def build(tol: float) -> tuple[Contender, Callable[[], Any]]:
        def response(t: Any) -> Any:
            return ((u - a * t[:, None] + omega.tilt) / omega.curvature).clamp(0.0, 1.0)

        def solve() -> Any:
            low, high = a.clamp(max=0.0).sum(-1), a.clamp(min=0.0).sum(-1)
            while float((high - low).max()) > max(tol, 1e-15) * float(high.abs().max()):
                t = (low + high) / 2
                above = t > (a * response(t)).sum(-1)
                high, low, before = torch.where(above, t, high), torch.where(above, low, t), (low, high)
                if torch.equal(before[0], low) and torch.equal(before[1], high):
                    break
            return response((low + high) / 2)

        return Contender("torch bisection by hand", solve, False, "torch"), solve

    return build


def scipy_lbfgsb(workload: Named, scale: Scale) -> Build:
    """Run SciPy's L-BFGS-B on a lean NumPy objective, in a loop over the examples from the middle of the box."""
    from scipy.optimize import minimize

    examples = [_example(workload, i) for i in range(workload.batch)]
    bounds = [(0.0, 1.0)] * workload.k
    start = np.full(workload.k, 0.5)
    negentropy = _shannon if workload.problem.regularizer.entropy == "binary" else _gini

    def solve(tol: float) -> np.ndarray:
        options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 0.0, "gtol": tol}
        found = []
        for v in examples:

            def objective(p: np.ndarray, v: Any = v) -> tuple[float, np.ndarray]:
                up = -(v.A @ (v.A.T @ p)) if hasattr(v, "A") else v.U @ p
                value, slope = negentropy(p)
                return value - p @ (v.u + 0.5 * up), slope - v.u - up

            done = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            found.append(done.x)
        return np.stack(found)

    return lambda tol: (Contender("scipy L-BFGS-B", lambda: solve(tol), False, "numpy"), lambda: solve(tol))


def _gini(p: np.ndarray) -> tuple[float, np.ndarray]:
    return float(p @ (p - 1.0)), 2.0 * p - 1.0


def _shannon(p: np.ndarray) -> tuple[float, np.ndarray]:
    q = np.clip(p, 1e-15, 1.0 - 1e-15)  # log(0) has no gradient
    one, other = np.log(q), np.log1p(-q)
    return float(q @ one + (1.0 - q) @ other), one - other


def cvxpy_clarabel(workload: Named, scale: Scale) -> Build:
    """Run CVXPY with Clarabel for Shannon's entropy on the simplex: U is a constant; it loops over the examples."""
    import cvxpy as cp

    p, u = cp.Variable(workload.k), cp.Parameter(workload.k)
    quadratic = 0.5 * cp.sum_squares(_root(workload, 0).T @ p)
    model = cp.Problem(cp.Maximize(u @ p - quadratic + cp.sum(cp.entr(p))), [cp.sum(p) == 1])

    def settings(tol: float) -> dict[str, Any]:
        return {"solver": cp.CLARABEL, "tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol}

    given = [(u, np.asarray(workload.inputs.u))]
    return _cvxpy_loop("cvxpy + Clarabel", workload, model, p, given, settings)


def _cvxpy_loop(
    name: str,
    workload: Named,
    model: Any,
    p: Any,
    given: Sequence[tuple[Any, Any]],
    settings: Callable[[float], dict[str, Any]],
) -> Build:
    """Solve a compiled problem example by example; `given` are its parameters, each with one value per example."""

    def solve(tol: float) -> np.ndarray:
        found = []
        for n in range(workload.batch):
            for parameter, values in given:
                parameter.value = values[n]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an inaccurate solution is judged by its certificate
                model.solve(**settings(tol))
            found.append(np.asarray(p.value))
        return _feasible(workload, np.stack(found))

    return lambda tol: (Contender(name, lambda: solve(tol), False, "numpy"), lambda: solve(tol))


def jaxopt_mirror_descent(workload: Named, scale: Scale) -> Build:
    """Run jaxopt's mirror descent in the geometry of Shannon's entropy, vmapped and jitted, U shared by the batch.

    It has no line search: its step is 1 / (1 + max |U|), the inverse of the objective's smoothness in that geometry.
    """
    import jax
    import jax.numpy as jnp

    from solvers.peers.jaxopt_shared import jaxopt

    library = jaxopt()
    v = set_up(workload.instance, "jax", scale.device).inputs[-1]
    step = 1.0 / (1.0 + float(np.abs(workload.inputs.U).max()))
    towards = library.MirrorDescent.make_projection_grad(lambda x, _: jax.nn.softmax(x), jnp.log)

    def objective(p: Any, u: Any, U: Any) -> Any:
        return jnp.vdot(p, jnp.log(p)) - jnp.vdot(p, u + 0.5 * (U @ p))

    def build(tol: float) -> tuple[Contender, Callable[[], Any]]:
        peer = library.MirrorDescent(objective, towards, step, maxiter=2_000, tol=tol, unroll=False)
        start = jnp.full(workload.k, 1.0 / workload.k)
        run = jax.jit(jax.vmap(lambda u, U: peer.run(start, None, u, U).params, in_axes=(0, None)))

        def solve() -> Any:
            return jax.block_until_ready(run(v.u, v.U))

        return Contender("jaxopt MirrorDescent", solve, False, "jax"), solve

    return build


def _example(workload: Named, i: int) -> Any:
    ranks = workload.problem.energy.ranks
    cut = {f: x[i] if x.ndim > ranks[f] else x for f, x in workload.inputs._asdict().items()}
    return type(workload.inputs)(**cut)


def _root(workload: Named, i: int) -> np.ndarray:
    """Return a factor R with U = -R R^T of one example."""
    v = _example(workload, i)
    if hasattr(v, "A"):
        return np.asarray(v.A)
    values, vectors = np.linalg.eigh(-np.asarray(v.U))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _feasible(workload: Named, p: np.ndarray) -> np.ndarray:
    """Put back what a splitting method leaves outside by its tolerance; the certificate judges."""
    return np.asarray(workload.problem.domain.project(p))


PEERS: dict[str, tuple[str, Callable[[Named, Scale], Build]]] = {
    "JaxoptBoxCDQP": ("jaxopt", adapter("JaxoptBoxCDQP", "jax")),
    "JaxoptProjectedGradient": ("jaxopt", adapter("JaxoptProjectedGradient", "jax", 2_000)),
    "scipy L-BFGS-B": ("scipy", scipy_lbfgsb),
    "cvxpy + Clarabel": ("cvxpy", cvxpy_clarabel),
    "jaxopt MirrorDescent": ("jaxopt", jaxopt_mirror_descent),
    "MujocoBoxQP": ("mujoco", native("MujocoBoxQP")),
    "Daqp": ("daqp", native("Daqp")),
    "Quadprog": ("quadprog", native("Quadprog")),
    "Piqp": ("piqp", native("Piqp")),
    "Moreau": ("moreau", native("Moreau")),
    "Osqp": ("osqp", native("Osqp")),
    "Clarabel": ("clarabel", native("Clarabel")),
    "Proxsuite": ("proxsuite", native("Proxsuite")),
    "Qpax": ("qpax", adapter("Qpax", "jax")),
    "ScipyFindRoot": ("scipy", adapter("ScipyFindRoot")),
    "JaxoptBisection": ("jaxopt", adapter("JaxoptBisection", "jax")),
    "torch bisection": ("torch", torch_bisection),
    "ByHand": ("torch", adapter("ByHand", "torch", 20_000)),
    "ByHand in JAX": ("jax", adapter("ByHand", "jax", 20_000)),
}
# They run on the processor, whatever device is asked for.
HOST = (
    "scipy L-BFGS-B", "cvxpy + Clarabel", "MujocoBoxQP", "Daqp", "Quadprog", "Piqp", "Moreau", "Osqp", "Clarabel",
    "Proxsuite", "ScipyFindRoot", "torch bisection",
)  # fmt: skip
# These are timed on the whole batch: their time is not proportional to the examples, or they are close rivals.
WHOLE = (
    "MujocoBoxQP", "jaxopt MirrorDescent", "ScipyFindRoot", "JaxoptBisection", "torch bisection", "ByHand",
    "ByHand in JAX", "JaxoptBoxCDQP",
)  # fmt: skip


def peers(
    workload: Named, names: Sequence[str], scale: Scale, target: float, examples: int | None = None
) -> tuple[list[Contender], list[str]]:
    """Return the peers of these names that are installed and run, certified, and a sentence for each other one.

    Where `examples` is given, a code that solves one example after another (on every core that it uses) is timed on the
    first few. Its seconds are scaled to the batch, and its note says so.
    """
    found, absent = [], []
    for name in names:
        library, make = PEERS[name]
        if importlib.util.find_spec(library) is None:
            absent.append(f"{name} is not installed")
            continue
        short = examples is not None and examples < workload.batch and name not in WHOLE
        part = workload.first(examples or 0) if short else workload
        try:
            contender = certified(part, make(part, scale), target)
        except Exception as error:  # the line names a peer that fails, and the others go on
            absent.append(f"{name} failed: {type(error).__name__}: {error}".splitlines()[0])
            continue
        if part is not workload:
            contender.scale = workload.batch / part.batch
            contender.note = f"{contender.note} timed on {part.batch} of {workload.batch} examples".strip()
        found.append(contender)
    return found, absent
