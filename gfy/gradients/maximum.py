"""Give a maximum, computed at its solution, the derivative that a gradient mode promises."""

from __future__ import annotations

from gfy.gradients.envelope import Envelope, first_derivative_only
from gfy.gradients.implicit import Implicit
from gfy.gradients.kinks import at_saddle
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, Input


def at_maximum(problem: InnerProblem, mode: GradientMode, v: Input, p: Array, value: Array) -> Array:
    """Return value [...], computed at the solution p, with the derivative in v that the maximum has under the mode."""
    value = at_saddle(problem, v, p, value, isinstance(mode, Implicit))
    return first_derivative_only(problem, value) if isinstance(mode, Envelope) else value
