"""The envelope theorem: a value needs no derivative of its argmax."""

from __future__ import annotations

from dataclasses import dataclass

from gfy.gradients.base import Mode, solve_constant
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, Solution, Stop


@dataclass(frozen=True)
class Envelope(Mode):
    """grad Omega^Phi(v) = grad_1 Phi(v, p*(v)): the solve sees a detached v, and p* is a constant.

    Serves values (the conjugate, the losses built on it). It has no dp*/dv to give: ask `Implicit` or `Unrolled`.
    """

    @property
    def name(self) -> str:
        return "envelope"

    def unsupported(self, problem: InnerProblem, solver: InnerSolver) -> str | None:
        return solver.unsupported(problem)

    def solution(
        self,
        problem: InnerProblem,
        solver: InnerSolver,
        v: Input,
        p0: Array | None = None,
        stop: Stop = Stop(),
    ) -> Solution:
        """The solver's solution, a constant."""
        return solve_constant(problem, solver, v, p0, stop)
