"""Call OSQP directly, without a modelling layer, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer
from solvers.peers.lifted import lift, linear, shared
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class Osqp(QuadraticPeer):
    """Solve quadratic problems by OSQP, one example at a time; a shared matrix is set up once.

    Where the interactions have low rank, the problem is lifted (see `solvers.peers.lifted`).

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Stellato, Banjac, Goulart, Bemporad and Boyd (2020).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[3.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Osqp().solve(problem, v).p.tolist()
        [[1.0, 0.333]]
    """

    library = "osqp"

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        n, k = given.g.shape
        p, steps, solved = np.empty((n, k)), np.empty(n), np.empty(n, dtype=bool)
        solver = None
        for i in range(n):
            if solver is None or not shared(given):
                solver = _set_up(given, i, stop)
            else:
                solver.update(q=linear(given, i))
            if start is not None:
                A = given.factor(i)
                solver.warm_start(x=start[i] if A is None else np.concatenate([start[i], A.T @ start[i]]))
            found = solver.solve(raise_error=False)
            p[i], steps[i], solved[i] = found.x[:k], found.info.iter, found.info.status == "solved"
        return Answer(p, steps, solved)


def _set_up(given: Programs, i: int, stop: Stop) -> Any:
    import osqp
    from scipy import sparse

    whole, k = lift(given, i), given.g.shape[1]
    bounds = sparse.eye(k, len(whole.q), format="csc")
    rows = bounds if whole.E is None else sparse.vstack([bounds, whole.E], format="csc")
    low, high = np.concatenate([given.low, whole.e]), np.concatenate([given.high, whole.e])
    tol = max(stop.tol, 1e-12)
    solver = osqp.OSQP()
    settings = {"eps_abs": tol, "eps_rel": tol, "max_iter": max(stop.max_steps, 4_000), "polishing": True}
    solver.setup(sparse.triu(whole.P, format="csc"), whole.q, rows, low, high, verbose=False, **settings)
    return solver
