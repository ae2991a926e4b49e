"""Define the losses between an energy network's input v and a target y in C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from gfy.backend import backend_of, get_backend
from gfy.calling.guard import guard
from gfy.calling.named import as_mode, as_solver
from gfy.calling.staging import patience, portable
from gfy.calling.telling import tell_unsolved
from gfy.checks import admit, check_start, check_target, last_axis
from gfy.conjugate import solution_with, solve_given
from gfy.energies.base import Energy
from gfy.energies.shifted import Shifted
from gfy.errors import GfyTypeError, GfyValueError
from gfy.gradients.envelope import Envelope
from gfy.gradients.implicit import Implicit
from gfy.gradients.kinks import at_saddle
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, InnerSolver, Input, Solution, Stop
from gfy.regularizers.quadratic import Zero

_REDUCTIONS = ("none", "mean", "sum")
_COSTS = ("hamming", "zero_one")


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

    Raises:
        GfyTypeError, GfyValueError: for a solver, a mode or a reduction that is not known; a class in place of an
            instance is refused with the right spelling.

    Example:
        >>> loss = gfy.FenchelYoungLoss(problem, solver="DualNewton", gradient="envelope", reduction="mean")
        >>> loss(v, y)
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

    @guard
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

        Use `gfy.argmax(..., gradient=gfy.Implicit())` for one that can be differentiated.
        """
        given = admit(self.problem, v, last_axis(p0))
        return given.answer(solve_given(given, self.solver, Envelope(), p0, self.stop).p)

    def _examples(self, v: Input, y: Array, p0: Array | None) -> tuple[Array, Solution | None]:
        """Return the loss of each example and the solution of the inner problem that it depends on."""
        raise NotImplementedError(f"{type(self).__name__}._examples")

    def _solve(self, problem: InnerProblem, v: Input, p0: Array | None) -> Solution:
        return solution_with(problem, v, *self.means, p0, self.stop)

    @property
    def means(self) -> tuple[InnerSolver, GradientMode]:
        """Return the solver and the gradient mode, which may have been given by name."""
        return as_solver(self.solver), as_mode(self.gradient) or Envelope()

    def _at(self, problem: InnerProblem, v: Input, p: Array, value: Array) -> Array:
        """Return a value computed at the solution p, with the derivative that the maximum has there."""
        return at_saddle(problem, v, p, value, isinstance(self.means[1], Implicit))

    def _reduce(self, values: Array) -> Array:
        if self.reduction == "none":
            return values
        xp = backend_of(values).xp
        return xp.mean(values) if self.reduction == "mean" else xp.sum(values)


def _staged(loss: Loss, v: Input) -> Callable[..., tuple[Array, Solution | None]]:
    """Return the loss of each example as one staged function and keep it: outside jit each operation is compiled alone.

    A function of the user's may have captured arrays that change between calls: it is not staged as a whole.
    """
    backend = backend_of(v)
    if type(loss.problem.energy).closed is Energy.closed and (backend.staged or patience() is not None):
        try:
            return _remembered(loss, backend.name)
        except TypeError:  # a part that cannot be hashed cannot be remembered either
            pass
    return loss._examples


@lru_cache(maxsize=256)
def _remembered(loss: Loss, backend: str) -> Callable[..., tuple[Array, Solution | None]]:
    framework = get_backend(backend)
    if framework.staged:
        return framework.jit(loss._examples)
    solver, mode = loss.means
    # a framework that borrows another's compiler runs the text there, and the solution it gives back is a constant
    alike = portable(loss.problem, solver, mode) and isinstance(mode, Envelope)
    return framework.stage(loss._examples) if alike else loss._examples


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


@dataclass(frozen=True)
class EnergyLoss(Loss):
    """Compute the energy loss -Phi(v, y), which raises the energy of the target and lowers no other.

    Args:
        problem: the energy, the regularizer and the set.
        solver: not used by the loss itself, only by `predict`; None by default.
        gradient: not used, since no inner problem is solved; `Envelope()` by default.
        reduction, stop, target_tol: as for `gfy.FenchelYoungLoss`.

    Returns:
        `loss(v, y)` returns the loss of each example, [...], or their mean or sum.

    Raises:
        GfyTypeError, GfyValueError: for a solver, a mode or a reduction that is not known.

    Reference: LeCun et al. (2006); Blondel et al. (2022), Section 2.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> loss = gfy.EnergyLoss(problem)
        >>> loss(gfy.Bilinear.Input(array([[1.0, 2.0, 3.0]])), array([[0.0, 0.0, 1.0]])).tolist()
        [-3.0]
    """

    def _examples(self, v: Input, y: Array, p0: Array | None) -> tuple[Array, Solution | None]:
        return -self.problem.energy.value(v, y), None


@dataclass(frozen=True)
class PerceptronLoss(Loss):
    """Compute the generalized perceptron loss max_{p in C} Phi(v, p) - Phi(v, y), which has no regularizer.

    Args:
        problem: the energy, the regularizer (which is left out) and the set.
        solver: an inner solver or its name; None, the default, chooses one for the problem.
        gradient: a gradient mode or its name; `Envelope()` by default.
        reduction, stop, target_tol: as for `gfy.FenchelYoungLoss`.

    Returns:
        `loss(v, y)` returns the loss of each example, [...], or their mean or sum.

    Raises:
        GfyTypeError, GfyValueError: for a solver, a mode or a reduction that is not known.

    Reference: LeCun et al. (2006); Blondel et al. (2022), Section 5.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> loss = gfy.PerceptronLoss(problem)
        >>> loss(gfy.Bilinear.Input(array([[1.0, 2.0, 3.0]])), array([[1.0, 0.0, 0.0]])).tolist()
        [2.0]
    """

    def _examples(self, v: Input, y: Array, p0: Array | None) -> tuple[Array, Solution | None]:
        plain = replace(self.problem, regularizer=Zero())
        found = self._solve(plain, v, p0)
        maximum = self._at(plain, v, found.p, plain.value(v, found.p))
        return maximum - plain.value(v, y), found


@dataclass(frozen=True)
class MarginLoss(Loss):
    """Compute the max-margin loss max_{p in C} Phi(v, p) + margin * cost(y, p) - Phi(v, y), with a cost linear in p.

    Args:
        problem: the energy, the regularizer (which is left out) and the set.
        solver: an inner solver or its name; None, the default, chooses one for the problem.
        gradient: a gradient mode or its name; `Envelope()` by default.
        reduction, stop, target_tol: as for `gfy.FenchelYoungLoss`.
        margin: the weight of the cost, a number >= 0; 1.0 by default.
        cost: "hamming" (the default), <y, 1 - p> + <1 - y, p>, for labels; "zero_one", 1 - <y, p>, for classes.

    Returns:
        `loss(v, y)` returns the loss of each example, [...], or their mean or sum.

    Raises:
        GfyTypeError, GfyValueError: for a cost, a margin, a solver, a mode or a reduction that cannot be used.

    Reference: Belanger and McCallum (2016); Tsochantaridis et al. (2005).

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> loss = gfy.MarginLoss(problem, cost="zero_one")
        >>> loss(gfy.Bilinear.Input(array([[1.0, 2.0, 3.0]])), array([[0.0, 0.0, 1.0]])).tolist()
        [0.0]
    """

    margin: float = 1.0
    cost: str = "hamming"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost not in _COSTS:
            raise GfyValueError(f"MarginLoss.cost must be one of {', '.join(_COSTS)}, got {self.cost!r}")
        if not self.margin >= 0:
            raise GfyValueError(f"MarginLoss.margin must be a number >= 0, got {self.margin!r}")

    def _examples(self, v: Input, y: Array, p0: Array | None) -> tuple[Array, Solution | None]:
        if self.cost == "hamming":
            slope, constant = self.margin * (1 - 2 * y), self.margin * y.sum(-1)
        else:
            slope, constant = -self.margin * y, self.margin
        plain = replace(self.problem, regularizer=Zero())
        moved = plain.energy.shift(v, slope)
        if moved is None:
            plain = replace(plain, energy=Shifted(plain.energy))
            moved = Shifted.Input(v, slope)
        found = self._solve(plain, moved, p0)
        maximum = self._at(plain, moved, found.p, plain.value(moved, found.p))
        return maximum + constant - self.problem.energy.value(v, y), found


@dataclass(frozen=True)
class ArgmaxLoss(Loss):
    """Compute a usual loss of the prediction itself, the cross-entropy or the squared distance of p*(v) and y.

    It needs dp*/dv. The cross-entropy is -<y, log p> on sets with sum p fixed and adds -<1 - y, log(1 - p)>
    elsewhere.

    Args:
        kind: "cross_entropy" (the default) or "squared"; the problem may be given first as well.
        problem: the energy, the regularizer and the set.
        solver: an inner solver or its name; None, the default, chooses one for the problem.
        gradient: `Implicit()`, the default, or `Unrolled()`, or their names.
        reduction, stop, target_tol: as for `gfy.FenchelYoungLoss`.
        eps: how far p is kept from 0 and 1 in the logarithms, since sparse regularizers reach both; 1e-6 by default.

    Returns:
        `loss(v, y)` returns the loss of each example, [...], or their mean or sum.

    Raises:
        GfyTypeError: for `Envelope()`, which has no dp*/dv, and for a problem of another kind.
        GfyValueError: for a kind, a solver, a mode or a reduction that is not known.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> loss = gfy.ArgmaxLoss("squared", problem)
        >>> loss(gfy.Bilinear.Input(array([[0.0, 1.0]])), array([[1.0, 1.0]])).tolist()
        [0.125]
    """

    kind: str = "cross_entropy"
    eps: float = 1e-6

    def __init__(
        self,
        kind: str | InnerProblem = "cross_entropy",
        problem: InnerProblem | str | None = None,
        solver: InnerSolver | str | None = None,
        gradient: GradientMode | str | None = None,
        reduction: str = "none",
        stop: Stop = Stop(),
        target_tol: float = 1e-4,
        eps: float = 1e-6,
    ) -> None:
        if isinstance(
            kind, InnerProblem
        ):  # ArgmaxLoss(problem, "squared") reads as well as the other way round
            kind, problem = (problem if isinstance(problem, str) else "cross_entropy"), kind
        if kind not in ("cross_entropy", "squared"):
            raise GfyValueError(f'ArgmaxLoss kind must be "cross_entropy" or "squared", got {kind!r}')
        if not isinstance(problem, InnerProblem):
            raise GfyTypeError(f'ArgmaxLoss("{kind}", problem) needs an InnerProblem, got {problem!r}')
        gradient = as_mode(gradient)
        if isinstance(gradient, Envelope):
            raise GfyTypeError(
                "ArgmaxLoss needs dp*/dv, which Envelope() does not have: use gfy.Implicit() or gfy.Unrolled()"
            )
        values = {
            "kind": kind, "problem": problem, "solver": solver, "gradient": gradient or Implicit(),
            "reduction": reduction, "stop": stop, "target_tol": target_tol, "eps": eps,
        }  # fmt: skip
        for field, value in values.items():
            object.__setattr__(self, field, value)
        super().__post_init__()

    def _examples(self, v: Input, y: Array, p0: Array | None) -> tuple[Array, Solution | None]:
        found = self._solve(self.problem, v, p0)
        p = found.p
        if self.kind == "squared":
            return 0.5 * dot(p - y, p - y), found
        xp = backend_of(p).xp
        inside = self.eps + (1 - 2 * self.eps) * p
        loss = -dot(y, xp.log(inside))
        if getattr(self.problem.domain, "total", None) is None:
            loss = loss - dot(1 - y, xp.log(1 - inside))
        return loss, found
