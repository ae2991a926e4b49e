"""Call PIQP, a proximal interior-point method in C++, as a peer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer
from solvers.peers.lifted import lift
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class Piqp(QuadraticPeer):
    """Solve quadratic problems by PIQP with native bounds, one example at a time.

    The program is dense for a dense Hessian. Where the interactions have low rank, it is sparse and lifted
    (see `solvers.peers.lifted`).

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Schwan, Jiang, Kuhn and Jones (2023).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Piqp().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    library = "piqp"

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        import piqp

        n, k = given.g.shape
        p, steps, solved = np.empty((n, k)), np.empty(n), np.empty(n, dtype=bool)
        for i in range(n):
            solver = piqp.DenseSolver() if given.A is None else piqp.SparseSolver()
            solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = max(stop.tol, 1e-13)
            solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 0.0
            if given.A is None:
                rows = None if given.total is None else np.ones((1, k), order="F")
                sums = None if given.total is None else np.array([given.total])
                solver.setup(
                    np.asfortranarray(given.hessian(i)),
                    given.g[i],
                    rows,
                    sums,
                    None,
                    None,
                    None,
                    given.low,
                    given.high,
                )
            else:
                whole = lift(given, i)
                free = np.full(len(whole.q) - k, np.inf)
                low, high = np.concatenate([given.low, -free]), np.concatenate([given.high, free])
                solver.setup(whole.P, whole.q, whole.E, whole.e, None, None, None, low, high)
            status = solver.solve()
            p[i], steps[i], solved[i] = (
                solver.result.x[:k],
                solver.result.info.iter,
                status == piqp.PIQP_SOLVED,
            )
        return Answer(p, steps, solved)
