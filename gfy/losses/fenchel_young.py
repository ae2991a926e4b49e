"""Define the generalized Fenchel-Young loss, which a compiled call may compute as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gfy.checks import admit, check_target, concavity_is_asked
from gfy.gradients.envelope import Envelope
from gfy.losses.base import Loss
from gfy.protocols import Array, Input, Solution


@dataclass(frozen=True)
class FenchelYoungLoss(Loss):
    """Compute the Fenchel-Young loss L(v, y) = Omega^Phi(v) + Omega(y) - Phi(v, y), zero exactly at y = p*(v).

    It is never negative, and its gradient in v needs no derivative of the argmax.

    Args:
        problem: the energy, the regularizer and the set.
        solver: an inner solver or its name ("DualNewton"); None, the default, chooses one for the problem.
        gradient: a gradient mode or its name; `Envelope()` by default.
        reduction: "none" (the default), "mean" or "sum" over the examples.
        stop: the tolerance and the most steps of an iterative solver; 1e-8 and 1000 by default.
        target_tol: how far outside C a target may lie; 1e-4 by default.

    Returns:
        `loss(v, y)` returns the loss of each example, [...], or their mean or sum; y [..., k] lies in C, or holds
        class indices [...] on the simplex. `loss.predict(v)` returns p*(v).

    Raises:
        GfyTypeError, GfyValueError: for a solver, a mode or a reduction that is not known.

    Reference: Blondel et al. (2022), Equation 8 and Proposition 3.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> loss = gfy.FenchelYoungLoss(problem, reduction="mean")
        >>> loss(gfy.Bilinear.Input(array([[1.0, 2.0, 3.0]])), array([[0.0, 0.0, 1.0]])).item()  # cross-entropy
        0.408
    """

    def _examples(self, v: Input, y: Array, p0: Array | None) -> tuple[Array, Solution | None]:
        found = self._solve(self.problem, v, p0)
        return self._at(self.problem, v, found.p, self.problem.difference(v, found.p, y)), found

    @cached_property
    def _whole(self) -> Callable[[Any, Any, Any, bool], Any] | None:
        solver, mode = self.means
        offer = getattr(solver, "whole_loss", None)
        if offer is None or type(mode) is not Envelope:
            return None

        def check(v: Any, y: Any) -> bool:
            given = admit(self.problem, v)
            check_target(given.problem, given.v, y, self.target_tol)
            return concavity_is_asked(self.problem.energy, v)

        found: Callable[[Any, Any, Any, bool], Any] | None = offer(
            self.problem, self.stop, self.target_tol, self.reduction, check
        )
        return found
