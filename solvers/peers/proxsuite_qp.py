"""Call proxsuite's dense proximal QP solver, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer, cores
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class Proxsuite(QuadraticPeer):
    """Solve quadratic problems by ProxQP's batch path, with programs made in place and solved on all threads.

    The batch path takes neither native bounds nor a warm start. With one thread or a warm start, programs with native
    bounds are therefore solved one after another.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Bambade et al. (2022), ProxQP.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Proxsuite().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    library = "proxsuite"

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        from proxsuite import proxqp

        n, k = given.g.shape
        fixed = given.total is not None
        A, b = (np.ones((1, k)), np.array([given.total])) if fixed else (None, None)
        tol = max(stop.tol, 1e-12)
        eye = np.eye(k)
        together = start is None and cores() > 1
        batch, made = proxqp.dense.BatchQP(n), []
        for i in range(n):
            if together:
                qp = batch.init_qp_in_place(k, int(fixed), k)
                bounds: tuple[Any, ...] = (eye, given.low, given.high)
            else:
                qp = proxqp.dense.QP(k, int(fixed), 0, True)
                bounds = (None, None, None, given.low, given.high)
            qp.settings.eps_abs, qp.settings.eps_rel, qp.settings.max_iter = tol, 0.0, stop.max_steps
            qp.settings.check_duality_gap, qp.settings.eps_duality_gap_abs = True, tol
            qp.init(given.hessian(i), given.g[i], A, b, *bounds)
            if start is not None:
                qp.solve(start[i], None, None)
            elif not together:
                qp.solve()
            made.append(qp)
        if together:
            proxqp.dense.solve_in_parallel(batch, cores())
            made = [batch.get(i) for i in range(n)]
        results = [qp.results for qp in made]
        return Answer(
            np.array([found.x for found in results]).reshape(n, k),
            np.array([found.info.iter for found in results]),
            np.array([found.info.status == proxqp.QPSolverOutput.PROXQP_SOLVED for found in results]),
        )
