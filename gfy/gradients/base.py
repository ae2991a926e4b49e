"""Define what the gradient modes share: a solve that is a constant, and the p of a solution."""

from __future__ import annotations

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, Solution, Stop


class Mode:
    """Represent a gradient mode that gives whole solutions."""

    def solution(
        self,
        problem: InnerProblem,
        solver: InnerSolver,
        v: Input,
        p0: Array | None = None,
        stop: Stop = Stop(),
    ) -> Solution:
        """Return the solver's solution, with p differentiated as the mode says."""
        raise NotImplementedError(f"{type(self).__name__} must define the method solution")

    def argmax(
        self,
        problem: InnerProblem,
        solver: InnerSolver,
        v: Input,
        p0: Array | None = None,
        stop: Stop = Stop(),
    ) -> Array:
        """Return p* [..., k], differentiated as the mode says."""
        return self.solution(problem, solver, v, p0, stop).p


def solve_constant(
    problem: InnerProblem, solver: InnerSolver, v: Input, p0: Array | None, stop: Stop
) -> Solution:
    """Return the solution as a constant: nothing is recorded, not even for tensors that an energy's function
    captured."""
    backend = backend_of(v)
    with backend.constant():
        found = solver.solve(problem, backend.stop_gradient(v), p0, stop)
    solution: Solution = backend.stop_gradient(found)
    return solution
