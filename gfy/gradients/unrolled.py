"""Unrolling: differentiate the iterations themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gfy.backend import backend_of
from gfy.errors import GfyValueError
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, SteppableSolver, Stop


@dataclass(frozen=True)
class Unrolled:
    """dp*/dv through `steps` iterations of a steppable solver, kept (or recomputed) for the backward pass.

    `checkpoint=True` keeps every sqrt(steps)-th state and recomputes the rest: memory O(sqrt(steps)).
    `last=K` solves first and differentiates K further iterations only (K = 1: one-step, or Jacobian-free,
    differentiation).
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
        refusal = getattr(solver, "not_unrollable", None)
        if refusal is not None:
            return str(refusal)
        return solver.unsupported(problem)

    def argmax(
        self,
        problem: InnerProblem,
        solver: InnerSolver,
        v: Input,
        p0: Array | None = None,
        stop: Stop = Stop(),
    ) -> Array:
        assert isinstance(solver, SteppableSolver)
        backend = backend_of(v)
        length = self.steps
        if self.last is not None:
            p0 = backend.stop_gradient(solver.solve(problem, backend.stop_gradient(v), p0, stop).p)
            length = self.last

        def step(state: Any) -> Any:
            return solver.step(problem, v, state)

        state = solver.init(problem, v, p0)
        if not self.checkpoint:
            return backend.scan(step, state, length).p
        block = max(1, math.isqrt(length))
        inner = backend.checkpoint(lambda s: backend.scan(step, s, block))
        state = backend.scan(inner, state, length // block)
        return backend.scan(step, state, length % block).p if length % block else state.p
