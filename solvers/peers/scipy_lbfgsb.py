"""Call SciPy's L-BFGS-B behind the protocol, which many people try first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers.host import One, on_host


@dataclass(frozen=True)
class ScipyLBFGSB:
    """Solve on a box by SciPy's L-BFGS-B, one example at a time on the host.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Byrd, Lu, Nocedal and Zhu (1995).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.ScipyLBFGSB().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    fixed_tolerance: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "ScipyLBFGSB"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.domain.banded or problem.domain.total is not None:
            return f"L-BFGS-B knows bounds only, not {problem.domain.name}: use Auto"
        if not problem.energy.array_api:
            return f"{problem.energy.name} is not written for NumPy arrays, which SciPy works on: use Auto"
        return problem.unbounded

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def prepare(inputs: Any, stop: Stop) -> One:
            return lambda one, start: _minimize(problem, one, start, stop)

        return on_host(self, problem, v, p0, stop, prepare)


def _minimize(
    problem: InnerProblem, v: Any, start: np.ndarray | None, stop: Stop
) -> tuple[np.ndarray, float, int, bool]:
    from scipy.optimize import minimize

    k = problem.energy.dim(v)
    bounds_of = problem.domain.bounds(np.zeros(k))
    low, high = (np.broadcast_to(np.asarray(b, dtype=float), (k,)) for b in bounds_of)
    width = high - low
    entropy = not np.isfinite(problem.regularizer.grad(np.clip(np.zeros(1), low[:1], high[:1]))).all()
    # log p has no finite gradient at 0
    inset = 1e-15 * np.where(np.isfinite(width), width, 1.0) if entropy else 0.0

    def objective(p: np.ndarray) -> tuple[float, np.ndarray]:
        inside = np.clip(p, low + inset, high - inset)
        return -float(problem.value(v, inside)), -np.asarray(problem.grad(v, inside))

    first = np.asarray(problem.domain.center(np.zeros(k))) if start is None else start
    options = {"maxiter": stop.max_steps, "maxfun": 20 * stop.max_steps, "ftol": 0.0, "gtol": stop.tol}
    bounds = list(zip(low, high, strict=True))
    found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    p = np.clip(found.x, low, high)
    moved = np.clip(p - objective(p)[1], low, high) - p
    error = float(np.abs(moved).max(initial=0.0))
    return p, error, int(found.nit), error <= max(stop.tol, 1e-15)
