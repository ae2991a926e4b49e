"""Differentiate by the implicit function theorem on p = p_Omega(grad_p Phi(v, p)).

J = dp_Omega/dtheta is symmetric, positive semi-definite, and zero where a bound is active, so it says which
coordinates of boxes and simplices are free. H is the Hessian of Phi in p. Differentiating the fixed point gives

    (I - J H) dp = J d_v(grad_p Phi) dv.

The right-hand side is the derivative of `fixed_point` at a constant p. The left-hand side is solved by elimination
where H = -A A^T (Woodbury: an m x m system), by the k x k factors of Cholesky or LU where H is dense, and by Krylov
methods or Neumann series otherwise. Only the direction that is needed is solved. In JAX the rule is differentiable
itself, so second derivatives follow.
"""

from __future__ import annotations

from dataclasses import dataclass

from gfy.backend import backend_of
from gfy.errors import GfyValueError, UnsupportedError
from gfy.gradients.base import Mode, solve_constant
from gfy.gradients.cusp import with_cusp
from gfy.gradients.kinks import attached, multipliers
from gfy.gradients.kinks import unsupported as kinks_unsupported
from gfy.gradients.linear import METHODS, System, solver_for
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, Solution, Stop


@dataclass(frozen=True)
class Implicit(Mode):
    """Attach dp*/dv to the solution by the implicit function theorem: one linear system per example and derivative.

    At a kink of Omega's map (a coordinate exactly at its bound) the coordinate counts as free. This gives an element
    of the generalised derivative, the same in both frameworks. Kinks of the energy that p* lies on are further
    equations with their multipliers as unknowns. They are solved by elimination, whatever `linear_solve` says
    (see `gfy.gradients.kinks`).

    Args:
        linear_solve: how the system is solved: "dense", "cg", "gmres", "neumann", or "auto", the default.
        tol: the relative tolerance of the iterative linear solves; None, the default, follows the forward tolerance.

    Raises:
        GfyValueError: for a `linear_solve` that is not known.
        UnsupportedError: when used, where the problem has no fixed-point equation to differentiate.

    Reference: Blondel et al. (2022), Section 3.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[0.5, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> gfy.argmax(problem, v, gradient=gfy.Implicit()).tolist()  # dp*/dv is attached
        [[0.481, 0.115]]
    """

    linear_solve: str = "auto"
    tol: float | None = None

    def __post_init__(self) -> None:
        if self.linear_solve not in METHODS:
            raise GfyValueError(
                f"Implicit.linear_solve must be one of {', '.join(METHODS)}, got {self.linear_solve!r}"
            )

    @property
    def name(self) -> str:
        return "implicit"

    def unsupported(self, problem: InnerProblem, solver: InnerSolver) -> str | None:
        reason = problem.regularizer.no_argmax(problem.domain)
        if reason is None and problem.regularizer.strong_convexity(problem.domain) == 0:
            reason = (
                f"{problem.regularizer.name} is not strongly convex on {problem.domain.name}: p*(v) is not "
                "differentiable everywhere, and its derivative is zero or undefined; use Envelope for the value"
            )
        return reason or kinks_unsupported(problem) or solver.unsupported(problem)

    def solution(
        self,
        problem: InnerProblem,
        solver: InnerSolver,
        v: Input,
        p0: Array | None = None,
        stop: Stop = Stop(),
    ) -> Solution:
        """Return the solver's solution with dp*/dv attached to its p."""
        found = solve_constant(problem, solver, v, p0, stop)
        return found._replace(p=self.attach(problem, v, found.p, stop, solver))

    def attach(
        self,
        problem: InnerProblem,
        v: Input,
        p: Array,
        stop: Stop = Stop(),
        solver: InnerSolver | None = None,
    ) -> Array:
        """Return p, given as a constant, with dp*/dv attached; p must be the solution to the wanted accuracy.

        A solver may have `response(problem, v, p)`, which gives the compiled r -> (I - J H)^-1 J r. It is used where
        `linear_solve` is "auto" and the answer is not None.
        """
        reason = problem.regularizer.no_argmax(problem.domain)
        if reason is not None:
            raise UnsupportedError(f"Implicit: {reason}")
        if problem.energy.kinked:
            return attached(problem, v, p, multipliers(problem, *backend_of(v).stop_gradient((v, p))))[0]
        cusp = with_cusp(problem, v, p)
        if cusp is None:
            return self._attach(problem, v, p, stop, solver)
        where = backend_of(v).xp.where
        # The energy has no curvature at a cusp. The system is therefore solved at another point, and its
        # answer there is not used.
        held, moved = cusp
        return where(held, moved, self._attach(problem, v, where(held, p + 1, p), stop, solver))

    def _attach(
        self, problem: InnerProblem, v: Input, p: Array, stop: Stop, solver: InnerSolver | None
    ) -> Array:
        backend = backend_of(v)
        offered = getattr(solver, "response", None) if self.linear_solve == "auto" else None
        if offered is None or offered(problem, *backend.stop_gradient((v, p))) is None:
            return backend.attach(p, v, problem.fixed_point, lambda v, p: self._system(problem, v, p, stop))

        def system(v: Input, p: Array) -> System:
            answer = offered(problem, v, p)
            return answer, answer, None

        return backend.attach(p, v, problem.energy.grad_p, system)

    def correct(self, problem: InnerProblem, v: Input, p: Array, stop: Stop = Stop()) -> Array:
        """Return p, given as a constant, one Newton step closer to p* and with dp*/dv attached there; at
        kinks p itself."""
        if not problem.energy.smooth:
            return self.attach(problem, v, p, stop)
        fixed = backend_of(v).stop_gradient(v)
        solve, _, _ = self._system(problem, fixed, p, stop)
        return self.attach(problem, v, p + solve(problem.fixed_point(fixed, p) - p), stop)

    def _system(self, problem: InnerProblem, v: Input, p: Array, stop: Stop) -> System:
        theta = problem.energy.grad_p(v, p)
        return solver_for(self.linear_solve, problem, v, p, theta, stop.tol if self.tol is None else self.tol)
