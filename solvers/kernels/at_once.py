"""Give a solver its compiled calls: the solution, and the Fenchel-Young loss as a whole, in one call each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.kernels import call


class AtOnce:
    """Offer one compiled call to a solver that says in `compiled(problem, v)` when such a call is its own method.

    The calls return None for inputs that they do not serve, and where anything about the inputs is doubtful. The
    solver's `solve` and the loss are then computed step by step.
    """

    def compiled(self, problem: InnerProblem, v: Input) -> bool:
        """Return whether compiled code is how this solver solves the problem at v; asked once per shape."""
        raise NotImplementedError(f"{type(self).__name__} must define the method compiled")

    def at_once(
        self,
        problem: InnerProblem,
        v: Input,
        p0: Array | None,
        stop: Stop,
        check: Callable[[Input], bool] | None = None,
    ) -> Solution | None:
        """Return the solution where one compiled call solves every example, and None where that is not known.

        `check(v)` is called once per shape of v. It raises where v cannot be used, and returns whether each call has
        to check that U is negative semi-definite.
        """
        return call.solve_at_once(problem, v, p0, stop, self, check)

    def whole_loss(
        self,
        problem: InnerProblem,
        stop: Stop,
        target_tol: float,
        reduction: str,
        check: Callable[[Input, Array], bool],
    ) -> Callable[[Input, Array, Array | None, bool], Any] | None:
        """Return the Fenchel-Young loss in one compiled call, or None where there is none.

        It is a function of v, y, p0 and whether the `Solution` is returned beside the loss.

        `check(v, y)` is called once per shape. It raises where they cannot be used, and returns what `check` of
        `at_once` returns.
        """
        return call.whole_loss(problem, stop, target_tol, reduction, self, check)

    def served_at_once(self, problem: InnerProblem, v: Input) -> bool:
        """Return whether the compiled calls of this class read v and are how this solver solves the problem."""
        return type(v) is getattr(problem.energy, "Input", None) and self.compiled(problem, v)
