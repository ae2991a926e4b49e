"""Define energies that may be given by a function: probabilistic networks and metrics."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.energies.base import Cusp, Energy
from gfy.energies.custom import CustomEnergy, FunctionEnergy, TreeInput
from gfy.energies.kinks import Kinks, Layer
from gfy.energies.linear import LinearEnergy, VectorInput
from gfy.errors import GfyTypeError, GfyValueError
from gfy.numerics.arithmetic import dot
from gfy.protocols import Array
from gfy.sets.ball import Ball


@dataclass(frozen=True)
class Probabilistic(FunctionEnergy, LinearEnergy):
    """Represent the expected energy Phi(v, p) = sum_y p(y) E(v, y); p* is a distribution over finitely many y.

    With `Shannon` on the simplex p* is the Gibbs distribution.

    Args:
        energies: a function that takes v to E(v, .), [..., n]; None, the default, takes v itself as that array.

    Raises:
        GfyTypeError: for `energies` that is no function.

    Reference: Blondel et al. (2022), Section 3.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Probabilistic(), gfy.Shannon(), gfy.Simplex())
        >>> E = array([[0.0, 1.0]])  # the energies of two outputs
        >>> gfy.argmax(problem, gfy.Probabilistic.Input(E)).tolist()  # softmax(E)
        [[0.269, 0.731]]
    """

    energies: Callable[[Any], Array] | None = None
    Input = TreeInput
    in_v = "nonconvex"
    function = "energies"

    def __post_init__(self) -> None:
        if self.energies is not None and not callable(self.energies):
            raise GfyTypeError(
                f"Probabilistic.energies must be a function of v, or None, got {type(self.energies).__name__}"
            )

    @property
    def ranks(self) -> dict[str, int] | None:  # type: ignore[override]
        """Return one axis where v is the array of energies, or None where a function takes v in any form."""
        return {"v": 1} if self.energies is None else None

    @property
    def array_api(self) -> bool:  # type: ignore[override]
        return self.energies is None

    def scores(self, v: Any) -> Array:
        return v.v if self.energies is None else self.energies(v.v)

    @property
    def tilts(self) -> bool:
        return self.energies is None

    def shift(self, v: Any, c: Array) -> Any | None:
        return TreeInput(v.v + c) if self.energies is None else None

    def sensitivity(self, v: Any, size: Array) -> float | None:
        return 1.0 if self.energies is None else None

    def shapes(self, k: int) -> dict[str, tuple[int, ...]] | None:
        return {"v": (k,)} if self.energies is None else None

    def closed(self, v: Any, p: Array | None) -> tuple[Energy, Any, Hashable]:
        return (self, v, None) if self.energies is None else super().closed(v, p)

    def _capture(self, v: Any, p: Array | None) -> Any:
        assert self.energies is not None
        return backend_of(v).capture(self.energies, v.v)

    def computed_in(self, dtype: str, v: Any) -> Energy:
        return self if self.energies is None else super().computed_in(dtype, v)

    def batch_shape(self, v: Any) -> tuple[int, ...]:
        return tuple(self._shape(v)[:-1])

    def dim(self, v: Any) -> int:
        return int(self._shape(v)[-1])

    def axes(self, v: Any) -> Any:
        if self.energies is None:
            return TreeInput(v.v.ndim - 1)
        raise GfyTypeError(
            "Probabilistic(energies=...) does not know which leaves of v carry the batch: pass the energies themselves"
        )

    def _shape(self, v: Any) -> tuple[int, ...]:
        """Return the shape [..., |Y|], without computing the energies where the framework allows it."""
        return v.v.shape if self.energies is None else backend_of(v).output_shape(self.energies, v.v)


_METRICS = ("euclidean", "manhattan")


@dataclass(frozen=True)
class Metric(FunctionEnergy):
    """Represent the energy Phi(v, p) = -C(v, p) of a distance C; v and p are [..., k]; a norm makes it concave.

    Where Omega is 1-Lipschitz for C and v lies in the set, p* = v.

    Args:
        cost: "euclidean" (the default), "manhattan", or a function of (v, p) that returns [...].

    Raises:
        GfyValueError: for a name that is not known.

    Reference: Blondel et al. (2022), Section 3, on C-transforms.

    Example:
        >>> v = gfy.Metric.Input(array([[0.0, 3.0]]))
        >>> gfy.Metric("euclidean").value(v, array([[4.0, 0.0]])).tolist()
        [-5.0]
        >>> gfy.Metric("manhattan").value(v, array([[4.0, 0.0]])).tolist()
        [-7.0]
    """

    cost: str | Callable[[Array, Array], Array] = "euclidean"
    Input = VectorInput
    ranks = {"v": 1}
    in_v = "nonconvex"
    smooth = False
    function = "cost"

    def __post_init__(self) -> None:
        if not callable(self.cost) and self.cost not in _METRICS:
            raise GfyValueError(
                f"Metric.cost must be one of {', '.join(_METRICS)} or a function, got {self.cost!r}"
            )

    @property
    def metric(self) -> str:  # type: ignore[override]
        return "other" if callable(self.cost) else self.cost

    def anchor(self, v: Any) -> Array:
        return v.v

    def shapes(self, k: int) -> dict[str, tuple[int, ...]]:
        return {"v": (k,)}

    @property
    def array_api(self) -> bool:  # type: ignore[override]
        return not callable(self.cost)

    @property
    def proven(self) -> bool:  # type: ignore[override]
        return not callable(self.cost)  # norms are convex, but a metric need not be

    @property
    def kinked(self) -> bool:  # type: ignore[override]
        return self.cost == "manhattan"

    def kinks(self, v: Any, p: Array | None = None) -> Kinks | None:
        """Return the kinks of -|p - v| = (p - v) - 2 relu(p - v) in each coordinate."""
        if not self.kinked:
            return None
        ones = namespace(v.v).ones_like(v.v)
        eye = backend_of(v).asarray(np.eye(v.v.shape[-1]), like=v.v)
        return Kinks(ones, -v.v.sum(-1), (Layer(eye, -v.v),), 2 * ones)

    def cusp(self, v: Any) -> Cusp | None:
        return Cusp(v.v, namespace(v.v).zeros_like(v.v)) if self.cost == "euclidean" else None

    def value(self, v: Any, p: Array) -> Array:
        xp = namespace(p)
        if callable(self.cost):
            return -self.cost(v.v, p)
        apart = p - v.v
        if self.cost == "manhattan":
            return -xp.sum(xp.abs(apart), axis=-1)
        square = dot(apart, apart)
        return -xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, xp.ones_like(square))), 0 * square)

    def grad_p(self, v: Any, p: Array) -> Array:
        xp = namespace(p)
        if callable(self.cost):
            return self.derivative(v, p)
        apart = p - v.v
        if self.cost == "manhattan":
            return -xp.sign(apart)
        square = dot(apart, apart)[..., None]
        return -apart / xp.sqrt(xp.where(square > 0, square, xp.ones_like(square)))

    def majorant(self, v: Any, p: Array, regularizer: Any, domain: Any) -> tuple[Array, Array]:
        """Return the bound of smaller gap at p: the tangent, or <g, q - v> with the g nearest Omega's slope, |g| <= 1.

        Every such g bounds the Euclidean -C. The tangent there is of no use where p lies near p* = v and not on it.
        """
        if self.cost != "euclidean":
            return super().majorant(v, p, regularizer, domain)
        xp = namespace(p)
        apart, tangent, cone = p - v.v, self.grad_p(v, p), Ball(1.0).project(regularizer.grad(p))

        def gap(g: Array) -> Array:
            return regularizer.excess(g, regularizer.argmax(g, domain), p) + dot(g, apart)

        at_kink = dot(apart, apart)[..., None] == 0
        if regularizer.no_argmax(domain) is None:
            at_kink = at_kink | (gap(cone) < gap(tangent))[..., None]
        slope = xp.where(at_kink, cone, tangent)
        return slope, -dot(slope, v.v)

    def dim(self, v: Any) -> int:
        return int(v.v.shape[-1])

    def closed(self, v: Any, p: Array | None) -> tuple[Energy, Any, Hashable]:
        """Return this energy, or one of a tree that has room for the arrays which the metric's function captured."""
        if not callable(self.cost):
            return self, v, None
        found = self._capture(v, p)
        if not found.arrays:
            return self, v, found.program
        energy = CustomEnergy(Opposite(self.cost), concave=True, smooth=False, k=self.dim(v))
        return energy.closed(TreeInput(v.v), p)

    def computed_in(self, dtype: str, v: Any) -> Energy:
        return super().computed_in(dtype, v) if callable(self.cost) else self

    def check(self, v: Any) -> None:
        Energy.check(self, v)


@dataclass(frozen=True)
class Opposite:
    """Represent the function -fn."""

    fn: Callable[..., Array]

    def __call__(self, *args: Any) -> Array:
        return -self.fn(*args)
