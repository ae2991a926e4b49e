"""Run Newton's method on the coordinates that are free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gfy.backend import backend_of
from gfy.energies import Dense
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.kernels import call
from solvers.kernels.response import response
from solvers.loop import check, run
from solvers.methods.newton_system import by_cholesky, by_conjugate_gradients

LINEAR_SOLVES = ("auto", "cholesky", "cg")
_MOST_DENSE = 512


class State(NamedTuple):
    """Hold theta, p = p_Omega(theta), g = grad Phi(p) [..., k]; L of a safe step; whether the next step is a
    safe one."""

    p: Array
    theta: Array
    g: Array
    L: Array
    safe: Array
    gap: Array
    error: Array
    noise: Array


@dataclass(frozen=True)
class ProjectedNewton:
    """Solve smooth concave energies by semismooth Newton steps on theta = grad Phi(p_Omega(theta)).

    J = dp_Omega/dtheta is zero where a bound is active, so it contains the active set. H is the Hessian of Phi. A
    step solves (I - H J) d = grad Phi(p) - theta. Where U is dense it uses a batched Cholesky factor of I - J^1/2 H
    J^1/2, and for any smooth network conjugate gradients on Hessian products. A step must reduce the Fenchel-Young
    gap or the residual; an example where it does not takes a safe gradient step instead. Quadratic energies are
    solved by the compiled steps of `ActiveSet` where those serve and `linear_solve` is "auto".

    Args:
        linear_solve: how a step is solved: "cholesky", "cg", or "auto", the default.
        cg_steps: the most conjugate-gradient steps per Newton step; 40 by default.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.
        GfyValueError: for a `linear_solve` that is not known.

    Reference: Bertsekas (1982), projected Newton methods; Qi and Sun (1993), semismooth equations.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.ProjectedNewton().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    linear_solve: str = "auto"
    cg_steps: int = 40
    fixed_tolerance: ClassVar[bool] = True  # True: a compiled call needs the tolerance when it is staged

    def __post_init__(self) -> None:
        if self.linear_solve not in LINEAR_SOLVES:
            raise GfyValueError(
                f"ProjectedNewton.linear_solve must be one of {', '.join(LINEAR_SOLVES)}, "
                f"got {self.linear_solve!r}"
            )

    @property
    def name(self) -> str:
        return "ProjectedNewton"

    @property
    def not_unrollable(self) -> str:
        return "a Newton step differentiates through its linear solve: use Implicit, which is that very solve once"

    def unsupported(self, problem: InnerProblem) -> str | None:
        energy = problem.energy
        if not energy.concave or not energy.smooth:
            return f"{energy.name} is not smooth and concave in p, as Newton steps need: use Auto"
        if not problem.regularizer.separable:
            return f"{problem.regularizer.name} has no differentiable argmax map: use ProjectedGradient"
        if not (problem.domain.banded or problem.domain.stochastic):
            return f"the free coordinates of {problem.domain.name} are not known: use ProjectedGradient"
        return problem.regularizer.no_argmax(problem.domain)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem)
        if self.linear_solve == "auto" and call.serves(problem, v, stop):
            return call.solve(problem, v, p0, stop, by_framework)
        return run(self, problem, v, p0, stop)

    def response(self, problem: InnerProblem, v: Input, p: Array) -> Callable[[Array], Array] | None:
        """Return the compiled response of p* to moved scores, or None where the framework must solve the systems."""
        return response(problem, v, p)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> State:
        # One fixed-point step gives scores for every p0, and brings it closer to the solution.
        theta = problem.energy.grad_p(v, problem.initial_point(v, p0))
        p = problem.regularizer.argmax(theta, problem.domain)
        g = problem.energy.grad_p(v, p)
        gap, error, noise = _measure(problem, p, g)
        return State(p, theta, g, 0 * error, error < 0, gap, error, noise)

    def step(self, problem: InnerProblem, v: Input, state: State) -> State:
        backend = backend_of(v)
        xp = backend.xp
        newton = self._direction(problem, v, state)
        newton = xp.where(xp.isfinite(newton), newton, xp.zeros_like(newton))
        plain = (state.g - state.theta) / (1 + state.L)[..., None]
        theta = state.theta + xp.where(state.safe[..., None], plain, newton)
        p = problem.regularizer.argmax(theta, problem.domain)
        g = problem.energy.grad_p(v, p)
        gap, error, noise = _measure(problem, p, g)
        better = (gap <= 0.9 * state.gap) | (error <= 0.5 * state.error)
        d, dtheta = p - state.p, theta - state.theta
        slope, moved = -dot(g - state.g, d), dot(dtheta, d)
        blur = 8 * backend.eps(p) * dot(xp.abs(g) + xp.abs(theta), xp.abs(d))
        uphill = slope <= (1 + 2 * state.L) * moved + blur
        good = xp.where(state.safe, uphill, better) & xp.isfinite(error)
        measured = slope / xp.where(moved > 0, moved, xp.ones_like(moved))
        L = xp.where(
            state.safe, xp.where(good, 0.8 * state.L, xp.maximum(2 * state.L + 0.5, measured)), state.L
        )
        keep = good[..., None]
        return State(
            xp.where(keep, p, state.p),
            xp.where(keep, theta, state.theta),
            xp.where(keep, g, state.g),
            L,
            ~good,
            xp.where(good, gap, state.gap),
            xp.where(good, error, state.error),
            noise,
        )

    def _direction(self, problem: InnerProblem, v: Input, state: State) -> Array:
        curvature = problem.energy.curvature(v)
        dense = isinstance(curvature, Dense) and problem.domain.banded and self.linear_solve != "cg"
        if dense and (self.linear_solve == "cholesky" or state.p.shape[-1] <= _MOST_DENSE):
            assert isinstance(curvature, Dense)
            return by_cholesky(problem, curvature.U, state.p, state.g - state.theta)
        return by_conjugate_gradients(problem, v, state.p, state.theta, state.g - state.theta, self.cg_steps)


def by_framework(problem: InnerProblem, v: Input, p0: Array | None, stop: Stop) -> Solution:
    """Take the steps of `ProjectedNewton` by the framework."""
    return run(ProjectedNewton(), problem, v, p0, stop)


def _measure(problem: InnerProblem, p: Array, g: Array) -> tuple[Array, Array, Array]:
    """Return the Fenchel-Young gap at p, the residual |p - p_Omega(g)| and the part of it that rounding
    causes, all [...]."""
    backend = backend_of(p)
    xp = backend.xp
    best = problem.regularizer.argmax(g, problem.domain)
    gap = dot(g, best - p) - problem.regularizer.value(best) + problem.regularizer.value(p)
    error = xp.max(xp.abs(best - p), axis=-1)
    curved = problem.regularizer.strong_convexity(problem.domain) or 1.0
    noise = 4 * backend.eps(p) * (xp.max(xp.abs(p), axis=-1) + xp.max(xp.abs(g), axis=-1) / curved)
    return gap, error, noise
