"""Run Newton's method on the set of free coordinates of quadratic energies: the compiled kernels as a solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.kernels import call
from solvers.kernels.at_once import AtOnce
from solvers.kernels.response import response
from solvers.loop import check
from solvers.methods.projected_newton import ProjectedNewton, by_framework


@dataclass(frozen=True)
class ActiveSet(AtOnce):
    """Solve quadratic energies exactly: coordinate sweeps find the active bounds, Newton's method does the rest.

    On a processor with numba (the extra `native`) compiled code solves each example by itself, so that it stays in
    the cache. A quadratic Omega on a box starts with sweeps that find nearly all active bounds. Newton's step on the
    other coordinates (Cholesky) is then exact, and a step that leaves the box is projected and shortened by a search.
    Simplices and entropies are solved by semismooth Newton steps on the dual, made global by a search along the step.
    Without numba, on other devices and for other regularizers the solver takes the steps of `ProjectedNewton`.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution`: `error` is the residual
        max |p_Omega(grad Phi(p)) - p| and `steps` counts sweeps and Newton steps.

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Bertsekas (1982), projected Newton methods; Qi and Sun (1993), semismooth equations.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.ActiveSet().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    fixed_tolerance: ClassVar[bool] = True  # True: a compiled call needs the tolerance when it is staged

    @property
    def name(self) -> str:
        return "ActiveSet"

    @property
    def not_unrollable(self) -> str:
        return ProjectedNewton().not_unrollable

    def unsupported(self, problem: InnerProblem) -> str | None:
        if problem.energy.interactions is None:
            return f"{problem.energy.name} is not quadratic in p, as ActiveSet needs: use Auto"
        return ProjectedNewton().unsupported(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        found = self.at_once(problem, v, p0, stop)
        if found is not None:
            return found
        check(self, problem, v)
        if call.serves(problem, v, stop):
            return call.solve(problem, v, p0, stop, by_framework)
        return by_framework(problem, v, p0, stop)

    def compiled(self, problem: InnerProblem, v: Input) -> bool:
        return self.unsupported(problem) is None and call.serves(problem, v)

    def response(self, problem: InnerProblem, v: Input, p: Array) -> Callable[[Array], Array] | None:
        """Return the compiled response of p* to moved scores, or None where the framework must solve the systems."""
        return response(problem, v, p)
