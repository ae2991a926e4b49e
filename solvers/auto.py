"""Which solver serves a problem best, by what the problem provides and its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.energies import LowRank, Metric
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.dual.newton import DualNewton
from solvers.loop import check
from solvers.methods.closed_form import ClosedForm
from solvers.methods.projected_gradient import ProjectedGradient

_MOST_RANK = 64  # above it an m x m system an example and a step costs more than gradient steps


class Choice(NamedTuple):
    """A solver and the reason it was picked, in a sentence."""

    solver: Any
    reason: str


@dataclass(frozen=True)
class Auto:
    """The solver for when none is named; `choose(problem, v)` says which one it is and why."""

    @property
    def name(self) -> str:
        return "Auto"

    def unsupported(self, problem: InnerProblem) -> str | None:
        return self.choose(problem).solver.unsupported(problem)

    def choose(self, problem: InnerProblem, v: Input | None = None) -> Choice:
        """The solver and the reason; v's shapes refine the choice where they matter."""
        energy = problem.energy
        if ClosedForm().unsupported(problem) is None:
            return Choice(ClosedForm(), "the solution has a closed form")
        dual = DualNewton()
        if energy.kinked and problem.concave:  # gradient steps stall at kinks: the dual solves it or nothing does
            return Choice(dual, "kinks of rectifiers are solved by their multipliers, one unknown per rectifier")
        if dual.unsupported(problem) is None:
            rank = None if v is None else _rank(problem, v)
            if rank is None or rank <= _MOST_RANK:
                return Choice(dual, f"U = -A A^T has rank {rank or 'm'}: the dual has as many unknowns")
        if not problem.concave:
            return Choice(
                ProjectedGradient(), "the energy is not concave: projected gradients reach a stationary point"
            )
        return Choice(ProjectedGradient(), "a smooth concave energy on a set with a projection")

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem)
        solver = self.choose(problem, v).solver
        found: Solution = solver.solve(problem, v, p0, stop)
        if not isinstance(problem.energy, Metric):
            return found
        # a metric's closed form serves the examples whose v lies in C; the others are iterated
        xp = backend_of(v).xp
        other = ProjectedGradient().solve(problem, v, p0, stop)
        if not isinstance(solver, ClosedForm):
            return other
        known = found.converged
        p = xp.where(known[..., None], found.p, other.p)
        return Solution(
            p,
            xp.where(known, found.error, other.error),
            xp.where(known, found.steps, other.steps),
            known | other.converged,
        )

    # unrolling differentiates a solver whose steps do not depend on which problem it is

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any:
        return ProjectedGradient().init(problem, v, p0)

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any:
        return ProjectedGradient().step(problem, v, state)


def _rank(problem: InnerProblem, v: Input) -> int | None:
    curvature = problem.energy.curvature(v)
    return int(curvature.A.shape[-1]) if isinstance(curvature, LowRank) else None
