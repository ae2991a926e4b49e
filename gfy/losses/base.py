"""Define what every loss shares: its problem, how it is solved and differentiated, and how examples are reduced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from gfy.backend import backend_of, get_backend
from gfy.calling.guard import guard
from gfy.calling.named import as_mode, as_solver
from gfy.calling.staging import patience, portable
from gfy.calling.telling import DEBUG, tell_unsolved
from gfy.checks import admit, check_start, check_target, last_axis
from gfy.conjugate import solution_with, solve_given
from gfy.energies.base import Energy
from gfy.errors import GfyTypeError, GfyValueError
from gfy.gradients.envelope import Envelope
from gfy.gradients.maximum import at_maximum
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, InnerSolver, Input, Solution, Stop

_REDUCTIONS = ("none", "mean", "sum")


@dataclass(frozen=True)
class Loss:
    """Define what every loss shares: the problem, how it is solved and differentiated, and how examples are reduced.

    Args:
        problem: the energy, the regularizer and the set.
        solver: an inner solver or its name ("DualNewton"); the default chooses one for the problem.
        gradient: a gradient mode or its name ("envelope", "implicit", "unrolled").
        reduction: "none", "mean" or "sum" over the examples.
        stop: the tolerance and the most steps of an iterative solver.
        target_tol: how far outside C a target may lie.

    Returns:
        `loss(v, y)` returns the loss of each example, [...], or their mean or sum. `loss.predict(v)` returns p*(v).

    Raises:
        GfyTypeError, GfyValueError: for a solver, a mode or a reduction that is not known; a class in place of an
            instance is refused with the right spelling.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> loss = gfy.FenchelYoungLoss(problem, solver="ClosedForm", gradient="envelope", reduction="sum")
        >>> isinstance(loss, gfy.losses.Loss), loss(gfy.Bilinear.Input(array([[0.0, 1.0]])), array([[1.0, 1.0]])).item()
        (True, 0.25)
    """

    problem: InnerProblem
    solver: InnerSolver | str | None = None
    gradient: GradientMode | str = Envelope()
    reduction: str = "none"
    stop: Stop = Stop()
    target_tol: float = 1e-4  # how far outside C a target may lie

    def __post_init__(self) -> None:
        if self.reduction not in _REDUCTIONS:
            raise GfyValueError(f"reduction must be one of {', '.join(_REDUCTIONS)}, got {self.reduction!r}")
        if self.solver is not None:
            object.__setattr__(self, "solver", as_solver(self.solver))
        object.__setattr__(self, "gradient", as_mode(self.gradient) or Envelope())

    def __call__(self, v: Any, y: Array, p0: Array | None = None, return_solution: bool = False) -> Any:
        """Return the loss of each example [...], or their mean or sum; it is differentiable in v.

        Args:
            v: the energy's Input.
            y: targets in C [..., k]: floats, integers or booleans; on the simplex class indices [...] too.
            p0: a point to start the solver from, [..., k].
            return_solution: return the pair of the loss and the `Solution` of the inner problems, inside jit too; its
                flags are then the caller's to read, and no `UnsolvedWarning` is given.

        Raises:
            GfyTypeError, GfyValueError: for arguments that cannot be used.
            UnsupportedError: where the solver or the mode does not serve the problem.
            UnsolvedError: within `gfy.debug()`, where an inner problem is not solved; elsewhere that is an
                `UnsolvedWarning`, given once wherever values can be read.

        Example:
            >>> values, found = loss(v, y, return_solution=True)
            >>> found.converged.all()
        """
        if self._whole is not None and type(return_solution) is bool and not DEBUG.get():
            found = self._whole(v, y, p0, return_solution)
            if found is not None:
                return found
        return self._step_by_step(v, y, p0, return_solution)

    @cached_property
    def _whole(self) -> Callable[[Any, Any, Any, bool], Any] | None:
        """Return the loss as one compiled call of v, y and p0, which may return None; return None where there
        is none."""
        return None

    @guard
    def _step_by_step(self, v: Any, y: Array, p0: Array | None = None, return_solution: bool = False) -> Any:
        given = admit(self.problem, v, last_axis(p0))
        y = check_target(given.problem, given.v, y, self.target_tol)
        given = given.sized(last_axis(y))
        if p0 is not None:
            p0 = check_start(given.problem, given.v, p0)
        here = self if given.problem is self.problem else replace(self, problem=given.problem)
        values, found = _staged(here, given.v)(given.v, y, p0)
        if found is not None:
            tell_unsolved(here.problem, *self.means, self.stop, found, return_solution)
        if not return_solution:
            return given.answer(self._reduce(values))
        if found is None:
            raise GfyTypeError(f"{type(self).__name__} solves no inner problem: it has no solution to return")
        return given.answer((self._reduce(values), found))

    @guard
    def predict(self, v: Any, p0: Array | None = None) -> Array:
        """Return p*(v) [..., k], the network's output, as a constant through which no derivative passes.

        Use `gfy.argmax(..., gradient=gfy.Implicit())` for a p* that can be differentiated.
        """
        given = admit(self.problem, v, last_axis(p0))
        return given.answer(solve_given(given, self.solver, Envelope(), p0, self.stop).p)

    def _examples(self, v: Input, y: Array, p0: Array | None) -> tuple[Array, Solution | None]:
        """Return the loss of each example and the solution of the inner problem that it depends on."""
        raise NotImplementedError(f"{type(self).__name__} must define the method _examples")

    def __getstate__(self) -> dict[str, Any]:
        # a copy makes its own when it needs it
        return {name: x for name, x in vars(self).items() if name != "_whole"}

    def _solve(self, problem: InnerProblem, v: Input, p0: Array | None) -> Solution:
        return solution_with(problem, v, *self.means, p0, self.stop)

    @property
    def means(self) -> tuple[InnerSolver, GradientMode]:
        """Return the solver and the gradient mode, which may have been given by name."""
        return as_solver(self.solver), as_mode(self.gradient) or Envelope()

    def _at(self, problem: InnerProblem, v: Input, p: Array, value: Array) -> Array:
        """Return a value computed at the solution p, with the derivative that the maximum has there."""
        return at_maximum(problem, self.means[1], v, p, value)

    def _reduce(self, values: Array) -> Array:
        if self.reduction == "none":
            return values
        xp = backend_of(values).xp
        return xp.mean(values) if self.reduction == "mean" else xp.sum(values)


def _staged(loss: Loss, v: Input) -> Callable[..., tuple[Array, Solution | None]]:
    """Return the loss of each example as one staged function and keep it: outside jit each operation is compiled alone.

    A function that the user wrote may have captured arrays that change between calls. A loss with such a function is
    therefore not staged as a whole.
    """
    backend, energy = backend_of(v), loss.problem.energy
    fixed = type(energy).closed is Energy.closed or portable(energy)
    if fixed and (backend.staged or patience() is not None):
        try:
            return _remembered(loss, backend.name)
        except TypeError:  # A part of the loss cannot be hashed, so the staged function cannot be kept.
            pass
    return loss._examples


@lru_cache(maxsize=256)
def _remembered(loss: Loss, backend: str) -> Callable[..., tuple[Array, Solution | None]]:
    framework = get_backend(backend)
    if framework.staged:
        return framework.jit(loss._examples)
    solver, mode = loss.means
    # A framework that uses the compiler of another one runs the loss there, and the solution that comes back
    # is a constant. The loss must therefore be portable, and the mode Envelope.
    alike = portable(loss.problem, solver, mode) and isinstance(mode, Envelope)
    return framework.stage(loss._examples) if alike else loss._examples
