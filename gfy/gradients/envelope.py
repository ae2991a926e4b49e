"""Differentiate by the envelope theorem: the derivative of a maximum needs no derivative of its argmax."""

from __future__ import annotations

from dataclasses import dataclass

from gfy.backend import backend_of
from gfy.gradients.base import Mode, solve_constant
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, Solution, Stop

_ONCE = (
    "Envelope gives first derivatives only: it holds p* fixed, and a second derivative of the loss or of the maximum "
    "would lack the part of dp*/dv. "
)
FIRST_ONLY = _ONCE + "Use gradient=gfy.Implicit(), whose second derivatives are right."
NEVER_AGAIN = (
    _ONCE + "Without a strongly convex Omega p* is not differentiable everywhere, and no mode offers them."
)


def first_derivative_only(problem: InnerProblem, value: Array) -> Array:
    """Return a value [...] that was computed at a constant p*; its second derivatives are refused with a sentence."""
    strong = problem.regularizer.strong_convexity(problem.domain) > 0
    return backend_of(value).once(value, FIRST_ONLY if strong else NEVER_AGAIN)


@dataclass(frozen=True)
class Envelope(Mode):
    """Differentiate the maximum with p* held fixed: grad Omega^Phi(v) = grad_1 Phi(v, p*(v)).

    This is the cheapest mode, because no derivative of the solver is taken. It is for values (the conjugate and the
    losses that are built on it). It gives no dp*/dv: use `Implicit` or `Unrolled` for the derivative of p* itself.
    Second derivatives of a loss need dp*/dv too: they are refused here, and `Implicit` gives them.

    Raises:
        GfyTypeError: where it is given to `gfy.argmax` or `gfy.ArgmaxLoss`, which need dp*/dv.
        UnsupportedError: where the derivative of a loss or of a maximum is differentiated again.

    Reference: Blondel et al. (2022), Proposition 1, item 5.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> loss = gfy.FenchelYoungLoss(problem, gradient=gfy.Envelope())
        >>> loss(gfy.Bilinear.Input(array([[1.0, 0.5, -2.0]])), array([[1.0, 0.0, 0.0]])).tolist()
        [0.062]
    """

    @property
    def name(self) -> str:
        return "envelope"

    def unsupported(self, problem: InnerProblem, solver: InnerSolver) -> str | None:
        return solver.unsupported(problem)

    def solution(
        self,
        problem: InnerProblem,
        solver: InnerSolver,
        v: Input,
        p0: Array | None = None,
        stop: Stop = Stop(),
    ) -> Solution:
        """Return the solver's solution as a constant."""
        return solve_constant(problem, solver, v, p0, stop)
