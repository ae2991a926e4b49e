"""Call Clarabel directly, without a modelling layer, as a peer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer
from solvers.peers.lifted import lift
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class Clarabel(QuadraticPeer):
    """Solve quadratic problems by Clarabel's interior-point method, one example at a time.

    Where the interactions have low rank, the problem is lifted (see `solvers.peers.lifted`).

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
        from scipy import sparse

        n, k = given.g.shape
        p, steps, solved = np.empty((n, k)), np.empty(n), np.empty(n, dtype=bool)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = max(stop.tol, 1e-13)
        for i in range(n):
            whole = lift(given, i)
            one = sparse.eye(k, len(whole.q), format="csc")
            parts = [one, -one] if whole.E is None else [whole.E, one, -one]
            rows, right = (
                sparse.vstack(parts, format="csc"),
                np.concatenate([whole.e, given.high, -given.low]),
            )
            cones = [clarabel.ZeroConeT(len(whole.e))] * (len(whole.e) > 0) + [
                clarabel.NonnegativeConeT(2 * k)
            ]
            found = clarabel.DefaultSolver(
                sparse.triu(whole.P, format="csc"), whole.q, rows, right, cones, settings
            ).solve()
            p[i], steps[i] = np.asarray(found.x)[:k], found.iterations
            solved[i] = found.status == clarabel.SolverStatus.Solved
        return Answer(p, steps, solved)
