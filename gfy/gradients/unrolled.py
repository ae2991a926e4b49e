"""Differentiate the iterations of a solver themselves (unrolling)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gfy.backend import backend_of
from gfy.errors import GfyValueError
from gfy.gradients.base import Mode, solve_constant
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, Solution, SteppableSolver, Stop

_SHORT = 8  # up to this many steps, the graph of every step is kept


@dataclass(frozen=True)
class Unrolled(Mode):
    """Attach dp*/dv by differentiating `steps` iterations of a solver, kept (or recomputed) for the backward pass.

    Args:
        steps: how many iterations are taken and differentiated; 100 by default.
        checkpoint: keep every sqrt(steps)-th state and recompute the rest: memory O(sqrt(steps)) for states, and the
            graph of a few steps. False by default.
        last: solve first and differentiate this many further iterations only (1 is one-step, or Jacobian-free,
            differentiation); None, the default, differentiates all `steps`.

    Raises:
        GfyValueError: for a number of steps below 1.
        UnsupportedError: when used, where the solver has no iterations to differentiate.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[0.5, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> gfy.argmax(problem, v, solver=solvers.ProjectedGradient(), gradient=gfy.Unrolled(steps=50)).tolist()
        [[0.481, 0.115]]
    """

    steps: int = 100
    checkpoint: bool = False
    last: int | None = None

    def __post_init__(self) -> None:
        if self.steps < 1 or (self.last is not None and self.last < 1):
            raise GfyValueError(
                f"Unrolled needs steps >= 1 and last >= 1, got steps={self.steps}, last={self.last}"
            )

    @property
    def name(self) -> str:
        return "unrolled"

    def unsupported(self, problem: InnerProblem, solver: InnerSolver) -> str | None:
        if not (hasattr(solver, "init") and hasattr(solver, "step")):
            return f"{solver.name} has no iterations to unroll (no init/step): use Envelope or Implicit"
        if not problem.energy.smooth:
            return (
                f"{problem.energy.name} has kinks in p: steps along its slopes stall there or hop from side to side, "
                "and their derivative is not that of the solution; use Implicit, or Envelope for values"
            )
        refusal = getattr(solver, "not_unrollable", None)
        if refusal is not None:
            return str(refusal)
        return solver.unsupported(problem)

    def solution(
        self,
        problem: InnerProblem,
        solver: InnerSolver,
        v: Input,
        p0: Array | None = None,
        stop: Stop = Stop(),
    ) -> Solution:
        """Return p after the last step, differentiable, and the error that the solver's state reports there.

        `stop.tol` does not end the steps, because their number is fixed. `converged` says whether it was reached.
        """
        assert isinstance(solver, SteppableSolver)
        backend = backend_of(v)
        length = self.steps
        if self.last is not None:
            p0 = solve_constant(problem, solver, v, p0, stop).p
            length = self.last

        def advance(v: Input, state: Any, length: int) -> Any:
            """Take `length` steps; of a long stretch only every sqrt(length)-th state is kept, and so on within it."""
            if not self.checkpoint or length <= _SHORT:
                return backend.scan(lambda s: solver.step(problem, v, s), state, length)
            block = math.isqrt(length)
            inner = backend.checkpoint(lambda v, s: advance(v, s, block))
            state = backend.scan(lambda s: inner(v, s), state, length // block)
            return advance(v, state, length % block)

        final = advance(v, solver.init(problem, v, p0), length)
        error = backend.stop_gradient(final.error)
        floor = backend.stop_gradient(getattr(final, "noise", 0 * error))
        steps = backend.xp.astype(backend.xp.zeros_like(error), backend.xp.int32) + length
        return Solution(final.p, error, steps, (error <= stop.tol) | (error <= floor))
