"""Losses between an energy network's input v and a target y in C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gfy.backend import backend_of
from gfy.checks import check_input, check_start, check_target
from gfy.conjugate import solve_with
from gfy.energies.shifted import Shifted
from gfy.errors import GfyTypeError, GfyValueError
from gfy.gradients.envelope import Envelope
from gfy.gradients.implicit import Implicit
from gfy.gradients.kinks import at_saddle
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, InnerSolver, Input, Stop
from gfy.regularizers.quadratic import Zero

_REDUCTIONS = ("none", "mean", "sum")
_COSTS = ("hamming", "zero_one")


@dataclass(frozen=True)
class Loss:
    """What every loss shares: the problem, how it is solved and differentiated, and how examples are reduced."""

    problem: InnerProblem
    solver: InnerSolver | None = None
    gradient: GradientMode = Envelope()
    reduction: str = "none"
    stop: Stop = Stop()
    target_tol: float = 1e-4  # how far outside C a target may lie

    def __post_init__(self) -> None:
        if self.reduction not in _REDUCTIONS:
            raise GfyValueError(f"reduction must be one of {', '.join(_REDUCTIONS)}, got {self.reduction!r}")

    def __call__(self, v: Any, y: Array, p0: Array | None = None) -> Array:
        """The loss of each example [...], or their mean or sum; differentiable in v. p0 warm-starts the solver."""
        v = check_input(self.problem, v)
        y = check_target(self.problem, v, y, self.target_tol)
        if p0 is not None:
            check_start(self.problem, v, p0)
        else:
            p0 = self._start(v, y)
        return self._reduce(self._examples(v, y, p0))

    def predict(self, v: Any, p0: Array | None = None) -> Array:
        """p*(v) [..., k], a constant: the network's output."""
        v = check_input(self.problem, v)
        return solve_with(
            self.problem, v, self.solver, Envelope(), check_start(self.problem, v, p0), self.stop
        )

    def _examples(self, v: Input, y: Array, p0: Array | None) -> Array:
        raise NotImplementedError(f"{type(self).__name__}._examples")

    def _start(self, v: Input, y: Array) -> Array | None:
        """Energies that do not know the size of p start from the middle of C, shaped like y."""
        try:
            self.problem.energy.dim(v)
        except GfyTypeError:
            return self.problem.domain.center(backend_of(y).stop_gradient(y))
        return None

    def _maximum(self, problem: InnerProblem, v: Input, p0: Array | None) -> Array:
        p = solve_with(problem, v, self.solver, self.gradient, p0, self.stop)
        return self._at(problem, v, p, problem.value(v, p))

    def _at(self, problem: InnerProblem, v: Input, p: Array, value: Array) -> Array:
        """A value taken at the solution p, with the derivative that the maximum has there."""
        return at_saddle(problem, v, p, value, isinstance(self.gradient, Implicit))

    def _reduce(self, values: Array) -> Array:
        if self.reduction == "none":
            return values
        xp = backend_of(values).xp
        return xp.mean(values) if self.reduction == "mean" else xp.sum(values)


@dataclass(frozen=True)
class FenchelYoungLoss(Loss):
    """The generalized Fenchel-Young loss L(v, y) = Omega^Phi(v) + Omega(y) - Phi(v, y) >= 0, zero at y = p*(v).

    v the energy's Input, y [..., k] in C (or class indices on the simplex) -> [...].
    Reference: Blondel et al. (2022), Equation 8 and Proposition 3.
    """

    def _examples(self, v: Input, y: Array, p0: Array | None) -> Array:
        p = solve_with(self.problem, v, self.solver, self.gradient, p0, self.stop)
        return self._at(self.problem, v, p, self.problem.difference(v, p, y))


@dataclass(frozen=True)
class EnergyLoss(Loss):
    """The energy loss -Phi(v, y): pushes in one direction only, works where Phi is a similarity. [...]."""

    def _examples(self, v: Input, y: Array, p0: Array | None) -> Array:
        return -self.problem.energy.value(v, y)


@dataclass(frozen=True)
class PerceptronLoss(Loss):
    """The generalized perceptron loss max_{p in C} Phi(v, p) - Phi(v, y): the Fenchel-Young loss of Omega = 0. [...].

    Reference: LeCun et al. (2006); Blondel et al. (2022), Section 5.
    """

    def _examples(self, v: Input, y: Array, p0: Array | None) -> Array:
        plain = replace(self.problem, regularizer=Zero())
        return self._maximum(plain, v, p0) - plain.value(v, y)


@dataclass(frozen=True)
class MarginLoss(Loss):
    """The max-margin loss max_{p in C} Phi(v, p) + margin * cost(y, p) - Phi(v, y), cost linear in p. [...].

    cost "hamming": <y, 1 - p> + <1 - y, p> (multilabel); "zero_one": 1 - <y, p> (classes).
    Reference: Belanger and McCallum (2016); Tsochantaridis et al. (2005).
    """

    margin: float = 1.0
    cost: str = "hamming"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost not in _COSTS:
            raise GfyValueError(f"MarginLoss.cost must be one of {', '.join(_COSTS)}, got {self.cost!r}")
        if not self.margin >= 0:
            raise GfyValueError(f"MarginLoss.margin must be a number >= 0, got {self.margin!r}")

    def _examples(self, v: Input, y: Array, p0: Array | None) -> Array:
        if self.cost == "hamming":
            slope, constant = self.margin * (1 - 2 * y), self.margin * y.sum(-1)
        else:
            slope, constant = -self.margin * y, self.margin
        plain = replace(self.problem, regularizer=Zero())
        moved = plain.energy.shift(v, slope)
        if moved is None:
            plain = replace(plain, energy=Shifted(plain.energy))
            moved = Shifted.Input(v, slope)
        return self._maximum(plain, moved, p0) + constant - self.problem.energy.value(v, y)


@dataclass(frozen=True)
class ArgmaxLoss(Loss):
    """A loss of the argmax itself: "cross_entropy" or "squared" of (p*(v), y); needs dp*/dv (Implicit). [...].

    cross_entropy is -<y, log p> on sets with sum p fixed and adds -<1 - y, log(1 - p)> elsewhere; p is kept
    `eps` away from 0 and 1, where sparse regularizers put it exactly.
    """

    kind: str = "cross_entropy"
    eps: float = 1e-6

    def __init__(
        self,
        kind: str | InnerProblem = "cross_entropy",
        problem: InnerProblem | str | None = None,
        solver: InnerSolver | None = None,
        gradient: GradientMode | None = None,
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

    def _examples(self, v: Input, y: Array, p0: Array | None) -> Array:
        p = solve_with(self.problem, v, self.solver, self.gradient, p0, self.stop)
        if self.kind == "squared":
            return 0.5 * dot(p - y, p - y)
        xp = backend_of(p).xp
        inside = self.eps + (1 - 2 * self.eps) * p
        loss = -dot(y, xp.log(inside))
        if getattr(self.problem.domain, "total", None) is None:
            loss = loss - dot(1 - y, xp.log(1 - inside))
        return loss
