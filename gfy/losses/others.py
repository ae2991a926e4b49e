"""Define the losses that the paper compares with: energy, perceptron, max margin, and losses of the argmax itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gfy.backend import backend_of
from gfy.calling.named import as_mode
from gfy.energies.shifted import Shifted
from gfy.errors import GfyTypeError, GfyValueError
from gfy.gradients.envelope import Envelope
from gfy.gradients.implicit import Implicit
from gfy.losses.base import Loss
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, InnerSolver, Input, Solution, Stop
from gfy.regularizers.quadratic import Zero

_COSTS = ("hamming", "zero_one")


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

    It needs dp*/dv. The cross-entropy is -<y, log p> on sets with a fixed sum of p, and adds -<1 - y, log(1 - p)>
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
        # The call ArgmaxLoss(problem, "squared") is accepted too.
        if isinstance(kind, InnerProblem):
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
