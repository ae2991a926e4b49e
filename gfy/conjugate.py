"""Compute generalized conjugates: max and argmax of Phi(v, p) - Omega(p) over C, as functions of v."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any

from gfy.backend import backend_of, get_backend
from gfy.calling.guard import guard
from gfy.calling.keeping import kept
from gfy.calling.named import as_mode, as_solver
from gfy.calling.staging import patience, portable
from gfy.calling.telling import DEBUG, tell_dropped, tell_unsolved
from gfy.checks import Given, admit, check_start, concavity_is_asked, last_axis
from gfy.errors import GfyTypeError, UnsupportedError
from gfy.gradients.envelope import Envelope
from gfy.gradients.implicit import Implicit
from gfy.gradients.maximum import at_maximum
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, InnerSolver, Input, Solution, Stop


@guard
def argmax(
    problem: InnerProblem,
    v: Any,
    solver: InnerSolver | str | None = None,
    gradient: GradientMode | str | None = None,
    p0: Array | None = None,
    stop: Stop = Stop(),
    return_solution: bool = False,
) -> Any:
    """Find p*(v) = argmax_{p in C} Phi(v, p) - Omega(p), the prediction of an energy network, [..., k].

    Args:
        problem: the energy, the regularizer and the set.
        v: the energy's Input; leading axes of its arrays are batch axes.
        solver: an inner solver or its name ("DualNewton"); None, the default, chooses one for the problem.
        gradient: how a derivative passes: `Implicit()` or `Unrolled()`, or their names, attach dp*/dv. With None, the
            default, the result is a constant; torch warns where v requires a gradient.
        p0: a point to start from, [..., k]; None, the default, starts in the middle of C.
        stop: the tolerance and the most steps of an iterative solver; 1e-8 and 1000 by default.
        return_solution: return the whole `Solution` and not p alone, inside jit too; its flags are then the caller's
            to read, and no `UnsolvedWarning` is given. False by default.

    Returns:
        p* [..., k] in the dtype of v; half precision is computed in float32 and rounded. With `return_solution` the
        `Solution`, whose p it is.

    Raises:
        GfyTypeError, GfyValueError: for arguments that cannot be used, `Envelope()` among them: the envelope theorem
            gives the derivative of the maximum, not of the argmax.
        UnsupportedError: where the solver or the mode does not serve the problem.
        UnsolvedError: within `gfy.debug()`, where an example is not solved. Elsewhere that is an `UnsolvedWarning`,
            given once wherever values can be read.

    Reference: Blondel et al. (2022), Equation 5.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[1.0, -0.5]]), A=array([[[1.0], [0.5]]]))  # u [B, k], A [B, k, m]
        >>> gfy.argmax(problem, v, gradient="implicit").tolist()
        [[0.654, 0.077]]
    """
    mode = as_mode(gradient)
    if isinstance(mode, Envelope):
        raise GfyTypeError(
            "Envelope() has no dp*/dv to give: it differentiates the maximum, not the argmax. Use "
            "gradient=gfy.Implicit() or gfy.Unrolled(), or gradient=None for a constant"
        )
    if mode is None and not return_solution and not DEBUG.get():
        at_once = getattr(as_solver(solver), "at_once", None)
        quick = None if at_once is None else at_once(problem, v, p0, stop, partial(_check_once, problem))
        if quick is not None:
            tell_dropped(problem, v)
            return quick.p
    given = admit(problem, v, last_axis(p0))
    if mode is None:
        tell_dropped(problem, given.v)
    found = solve_given(given, solver, mode or Envelope(), p0, stop, return_solution)
    if isinstance(mode, Implicit):
        found = found._replace(p=backend_of(found.p).first_order(found.p))
    return given.answer(found if return_solution else found.p)


@guard
def conjugate(
    problem: InnerProblem,
    v: Any,
    solver: InnerSolver | str | None = None,
    gradient: GradientMode | str | None = None,
    p0: Array | None = None,
    stop: Stop = Stop(),
    return_solution: bool = False,
) -> Any:
    """Compute Omega^Phi(v) = max_{p in C} Phi(v, p) - Omega(p), the value of the inner problem, [...].

    It is differentiable in v: by the envelope theorem its gradient is that of Phi at p*(v), with p* held fixed.

    Args:
        problem: the energy, the regularizer and the set.
        v: the energy's Input; leading axes of its arrays are batch axes.
        solver: an inner solver or its name ("DualNewton"); None, the default, chooses one for the problem.
        gradient: a gradient mode or its name; None, the default, is `Envelope()`.
        p0: a point to start from, [..., k]; None, the default, starts in the middle of C.
        stop: the tolerance and the most steps of an iterative solver; 1e-8 and 1000 by default.
        return_solution: return the pair of the maximum and the `Solution`; False by default.

    Returns:
        The maximum of each example, [...]; with `return_solution` the pair of it and the `Solution`.

    Raises:
        GfyTypeError, GfyValueError, UnsupportedError, UnsolvedError: as `argmax`.

    Reference: Blondel et al. (2022), Equation 4 and Proposition 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> v = gfy.Bilinear.Input(array([1.0, 2.0, 3.0]))
        >>> gfy.conjugate(problem, v).item()  # log(e + e^2 + e^3)
        3.408
    """
    mode = as_mode(gradient) or Envelope()
    given = admit(problem, v, last_axis(p0))
    found = solve_given(given, solver, mode, p0, stop, return_solution)
    value = given.problem.value(given.v, found.p)
    value = at_maximum(given.problem, mode, given.v, found.p, value)
    return given.answer((value, found) if return_solution else value)


def _check_once(problem: InnerProblem, v: Input) -> bool:
    """Check an input of new shapes; return whether each call has to see that the energy is concave at v."""
    problem.check_dim(problem.energy.dim(admit(problem, v).v))
    return concavity_is_asked(problem.energy, v)


def solve_given(
    given: Given,
    solver: InnerSolver | str | None,
    gradient: GradientMode,
    p0: Array | None,
    stop: Stop,
    handed_over: bool = False,
) -> Solution:
    """Return the solution for a public function, after p0 is checked; with `handed_over` the caller receives
    its flag."""
    start, chosen = check_start(given.problem, given.v, p0), as_solver(solver)
    found = solution_with(given.problem, given.v, chosen, gradient, start, stop)
    tell_unsolved(given.problem, chosen, gradient, stop, found, handed_over)
    return found


def solve_with(
    problem: InnerProblem,
    v: Input,
    solver: InnerSolver | str | None,
    gradient: GradientMode,
    p0: Array | None,
    stop: Stop,
) -> Array:
    """Return p*(v) by the solver, differentiated as the mode says; an example that was not solved gives a warning."""
    chosen = as_solver(solver)
    found = solution_with(problem, v, chosen, gradient, p0, stop)
    tell_unsolved(problem, chosen, gradient, stop, found)
    return found.p


def solution_with(
    problem: InnerProblem,
    v: Input,
    solver: InnerSolver,
    gradient: GradientMode,
    p0: Array | None,
    stop: Stop,
) -> Solution:
    """Return the solver's solution, its p differentiated as the mode says; raise where the two cannot serve
    the problem."""
    reason = _reason(problem, solver, gradient)
    if reason is not None:
        raise UnsupportedError(f"{solver.name} with {gradient.name} gradients on {problem.name}: {reason}")
    energy, closed_v, program = problem.energy.closed(v, p0)
    closed = problem if energy is problem.energy else replace(problem, energy=energy)
    # A function that captured a traced array cannot be used in another trace, so it is not kept.
    keep = energy is problem.energy or backend_of(v).is_concrete(closed_v)
    staged = _kept_staged if keep else _staged
    return staged(closed, solver, gradient, stop, backend_of(v).name, program)(closed_v, p0)


# The answer is kept, because it takes longer than many solves.
@kept(512)
def _reason(problem: InnerProblem, solver: InnerSolver, gradient: GradientMode) -> str | None:
    """Return the reason why the mode and the solver cannot serve the problem."""
    return gradient.unsupported(problem, solver)


_Run = Callable[[Input, Array | None], Solution]


def _staged(
    problem: InnerProblem,
    solver: InnerSolver,
    gradient: GradientMode,
    stop: Stop,
    backend: str,
    program: Hashable,
) -> _Run:
    """Return the solve as one staged function; `program` tells apart what an energy's own program depends on."""
    whole = getattr(gradient, "solution", None)

    def run(v: Input, p0: Array | None) -> Solution:
        if whole is None:  # a mode that a user wrote, which gives p alone
            return Solution(gradient.argmax(problem, solver, v, p0, stop), None, None, None)
        found: Solution = whole(problem, solver, v, p0, stop)
        return found

    framework = get_backend(backend)
    if framework.staged or not (isinstance(gradient, Envelope) and portable(problem, solver, gradient)):
        return framework.jit(run)
    # The answer is a constant that any framework can compute, so a framework that runs eagerly may use the
    # compiler of another one.
    staged = framework.stage(lambda v, p0: (None, run(v, p0)))

    def borrowed(v: Input, p0: Array | None) -> Solution:
        if patience() is None:
            return run(v, p0)
        found: Solution = staged(*framework.stop_gradient((v, p0)))[1]
        return found

    return borrowed


# Outside jit a loop would be compiled at every call of a function that is not kept.
_kept_staged = kept(256)(_staged)
