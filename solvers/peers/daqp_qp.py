"""Call DAQP, a dual active-set method in C, as a peer."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer, cores, each
from solvers.peers.quadratic import Programs, QuadraticPeer

_EQUALITY = 5  # DAQP's code of a constraint that holds with equality


@dataclass(frozen=True)
class Daqp(QuadraticPeer):
    """Solve quadratic problems by DAQP with native bounds; threads share the batch.

    Where the examples share their matrix, each thread sets it up once and changes the linear term alone.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Arnstrom, Bemporad and Axehill (2022), a dual active-set solver for embedded quadratic programming.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Daqp().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    library = "daqp"
    definite = True

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        import daqp

        n, k = given.g.shape
        sums = [] if given.total is None else [given.total]
        rows = np.ones((len(sums), k))
        upper, lower = (np.concatenate([b, sums]) for b in (given.high, given.low))
        sense = np.zeros(k + len(sums), dtype=np.intc)
        sense[k:] = _EQUALITY
        given.hessian(0)  # It is computed once here, before several threads use it.
        p, steps, flags = np.empty((n, k)), np.empty(n), np.empty(n)
        settings = {
            "primal_tol": max(stop.tol, 1e-14),
            "dual_tol": max(stop.tol, 1e-14),
            "iter_limit": 50 * k + 1_000,
        }

        kept = threading.local()

        def solved(i: int) -> Any:
            limits = upper.copy(), lower.copy(), sense.copy()
            if len(given.H) > 1 or start is not None:
                warm = {} if start is None else {"primal_start": start[i]}
                return daqp.solve(given.hessian(i), given.g[i], rows, *limits, **warm, **settings)
            if hasattr(kept, "model"):
                kept.model.update(f=given.g[i])
            else:
                kept.model = daqp.Model()
                kept.model.setup(given.hessian(i), given.g[i], rows, *limits)
                kept.model.settings = settings
            return kept.model.solve()

        def one(i: int) -> None:
            found = solved(i)
            p[i], flags[i], steps[i] = found[0], found[2], found[3]["iterations"]

        each(one, n, cores())
        return Answer(p, steps, flags >= 1)
