"""Call Clarabel directly, without a modelling layer, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer
from solvers.peers.lifted import lift, linear, shared
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class Clarabel(QuadraticPeer):
    """Solve quadratic problems by Clarabel's interior-point method, one example at a time.

    A matrix that the examples share is set up once. Where the interactions have low
    rank, the problem is lifted (see `solvers.peers.lifted`).

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Goulart and Chen (2024).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Clarabel().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    library = "clarabel"

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        import clarabel

        n, k = given.g.shape
        p, steps, solved = np.empty((n, k)), np.empty(n), np.empty(n, dtype=bool)
        solver = None
        for i in range(n):
            if solver is None or not shared(given):
                solver = _set_up(given, i, stop)
            else:
                solver.update(q=linear(given, i))
            found = solver.solve()
            p[i], steps[i] = np.asarray(found.x)[:k], found.iterations
            solved[i] = found.status == clarabel.SolverStatus.Solved
        return Answer(p, steps, solved)


def _set_up(given: Programs, i: int, stop: Stop) -> Any:
    import clarabel
    from scipy import sparse

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = not shared(given)  # what presolve has removed cannot be updated
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = max(stop.tol, 1e-13)
    whole, k = lift(given, i), given.g.shape[1]
    one = sparse.eye(k, len(whole.q), format="csc")
    parts = [one, -one] if whole.E is None else [whole.E, one, -one]
    rows = sparse.vstack(parts, format="csc")
    right = np.concatenate([whole.e, given.high, -given.low])
    cones = [clarabel.NonnegativeConeT(2 * k)]
    if len(whole.e):
        cones.insert(0, clarabel.ZeroConeT(len(whole.e)))
    return clarabel.DefaultSolver(sparse.triu(whole.P, format="csc"), whole.q, rows, right, cones, settings)
