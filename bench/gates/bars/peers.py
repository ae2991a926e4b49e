"""The peers, each used the way its own documentation shows, tuned only in its tolerance."""

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
from bench.store.environment import cores
from gfy.errors import UnsupportedError


def jaxopt_adapter(name: str, max_steps: int = 10_000) -> Callable[[Named, Scale], Build]:
    """A jaxopt solver behind its adapter: vmapped over the batch and jitted; its own default is 500 steps."""

    def make(workload: Named, scale: Scale) -> Build:
        import solvers

        return solver_contender(workload, getattr(solvers, name)(), "jax", scale, False, max_steps, name)

    return make


def adapter(name: str, backend: str = "torch", max_steps: int = 10_000) -> Callable[[Named, Scale], Build]:
    """A peer behind its adapter of `solvers.peers`: called on the host, or staged where it is a JAX library."""

    def make(workload: Named, scale: Scale) -> Build:
        solver = make_solver(name)
        reason = solver.unsupported(workload.problem)
        if reason is not None:
            raise UnsupportedError(reason)
        where = backend if backend in scale.backends else scale.backends[0]
        return solver_contender(workload, solver, where, scale, False, max_steps, name)

    return make


def scipy_lbfgsb(workload: Named, scale: Scale) -> Build:
    """SciPy's L-BFGS-B on a lean NumPy objective, a loop over the examples from the middle of the box."""
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


def cvxpy_osqp(workload: Named, scale: Scale) -> Build:
    """CVXPY with OSQP: one parametrised (DPP) problem compiled once, a loop over the examples."""
    import cvxpy as cp

    k = workload.k
    p = cp.Variable(k)
    u, root = cp.Parameter(k), cp.Parameter(_root(workload, 0).shape)
    on_simplex = workload.problem.domain.simplex
    # BinaryGini is <p, p - 1>; Gini on the simplex is half of it.
    gini = (cp.sum_squares(p) - cp.sum(p)) * (0.5 if on_simplex else 1.0)
    limits = [p >= 0, cp.sum(p) == 1] if on_simplex else [p >= 0, p <= 1]
    model = cp.Problem(cp.Maximize(u @ p - 0.5 * cp.sum_squares(root.T @ p) - gini), limits)
    roots = [_root(workload, i) for i in range(workload.batch)]

    def settings(tol: float) -> dict[str, Any]:
        return {"solver": cp.OSQP, "eps_abs": tol, "eps_rel": tol, "max_iter": 100_000, "polishing": True}

    given = [(u, np.asarray(workload.inputs.u)), (root, roots)]
    return _cvxpy_loop("cvxpy + OSQP", workload, model, p, given, settings)


def cvxpy_clarabel(workload: Named, scale: Scale) -> Build:
    """CVXPY with Clarabel, for Shannon's entropy on the simplex: U is a constant; a loop over the examples."""
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
    """A compiled problem solved example by example; `given` are its parameters, each with a value an example."""

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
    """jaxopt's mirror descent in the geometry of Shannon's entropy, vmapped and jitted, U shared by the batch.

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


def proxsuite_dense(workload: Named, scale: Scale) -> Build:
    """proxsuite's dense solver on the whole batch, on all cores; its matrices are made outside the clock."""
    from proxsuite import proxqp

    k = workload.k
    hessians = [_root(workload, i) @ _root(workload, i).T + 2.0 * np.eye(k) for i in range(workload.batch)]
    scores = np.asarray(workload.inputs.u)
    low, high = np.zeros(k), np.ones(k)

    def solve(tol: float) -> np.ndarray:
        batch = proxqp.dense.VectorQP()
        for hessian, score in zip(hessians, scores, strict=True):
            qp = proxqp.dense.QP(k, 0, 0, True)
            qp.settings.eps_abs, qp.settings.eps_rel = tol, 0.0
            qp.init(hessian, -(score + 1.0), None, None, None, None, None, low, high)
            batch.append(qp)
        proxqp.dense.solve_in_parallel(batch, cores())
        return np.clip(np.stack([qp.results.x for qp in batch]), 0.0, 1.0)

    return lambda tol: (Contender("proxsuite", lambda: solve(tol), False, "numpy"), lambda: solve(tol))


def _example(workload: Named, i: int) -> Any:
    ranks = workload.problem.energy.ranks
    cut = {f: x[i] if x.ndim > ranks[f] else x for f, x in workload.inputs._asdict().items()}
    return type(workload.inputs)(**cut)


def _root(workload: Named, i: int) -> np.ndarray:
    """A factor R with U = -R R^T of one example."""
    v = _example(workload, i)
    if hasattr(v, "A"):
        return np.asarray(v.A)
    values, vectors = np.linalg.eigh(-np.asarray(v.U))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _feasible(workload: Named, p: np.ndarray) -> np.ndarray:
    """What a splitting method leaves outside by its tolerance is put back; the certificate judges."""
    return np.asarray(workload.problem.domain.project(p))


PEERS: dict[str, tuple[str, Callable[[Named, Scale], Build]]] = {
    "JaxoptBoxCDQP": ("jaxopt", jaxopt_adapter("JaxoptBoxCDQP")),
    "JaxoptProjectedGradient": ("jaxopt", jaxopt_adapter("JaxoptProjectedGradient", 2_000)),
    "JaxoptBoxOSQP": ("jaxopt", jaxopt_adapter("JaxoptBoxOSQP")),
    "scipy L-BFGS-B": ("scipy", scipy_lbfgsb),
    "cvxpy + OSQP": ("cvxpy", cvxpy_osqp),
    "cvxpy + Clarabel": ("cvxpy", cvxpy_clarabel),
    "jaxopt MirrorDescent": ("jaxopt", jaxopt_mirror_descent),
    "proxsuite": ("proxsuite", proxsuite_dense),
    "MujocoBoxQP": ("mujoco", adapter("MujocoBoxQP")),
    "Daqp": ("daqp", adapter("Daqp")),
    "Quadprog": ("quadprog", adapter("Quadprog")),
    "Piqp": ("piqp", adapter("Piqp")),
    "Moreau": ("moreau", adapter("Moreau")),
    "Qpax": ("qpax", adapter("Qpax", "jax")),
    "Osqp": ("osqp", adapter("Osqp")),
    "Clarabel": ("clarabel", adapter("Clarabel")),
    "Proxsuite": ("proxsuite", adapter("Proxsuite")),
    "ScipyFindRoot": ("scipy", adapter("ScipyFindRoot")),
    "JaxoptBisection": ("jaxopt", adapter("JaxoptBisection", "jax")),
    "ByHand": ("torch", adapter("ByHand", "torch", 20_000)),
    "ByHand in JAX": ("jax", adapter("ByHand", "jax", 20_000)),
}
# Their time is proportional to the number of examples.
LOOPS = (
    "scipy L-BFGS-B", "cvxpy + OSQP", "cvxpy + Clarabel", "MujocoBoxQP", "Quadprog", "Piqp", "Osqp", "Clarabel",
)  # fmt: skip


def peers(
    workload: Named, names: Sequence[str], scale: Scale, target: float, examples: int | None = None
) -> tuple[list[Contender], list[str]]:
    """The peers of these names that are installed and run, certified; and a sentence for each that is not.

    A loop over examples may be timed on the first few: its seconds are scaled to the batch, and it says so.
    """
    found, absent = [], []
    for name in names:
        library, make = PEERS[name]
        if importlib.util.find_spec(library) is None:
            absent.append(f"{name} is not installed")
            continue
        part = workload.first(examples) if examples and name in LOOPS else workload
        try:
            contender = certified(part, make(part, scale), target)
        except Exception as error:  # a peer that breaks down is told in the line, and the others go on
            absent.append(f"{name} failed: {type(error).__name__}: {error}".splitlines()[0])
            continue
        if part is not workload:
            contender.scale = workload.batch / part.batch
            contender.note = f"{contender.note} timed on {part.batch} of {workload.batch} examples".strip()
        found.append(contender)
    return found, absent
