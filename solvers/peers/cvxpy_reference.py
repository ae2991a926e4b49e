"""Solve every concave inner problem in CVXPY as the reference; its answers are certified like all others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from gfy.certificate import certify
from gfy.errors import GfyValueError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.methods.projected_gradient import ProjectedGradient
from solvers.peers.host import One, on_host

TIGHT: dict[str, dict[str, Any]] = {
    "CLARABEL": {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13, "max_iter": 500},
    "OSQP": {"eps_abs": 1e-11, "eps_rel": 1e-11, "max_iter": 200_000, "polishing": True},
    "SCS": {"eps_abs": 1e-11, "eps_rel": 1e-11, "max_iters": 200_000},
}


@dataclass(frozen=True)
class CvxpyReference:
    """Solve by CVXPY, one example at a time on the host: the reference that other answers are compared with.

    The model is parametrised and compiled once per problem and shape. An interior-point answer lies slightly off the
    faces that it should lie on, so gradient steps that start from it improve it. The solver works inside jax.jit and
    with torch tensors, and refuses energies that are not concave.

    Args:
        solver: "CLARABEL" (the default, tight), "OSQP" or "SCS".
        target: the certified relative gap that polishing must reach, which `converged` reports; 1e-10 by default.
        polish: whether answers are polished; True by default.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.
        GfyValueError: for a solver that is not known.

    Reference: Diamond and Boyd (2016); Agrawal et al. (2019) for DPP; Goulart and Chen (2024), Clarabel.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.CvxpyReference().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    solver: str = "CLARABEL"
    target: float = 1e-10
    polish: bool = True
    fixed_tolerance: ClassVar[bool] = False
    ignores_tolerance: ClassVar[bool] = True  # every model is solved as accurately as possible

    def __post_init__(self) -> None:
        if self.solver not in TIGHT:
            raise GfyValueError(
                f"CvxpyReference.solver must be one of {', '.join(TIGHT)}, got {self.solver!r}"
            )

    @property
    def name(self) -> str:
        return "CvxpyReference"

    def unsupported(self, problem: InnerProblem) -> str | None:
        energy, omega, domain = problem.energy, problem.regularizer, problem.domain
        if not energy.concave:
            return f"{energy.name} is not known to be concave in p, as a convex program must be: use Auto"
        structured = energy.interactions is not None or energy.is_network
        if not (
            structured or (energy.linear and energy.array_api) or energy.metric in ("euclidean", "manhattan")
        ):
            return f"{energy.name} does not say its structure, and CVXPY cannot look inside it: use Auto"
        known = domain.banded or domain.stochastic or domain.ball or domain.finite or domain.ranked
        if not known or not (
            omega.quadratic or omega.entropy is not None or omega.divergence_from is not None
        ):
            return f"no CVXPY model of {omega.name} on {domain.name} is written down: use Auto"
        if self.solver == "OSQP" and not _quadratic_program(problem):
            return "OSQP solves quadratic programs only: use CLARABEL or SCS"
        return problem.unbounded

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def prepare(inputs: Any, stop: Stop) -> One:
            return lambda one, start: self._one(problem, one)

        return on_host(self, problem, v, p0, stop, prepare)

    def _one(self, problem: InnerProblem, v: Any) -> tuple[np.ndarray, float, int, bool]:
        model = _model(problem, tuple(leaf.shape for leaf in _flat(v)), _Once(v))
        model.load(v)
        p, steps, _ = model.solve(self.solver, TIGHT[self.solver])
        if p is None:
            return np.full(problem.energy.dim(v), np.nan), np.inf, steps, False
        p = np.asarray(problem.domain.project(p))
        gap = _gap(problem, v, p)
        if self.polish and gap > self.target and problem.energy.smooth:
            closer = ProjectedGradient().solve(problem, v, p, Stop(1e-13, 2_000)).p
            better = _gap(problem, v, closer)
            p, gap = (closer, better) if better < gap else (p, gap)
        return p, gap, steps, gap <= self.target


class _Once:
    """Hold an argument that is not part of the cache's key: it is needed only when the model is first built."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Once)


@lru_cache(maxsize=64)
def _model(problem: InnerProblem, shapes: tuple[Any, ...], first: _Once) -> Any:
    from solvers.peers.cvxpy_model import Model

    return Model(problem, first.value)


def _flat(v: Any) -> list[np.ndarray]:
    from gfy.backend import leaves

    return list(leaves(v))


def _gap(problem: InnerProblem, v: Any, p: np.ndarray) -> float:
    certificate = certify(problem, v, p)
    return float(certificate.gap / max(1.0, abs(float(certificate.value))))


def _quadratic_program(problem: InnerProblem) -> bool:
    energy = problem.energy
    kinked = energy.is_network and not energy.smooth
    flat = energy.linear or energy.interactions is not None or kinked
    return flat and problem.regularizer.quadratic and not problem.domain.ball
