"""Generalized conjugates: max and argmax of Phi(v, p) - Omega(p) over C, as functions of v."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gfy.backend import backend_of, get_backend
from gfy.checks import check_input, check_start
from gfy.errors import GfyTypeError, UnsupportedError
from gfy.gradients.envelope import Envelope
from gfy.gradients.implicit import Implicit
from gfy.gradients.kinks import at_saddle
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, InnerSolver, Input, Stop, default_solver


def argmax(
    problem: InnerProblem,
    v: Any,
    solver: InnerSolver | None = None,
    gradient: GradientMode | None = None,
    p0: Array | None = None,
    stop: Stop = Stop(),
) -> Array:
    """p*(v) = argmax_{p in C} Phi(v, p) - Omega(p), [..., k].

    Without a gradient mode the result is a constant (no derivative passes). `Implicit` and `Unrolled` attach
    dp*/dv; `Envelope` refuses, since the envelope theorem speaks of the maximum, not of the argmax.
    Reference: Blondel et al. (2022), Equation 5.
    """
    v = check_input(problem, v)
    p0 = check_start(problem, v, p0)
    if isinstance(gradient, Envelope):
        raise GfyTypeError(
            "Envelope() has no dp*/dv to give: it differentiates the maximum, not the argmax. Use "
            "gradient=gfy.Implicit() or gfy.Unrolled(), or gradient=None for a constant"
        )
    return solve_with(problem, v, solver, gradient or Envelope(), p0, stop)


def conjugate(
    problem: InnerProblem,
    v: Any,
    solver: InnerSolver | None = None,
    gradient: GradientMode | None = None,
    p0: Array | None = None,
    stop: Stop = Stop(),
) -> Array:
    """Omega^Phi(v) = max_{p in C} Phi(v, p) - Omega(p), [...]; differentiable in v, by the envelope theorem.

    Reference: Blondel et al. (2022), Equation 4 and Proposition 1.
    """
    v = check_input(problem, v)
    p0 = check_start(problem, v, p0)
    p = solve_with(problem, v, solver, gradient or Envelope(), p0, stop)
    return at_saddle(problem, v, p, problem.value(v, p), isinstance(gradient, Implicit))


def solve_with(
    problem: InnerProblem,
    v: Input,
    solver: InnerSolver | None,
    gradient: GradientMode,
    p0: Array | None,
    stop: Stop,
) -> Array:
    """p*(v) by the solver, differentiated as the mode says; the reason where the two do not serve the problem."""
    solver = solver or default_solver()
    reason = gradient.unsupported(problem, solver)
    if reason is not None:
        raise UnsupportedError(f"{solver.name} with {gradient.name} gradients on {problem.name}: {reason}")
    try:
        staged = _staged(problem, solver, gradient, stop, backend_of(v).name)  # type: ignore[arg-type]
    except TypeError:  # a part that cannot be hashed cannot be remembered either
        return gradient.argmax(problem, solver, v, p0, stop)
    return staged(v, p0)


@lru_cache(maxsize=256)
def _staged(
    problem: InnerProblem, solver: InnerSolver, gradient: GradientMode, stop: Stop, backend: str
) -> Callable[[Input, Array | None], Array]:
    """The solve as one staged function, remembered: a loop met outside jit would be compiled anew at every call."""
    return get_backend(backend).jit(lambda v, p0: gradient.argmax(problem, solver, v, p0, stop))
