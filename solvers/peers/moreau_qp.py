"""Call Moreau's batched solver (an active-set method for small quadratic programs), as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class Moreau(QuadraticPeer):
    """Solve quadratic problems by `moreau.CompiledSolver` on the whole batch.

    The structure of the programs is set up once per shape; matrices and vectors are given per call.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: the package `moreau`, whose active-set method is DAQP's.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Moreau().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    library = "moreau"

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        n, k = given.g.shape
        fixed = given.total is not None
        solver = _compiled(n, k, fixed, max(stop.tol, 1e-14))
        rows = np.concatenate([np.ones(k * int(fixed)), np.ones(k), -np.ones(k)])
        right = np.concatenate([[given.total] if fixed else [], given.high, -given.low])
        H = np.broadcast_to(given.H, (n, k, k)).reshape(n, k * k)
        solver.setup(H, np.broadcast_to(rows, (n, len(rows))))
        found = solver.solve(given.g, np.broadcast_to(right, (n, len(right))))
        info = solver.info
        solved = np.array([str(getattr(s, "name", s)).lower() == "solved" for s in info.status])
        return Answer(np.asarray(found.x), np.asarray(info.iterations), solved)


@lru_cache(maxsize=16)
def _compiled(n: int, k: int, fixed: bool, tol: float) -> Any:
    import moreau

    cones = moreau.Cones(num_zero_cones=int(fixed), num_nonneg_cones=2 * k)
    sums = [k] if fixed else []
    offsets = np.concatenate([[0], np.cumsum([*sums, *[1] * (2 * k)])])
    columns = np.concatenate([np.arange(k * int(fixed)), np.arange(k), np.arange(k)])
    settings = moreau.Settings(
        device="cpu",
        batch_size=n,
        active_set_settings=moreau.ActiveSetSettings(primal_tol=tol, dual_tol=min(tol, 1e-12)),
        ipm_settings=moreau.IPMSettings(tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol),
    )
    return moreau.CompiledSolver(
        n=k,
        m=2 * k + int(fixed),
        P_row_offsets=np.arange(k + 1) * k,
        P_col_indices=np.tile(np.arange(k), k),
        A_row_offsets=offsets,
        A_col_indices=columns,
        cones=cones,
        settings=settings,
    )
