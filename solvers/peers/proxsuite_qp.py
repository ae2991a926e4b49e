"""proxsuite's dense proximal QP solver, as an optional peer."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from gfy.regularizers import Quadratic
from gfy.sets import BandSet
from solvers.peers.host import One, on_host
from solvers.peers.jaxopt_shared import not_quadratic


@dataclass(frozen=True)
class Proxsuite:
    """proxsuite.proxqp.dense on every example, on the host; p [..., k].

    Reference: Bambade et al. (2022), ProxQP.
    """

    @property
    def name(self) -> str:
        return "Proxsuite"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if find_spec("proxsuite") is None:
            return "proxsuite is not installed: python -m pip install proxsuite"
        if not isinstance(problem.domain, BandSet) or not problem.domain.compact:
            return f"this adapter writes boxes and simplices as bounds, not {problem.domain.name}"
        return not_quadratic(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def prepare(inputs: Any) -> One:
            return lambda one, start: _solve(problem, one, start, stop)

        return on_host(self, problem, v, p0, stop, prepare)


def _solve(
    problem: InnerProblem, v: Any, start: np.ndarray | None, stop: Stop
) -> tuple[np.ndarray, float, int, bool]:
    from proxsuite import proxqp

    domain, omega = problem.domain, problem.regularizer
    assert isinstance(domain, BandSet)
    curved, tilt = (omega.curvature, omega.tilt) if isinstance(omega, Quadratic) else (0.0, 0.0)
    k = problem.energy.dim(v)
    u = problem.energy.grad_p(v, np.zeros(k))
    curvature = problem.energy.curvature(v)
    assert curvature is not None
    low, high = (np.broadcast_to(np.asarray(b, dtype=float), (k,)).copy() for b in domain.bounds(np.zeros(k)))
    fixed = domain.total is not None
    qp = proxqp.dense.QP(k, int(fixed), 0, True)
    qp.settings.eps_abs, qp.settings.eps_rel, qp.settings.max_iter = max(stop.tol, 1e-12), 0.0, stop.max_steps
    A, b = (np.ones((1, k)), np.array([domain.total])) if fixed else (None, None)
    qp.init(curved * np.eye(k) - curvature.dense(), -(u + tilt), A, b, None, None, None, low, high)
    qp.solve(start, None, None) if start is not None else qp.solve()
    info = qp.results.info
    error = float(max(info.pri_res, info.dua_res))
    return np.asarray(qp.results.x), error, int(info.iter), error <= max(stop.tol, 1e-12)
