"""Call MuJoCo's `mju_boxQP`, a projected Newton method in C, as a peer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfy.protocols import Stop
from solvers.peers.host_batch import Answer
from solvers.peers.quadratic import Programs, QuadraticPeer


@dataclass(frozen=True)
class MujocoBoxQP(QuadraticPeer):
    """Solve box-constrained quadratic problems by MuJoCo's `mju_boxQP`, one example at a time.

    The code accepts bounds only, and has no tolerance to set.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Tassa, Mansard and Todorov (2014), control-limited differential dynamic programming.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.MujocoBoxQP().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    library = "mujoco"
    ignores_tolerance = True
    sums = False
    definite = True

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        import mujoco

        n, k = given.g.shape
        p = np.empty((n, k))
        p[:] = np.clip(0.0, given.low, given.high) if start is None else start
        factor, index = np.empty((k, k + 7)), np.empty(k, dtype=np.int32)
        rank = np.empty(n, dtype=np.int64)
        for i in range(n):
            rank[i] = mujoco.mju_boxQP(
                p[i], factor, index, given.hessian(i), given.g[i], given.low, given.high
            )
        return Answer(p, np.full(n, -1), rank >= 0)
