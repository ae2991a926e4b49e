"""Copy this solver to write your own: projected gradient steps of a length that the energy's own bound makes safe.

Copy this file, rename the class, replace `init` and `step`, then run `gfy check path/to/your_file.py:YourSolver`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.loop import run


class State(NamedTuple):
    """Hold what is carried from step to step. It needs `p` [..., k] and `error` [...]; any other field is yours."""

    p: Array
    error: Array


@dataclass(frozen=True)
class Template:
    """Take steps p <- project(p + grad(p) / L), with L from the energy's own bound; p is [..., k].

    The configuration is in frozen fields (none here). Leading axes are batch axes, so never write a loop over them.
    """

    @property
    def name(self) -> str:
        return "Template"

    def unsupported(self, problem: InnerProblem) -> str | None:
        """Return the reason why the solver cannot serve the problem, in a sentence, or None where it can."""
        if not problem.regularizer.quadratic or problem.regularizer.zero:
            return (
                f"{problem.regularizer.name} is not quadratic, so a safe step length is not known: use Auto"
            )
        if not (problem.energy.concave and problem.energy.smooth):
            return f"{problem.energy.name} is not smooth and concave in p: use Auto"
        return None

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        return run(self, problem, v, p0, stop)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> State:
        p = problem.initial_point(v, p0)
        return State(p, p.sum(-1) * 0 + 1e30)

    def step(self, problem: InnerProblem, v: Input, state: State) -> State:
        xp = backend_of(v).xp
        bound = problem.energy.smoothness(v)
        assert bound is not None, "a smooth energy knows its smoothness"
        mu = problem.strong_concavity
        L = bound[..., None] + mu
        p = problem.domain.project(state.p + problem.grad(v, state.p) / L)
        # A move is the residual divided by L.
        return State(p, xp.max(xp.abs(p - state.p) * L, axis=-1) / mu)
