"""Call quadprog, Goldfarb and Idnani's dual active-set method, as a peer (GPL: called, never bundled)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class Quadprog(QuadraticPeer):
    """Solve quadratic problems by `quadprog.solve_qp`, with bounds written as 2 k rows, one example at a time.

    It has no tolerance and no warm start.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Goldfarb and Idnani (1983).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Quadprog().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    library = "quadprog"
    ignores_tolerance = True
    definite = True

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        import quadprog

        n, k = given.g.shape
        fixed = given.total is not None
        eye = np.eye(k)
        sums = np.ones((k, 1)) if fixed else np.zeros((k, 0))
        C = np.ascontiguousarray(np.concatenate([sums, eye, -eye], axis=1))
        b = np.concatenate([[given.total] if fixed else [], given.low, -given.high])
        p, steps, solved = np.empty((n, k)), np.empty(n), np.ones(n, dtype=bool)
        for i in range(n):
            try:
                found = quadprog.solve_qp(given.hessian(i), -given.g[i], C, b, int(fixed))
                p[i], steps[i] = found[0], found[3][0]
            except ValueError:  # quadprog raises it where it fails
                p[i], steps[i], solved[i] = np.nan, -1, False
        return Answer(p, steps, solved)
