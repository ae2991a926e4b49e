"""The solve that every gradient mode begins with."""

from __future__ import annotations

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, Solution, Stop


def solve_constant(
    problem: InnerProblem, solver: InnerSolver, v: Input, p0: Array | None, stop: Stop
) -> Solution:
    """The solution as a constant: nothing is recorded, not even of the tensors that an energy's function captured."""
    backend = backend_of(v)
    with backend.constant():
        found = solver.solve(problem, backend.stop_gradient(v), p0, stop)
    solution: Solution = backend.stop_gradient(found)
    return solution
