"""Define energies linear in p: generalized linear models, rectifier, maxout and log-sum-exp networks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.energies.base import Energy
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot, logsumexp, relu, softplus
from gfy.protocols import Array
from gfy.regularizers.quadratic import check_positive


class VectorInput(NamedTuple):
    """Hold v [..., d], the output of the network."""

    v: Array


class LinearEnergy(Energy):
    """Represent Phi(v, p) = <scores(v), p>; a subclass defines the scores."""

    Input: ClassVar[Any] = VectorInput
    ranks = {"v": 1}
    linear = True
    explicit_hessian = True

    def value(self, v: Any, p: Array) -> Array:
        return dot(self.scores(v), p)

    def grad_p(self, v: Any, p: Array) -> Array:
        return self.scores(v) + namespace(p).zeros_like(p)

    def dim(self, v: Any) -> int:
        return int(self.scores(v).shape[-1])


class Mixing(LinearEnergy):
    """Represent scores U^T a(v) with a fixed matrix U [d, k]."""

    U: Any

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        """Return what distinguishes two of them: equal energies share one compiled solve."""
        matrix = None if self.U is None else (self.U.shape, self.U.tobytes())
        return type(self).__name__, matrix, getattr(self, "activation", None)

    def shapes(self, k: int) -> dict[str, tuple[int, ...]]:
        return {"v": (k if self.U is None else int(self.U.shape[0]),)}

    def sensitivity(self, v: Any, size: Array) -> float:
        # grad_v = U p, with 0 where a rectifier is off
        return 1.0 if self.U is None else float(np.linalg.norm(self.U, 2))

    def _mixed(self, activated: Array) -> Array:
        if self.U is None:
            return activated
        return activated @ backend_of(activated).asarray(self.U, like=activated)

    def dim(self, v: Any) -> int:
        return int(v.v.shape[-1] if self.U is None else self.U.shape[1])

    def _check_sizes(self, v: Any) -> None:
        if self.U is not None and v.v.shape[-1] != self.U.shape[0]:
            raise GfyValueError(
                f"{self.name}.U has {self.U.shape[0]} rows but v has {v.v.shape[-1]} coordinates: they must be equal"
            )


def _as_matrix(value: Any, argument: str) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise GfyValueError(f"{argument} must be a finite matrix [d, k], got shape {matrix.shape}")
    return matrix


@dataclass(frozen=True, eq=False)
class Bilinear(Mixing):
    """Represent the energy Phi(v, p) = <v, U p> of the classical Fenchel-Young losses; v [..., d], p [..., k].

    Its solution has the closed form p* = p_Omega(U^T v).

    Args:
        U: a matrix [d, k]; None, the default, is the identity.

    Raises:
        GfyValueError: for a U that is no finite matrix.

    Reference: Blondel et al. (2022), Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> v = gfy.Bilinear.Input(array([[1.0, 0.5, -2.0]]))
        >>> gfy.argmax(problem, v).tolist()  # the sparsemax of v
        [[0.75, 0.25, 0.0]]
    """

    U: Any = None

    def __post_init__(self) -> None:
        if self.U is not None:
            object.__setattr__(self, "U", _as_matrix(self.U, "Bilinear.U"))

    def scores(self, v: Any) -> Array:
        return self._mixed(v.v)

    @property
    def mixing(self) -> Any:  # type: ignore[override]
        return self.U

    @property
    def tilts(self) -> bool:
        return self.U is None

    def shift(self, v: Any, c: Array) -> Any | None:
        return VectorInput(v.v + c) if self.U is None else None

    def joint_smoothness(self, extent: tuple[float, float]) -> float:
        return 1.0 if self.U is None else float(np.linalg.norm(self.U, 2))


@dataclass(frozen=True, eq=False)
class Rectifier(Mixing):
    """Represent Phi(v, p) = <relu(v), U p>, convex in v where U and p are non-negative; v [..., d], p [..., k].

    Its solution has the closed form p_Omega(U^T relu(v)).

    Args:
        U: a matrix [d, k].
        activation: "relu" (the default) or "softplus".

    Raises:
        GfyValueError: for a U that is no finite matrix, or an activation that is not known.

    Reference: Blondel et al. (2022), Table 1.

    Example:
        >>> energy = gfy.Rectifier(U=[[1.0, 0.0], [0.0, 2.0]])
        >>> problem = gfy.InnerProblem(energy, gfy.Gini(), gfy.Simplex())
        >>> gfy.argmax(problem, gfy.Rectifier.Input(array([[-1.0, 0.25]]))).tolist()
        [[0.25, 0.75]]
    """

    U: Any
    activation: str = "relu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "U", _as_matrix(self.U, "Rectifier.U"))
        if self.activation not in ("relu", "softplus"):
            raise GfyValueError(f'Rectifier.activation must be "relu" or "softplus", got {self.activation!r}')

    @property
    def smooth_in_v(self) -> bool:  # type: ignore[override]
        return self.activation != "relu"

    @property
    def in_v(self) -> str:  # type: ignore[override]
        return "convex" if (self.U >= 0).all() else "nonconvex"

    def scores(self, v: Any) -> Array:
        return self._mixed(relu(v.v) if self.activation == "relu" else softplus(v.v))


class Weighted(LinearEnergy):
    """Represent Phi(v, p) = p f(v) for p [..., 1], where f has a slope of length at most 1."""

    def sensitivity(self, v: Any, size: Array) -> float:
        return 1.0

    def dim(self, v: Any) -> int:
        return 1


@dataclass(frozen=True)
class Maxout(Weighted):
    """Represent the energy Phi(v, p) = p max(v) of one number p [..., 1] >= 0; v [..., d]; convex in v.

    Its solution has the closed form p_Omega(max(v)).

    Reference: Blondel et al. (2022), Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Maxout(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Maxout.Input(array([[0.2, 0.5, -1.0]]))
        >>> gfy.argmax(problem, v).tolist()  # (0.5 + 1) / 2
        [[0.75]]
    """

    in_v = "convex"
    smooth_in_v = False

    def scores(self, v: Any) -> Array:
        return namespace(v.v).max(v.v, axis=-1)[..., None]


@dataclass(frozen=True)
class LogSumExp(Weighted):
    """Represent the energy Phi(v, p) = p LSE(v) of one number p [..., 1] >= 0, a smooth form of `Maxout`; v [..., d].

    LSE(v) = gamma log sum_j exp(v_j / gamma) is convex in v. The solution has the closed form p_Omega(LSE(v)).

    Args:
        gamma: the temperature, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a gamma that is not positive.

    Reference: Blondel et al. (2022), Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LogSumExp(gamma=0.1), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LogSumExp.Input(array([[0.2, 0.5, -1.0]]))
        >>> gfy.argmax(problem, v).tolist()
        [[0.752]]
    """

    gamma: float = 1.0
    in_v = "convex"

    def __post_init__(self) -> None:
        check_positive(self.gamma, "LogSumExp.gamma")

    def joint_smoothness(self, extent: tuple[float, float]) -> float | None:
        # The sum of p times the Hessian of LSE (at most 1 / gamma) and of its gradient (at most 1).
        return extent[1] / self.gamma + 1 if math.isfinite(extent[1]) else None

    def scores(self, v: Any) -> Array:
        return self.gamma * logsumexp(v.v / self.gamma, keepdims=True)
