"""The paper's fixed point, iterated with shrinking steps: generalised conditional gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.loop import all_finite, check


class State(NamedTuple):
    """p [..., k], the number of steps taken [..., 1], and the residual [...] at the p before."""

    p: Array
    t: Array
    error: Array


@dataclass(frozen=True)
class FixedPoint:
    """p <- p + 2 / (t + 2) (p_Omega(grad_p Phi(v, p)) - p), `max_steps` times whatever the tolerance; p [..., k].

    Each step is one gradient and one call of the regularizer's argmax map: no line search and no state per example,
    which is what a grid of fifty networks pays for. At the kinks of rectifiers the shrinking step averages the slopes
    on both sides, where a plain gradient step would hop between them. It converges slowly: its error falls like 1 / t.
    Reference: Bredies, Lorenz and Maass (2009), generalised conditional gradient; Blondel et al. (2022), Equation 9.
    """

    @property
    def name(self) -> str:
        return "FixedPoint"

    def unsupported(self, problem: InnerProblem) -> str | None:
        reason = problem.regularizer.no_argmax(problem.domain)
        return None if reason is None else str(reason)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem, v)
        backend = backend_of(v)
        v, p0 = backend.stop_gradient((v, p0))
        start = self.init(problem, v, p0)
        p = backend.scan(lambda state: self.step(problem, v, state), start, stop.max_steps).p
        xp = backend.xp
        sound = all_finite(p)
        p = xp.where(sound[..., None], p, start.p)
        error = xp.max(xp.abs(problem.fixed_point(v, p) - p), axis=-1)
        count = xp.astype(xp.zeros_like(error), xp.int32) + stop.max_steps
        return Solution(p, error, count, (error <= stop.tol) & sound)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> State:
        p = problem.initial_point(v, p0)
        xp = backend_of(p).xp
        return State(p, xp.zeros_like(p[..., :1]), xp.zeros_like(p[..., 0]) + 1e30)

    def step(self, problem: InnerProblem, v: Input, state: State) -> State:
        xp = backend_of(v).xp
        p, t, _ = state
        towards = problem.fixed_point(v, p) - p
        return State(p + (2 / (t + 2)) * towards, t + 1, xp.max(xp.abs(towards), axis=-1))
