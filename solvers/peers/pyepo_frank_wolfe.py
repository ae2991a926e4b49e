"""Call PyEPO's regularised Frank-Wolfe method, as a peer for linear energies on polytopes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers.host_batch import Answer, held, on_host_batch


@dataclass(frozen=True)
class PyepoFrankWolfe:
    """Solve problems with a linear energy by `pyepo.func.regularizedFrankWolfeOpt` and the set's linear oracle.

    It takes away steps with an exact line search on max <theta, p> - curvature |p|^2 / 2 over a polytope, and calls
    the oracle for one example at a time. It reports neither the number of its steps nor success, so `converged`
    follows from the duality gap.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Dalle et al. (2022); Tang and Khalil (2024), PyEPO.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Simplex())
        >>> v = gfy.Bilinear.Input(array([[0.2, 0.6, -1.0]]))
        >>> solvers.PyepoFrankWolfe().solve(problem, v).p.tolist()
        [[0.3, 0.7, 0.0]]
    """

    fixed_tolerance: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "PyepoFrankWolfe"

    def unsupported(self, problem: InnerProblem) -> str | None:
        for library in ("pyepo", "torch"):
            if find_spec(library) is None:
                return f"{library} is not installed: python -m pip install {library}"
        energy, omega, domain = problem.energy, problem.regularizer, problem.domain
        if not (energy.linear and energy.array_api):
            return f"PyEPO regularises linear costs, and {energy.name} is not linear in p: use Auto"
        if not omega.quadratic or omega.zero:
            return f"PyEPO regularises with a squared norm, not with {omega.name}: use Auto"
        if not ((domain.banded and domain.compact) or domain.stochastic or domain.finite):
            return f"PyEPO keeps a list of vertices, and {domain.name} is not a polytope: use Auto"
        return problem.unbounded

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def work(inputs: Any, batch: tuple[int, ...], start: np.ndarray | None, stop: Stop) -> Answer:
            import torch

            omega, k = problem.regularizer, problem.energy.dim(inputs)
            theta = np.broadcast_to(np.asarray(problem.energy.scores(inputs)), (*batch, k)).reshape(-1, k)
            method = _method(problem.domain, k, float(omega.curvature), max(stop.tol, 1e-15), stop.max_steps)
            with torch.no_grad():
                p = method(torch.as_tensor(theta + omega.tilt)).numpy() if len(theta) else theta
            p = np.asarray(problem.domain.project(np.asarray(p)))
            return Answer(p, np.full(len(p), -1), held(problem, inputs, p, batch, stop))

        return on_host_batch(self, problem, v, p0, stop, work)


@lru_cache(maxsize=64)
def _method(domain: Any, k: int, curvature: float, tol: float, max_steps: int) -> Any:
    from pyepo import EPO
    from pyepo.func import regularizedFrankWolfeOpt
    from pyepo.model.opt import optModel

    class Oracle(optModel):  # type: ignore[misc]
        """Solve max <c, p> over the vertices of the set."""

        modelSense = EPO.MAXIMIZE

        def _getModel(self) -> tuple[Any, list[int]]:
            return None, list(range(k))

        def setObj(self, c: Any) -> None:
            self._c = np.asarray(c, dtype=np.float64)

        def solve(self) -> tuple[np.ndarray, float]:
            p = np.asarray(domain.linear_oracle(self._c))
            return p, float(self._c @ p)

    return regularizedFrankWolfeOpt(Oracle(), lambd=curvature, max_iter=max_steps, tol=tol)
