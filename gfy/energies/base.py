"""What an energy must answer. v is the energy's `Input`; p is [..., k]; values are [...]."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gfy.backend import backend_of, leaves, namespace
from gfy.errors import GfyTypeError, GfyValueError
from gfy.numerics.arithmetic import dot, matvec, symmetric_matvec, transpose
from gfy.protocols import Array, Input

if TYPE_CHECKING:
    from gfy.energies.kinks import Kinks


class LowRank(NamedTuple):
    """The Hessian -A A^T, never formed; A is [..., k, m]."""

    A: Array

    def across(self, x: Array) -> Array:
        """A^T x, [..., m]; one column is a plain inner product, which fuses with what is around it."""
        return dot(self.A[..., 0], x)[..., None] if self.A.shape[-1] == 1 else matvec(transpose(self.A), x)

    def along(self, t: Array) -> Array:
        """A t, [..., k]."""
        return self.A[..., 0] * t if self.A.shape[-1] == 1 else matvec(self.A, t)

    def product(self, x: Array) -> Array:
        return -self.along(self.across(x))

    def bound(self) -> Array:
        """An upper bound of the spectral norm, [...]."""
        return (self.A * self.A).sum(-1).sum(-1)

    def value(self, u: Array, p: Array) -> Array:
        """<u, p> - 1/2 |A^T p|^2, [...]."""
        t = self.across(p)
        return dot(u, p) - 0.5 * dot(t, t)

    def difference(self, u: Array, p: Array, q: Array, slope: Array | None = None) -> Array:
        """The value at p less that at q and <slope, p - q>, [...], without the cancellation of the two."""
        u = u if slope is None else u + slope
        return dot(u, p - q) - 0.5 * dot(self.across(p - q), self.across(p + q))

    def diagonal(self) -> Array:
        return -(self.A * self.A).sum(-1)

    def dense(self) -> Array:
        return -(self.A @ transpose(self.A))


class Dense(NamedTuple):
    """The Hessian U, symmetric, [..., k, k]."""

    U: Array

    def product(self, x: Array) -> Array:
        return symmetric_matvec(self.U, x)

    def value(self, u: Array, p: Array) -> Array:
        """<u, p> + 1/2 <p, U p>, [...]."""
        return dot(p, u + 0.5 * symmetric_matvec(self.U, p))

    def difference(self, u: Array, p: Array, q: Array, slope: Array | None = None) -> Array:
        """The value at p less that at q and <slope, p - q>, [...]."""
        found = self.value(u, p) - self.value(u, q)
        return found if slope is None else found + dot(slope, p - q)

    def bound(self) -> Array:
        """An upper bound of the spectral norm: the largest absolute row sum, [...]."""
        xp = namespace(self.U)
        return xp.max(xp.sum(xp.abs(self.U), axis=-1), axis=-1)

    def diagonal(self) -> Array:
        xp = namespace(self.U)
        return xp.linalg.diagonal(self.U)

    def dense(self) -> Array:
        return self.U


class QuadraticForm(NamedTuple):
    """Phi(v, .) = <u, p> + 1/2 <p, U p> up to a constant: u [..., k], and U as a `curvature`."""

    u: Array
    curvature: LowRank | Dense


class Cusp(NamedTuple):
    """Phi(v, p) = <slope, p> - |p - point| + constant in the Euclidean norm; both are [..., k]."""

    point: Array
    slope: Array


class Energy:
    """The base of every energy Phi(v, p): higher means that v and p fit better.

    `ranks` gives each leaf of the Input its number of event axes; further leading axes are batch, and a leaf
    without them is shared by the batch. Facts about convexity are those of the paper's Table 1. Solvers, gradient
    modes and certificates ask for these facts and never for a class: an energy that states them is served.
    The guide "Add an energy" has the list of the facts.

    Reference: Blondel et al. (2022), Table 1.

    Example:
        >>> v = gfy.Pairwise.Input(u=array([0.5, -0.5]), A=array([[1.0], [0.5]]))
        >>> gfy.Pairwise().value(v, array([1.0, 0.0])).item(), gfy.Pairwise().grad_p(v, array([1.0, 0.0])).tolist()
        (0.0, [-0.5, -1.0])
        >>> isinstance(gfy.Pairwise(), gfy.Energy), gfy.Pairwise().concave
        (True, True)
    """

    Input: ClassVar[Any]
    ranks: ClassVar[dict[str, int]]
    concave: bool = True  # in p, for every v
    proven: bool = False  # concavity holds by construction or is checked at v; else it is the author's word
    convex: bool = False  # in p, for every v, and not `linear`
    in_v: str = "linear"  # "linear", "convex" or "nonconvex" in v
    linear: bool = False  # in p: Phi = <scores(v), p> + constant
    interactions: str | None = None  # "dense" or "low rank" where Phi is quadratic in p, as `quadratic` says
    metric: str | None = None  # "euclidean", "manhattan" or "other": minus a distance to `anchor(v)`
    smooth: bool = True  # in p
    kinked: bool = False  # in p, by rectifiers that `kinks` describes
    is_network: bool = False  # Phi is minus a network that is convex in p, whose layers `network` gives
    array_api: bool = True  # value and grad_p are written against the array namespace
    explicit_hessian: bool = False  # hessian_product is a formula, which needs no autodiff
    opaque: bool = False  # a function of the user's: values and first derivatives alone are relied on

    @property
    def name(self) -> str:
        return type(self).__name__

    def value(self, v: Input, p: Array) -> Array:
        """Phi(v, p), [...]."""
        raise NotImplementedError(f"{self.name}.value")

    def difference(self, v: Input, p: Array, q: Array, slope: Array | None = None) -> Array:
        """Phi(v, p) - Phi(v, q) + <slope, p - q>, [...]; an energy may say it so that no digits are lost for p near q.

        `slope` [..., k] is a linear term more, which costs least where the energy puts it beside its own.
        """
        if self.linear:
            scores = self.scores(v)
            return dot(scores if slope is None else scores + slope, p - q)
        found = self.value(v, p) - self.value(v, q)
        return found if slope is None else found + dot(slope, p - q)

    def grad_p(self, v: Input, p: Array) -> Array:
        """The (super)gradient of Phi in p, [..., k]; an energy that describes all of its kinks has one by them."""
        found = self.kinks(v, p) if self.kinked else None
        if found is None:
            raise NotImplementedError(f"{self.name}.grad_p")
        return found.supergradient(p)

    def scores(self, v: Input) -> Array:
        """theta with Phi(v, p) = <theta, p> + constant, for energies linear in p."""
        raise NotImplementedError(f"{self.name}.scores")

    def dim(self, v: Input) -> int:
        """k, the number of coordinates of p."""
        raise NotImplementedError(f"{self.name}.dim")

    def quadratic(self, v: Input) -> QuadraticForm | None:
        """u and U of Phi = <u, p> + 1/2 <p, U p> + constant, where the energy declares `interactions`; else None."""
        return None

    def curvature(self, v: Input) -> LowRank | Dense | None:
        """The Hessian in p where it does not depend on p (quadratic energies)."""
        form = self.quadratic(v)
        return None if form is None else form.curvature

    def anchor(self, v: Input) -> Array:
        """The point at which Phi(v, .) is largest, [..., k], for an energy that is a `metric`."""
        raise NotImplementedError(f"{self.name}.anchor")

    def hessian_product(self, v: Input, p: Array, x: Array) -> Array:
        """The Hessian of Phi in p times x, [..., k]."""
        curvature = self.curvature(v)
        if curvature is not None:
            return curvature.product(x)
        if self.linear:
            return namespace(x).zeros_like(x)
        return backend_of(x).jvp(lambda q: self.grad_p(v, q), (p,), (x,))[1]

    def smoothness(self, v: Input) -> Array | None:
        """An upper bound of the Hessian's spectral norm over p, [...]; None where unknown or infinite."""
        curvature = self.curvature(v)
        if curvature is not None:
            return curvature.bound()
        return self.scores(v).sum(-1) * 0 if self.linear else None

    def shift(self, v: Input, c: Array) -> Input | None:
        """The input of Phi(v, p) + <c, p>, where the energy has a linear term to put c in."""
        return v._replace(u=v.u + c) if self.tilts else None

    def network(self, v: Input) -> Kinks | None:
        """The layers of an energy that is minus a network convex in p, for others None.

        Its activation is the rectifier, and log(1 + exp(.)) where the energy is `smooth`.
        """
        return None

    def kinks(self, v: Input, p: Array | None = None) -> Kinks | None:
        """The rectifiers of an energy that is `kinked`; None for the others.

        A concave energy does not need p. One that is not concave gives, at p [..., k], the concave energy of the
        rectifiers that bend it downwards, the others being replaced by their tangent at p.
        """
        return None

    def cusp(self, v: Input) -> Cusp | None:
        """The point at which Phi(v, .) is the apex of a cone, for an energy that is one; None for the others."""
        return None

    def majorant(self, v: Input, p: Array, regularizer: Any, domain: Any) -> tuple[Array, Array]:
        """(g, c) with Phi(v, q) <= <g, q> + c for every q in C: the tangent at p, for a concave energy.

        At kinks a tangent may be far above the maximum: where the energy is `kinked` the bound is that of the best
        multipliers, the same for every p.
        """
        if self.kinked and self.concave:
            from gfy.saddle import saddle_of

            st, found = saddle_of(self, v, regularizer, domain, p)
            return st.scores(found.s), st.constant - dot(found.s, st.b)
        g = self.grad_p(v, p)
        return g, self.value(v, p) - dot(g, p)

    # facts about v, for the theory of the losses

    smooth_in_v: bool = True
    mixing: Any = None  # the fixed matrix U [d, k] of Phi = <v, U p>, where there is one

    free_in_v: bool = True  # every v of the right shapes is an input

    @property
    def tilts(self) -> bool:
        """Whether `shift` can add any linear term <c, p> to Phi."""
        return "u" in getattr(self.Input, "_fields", ())

    def shapes(self, k: int) -> dict[str, tuple[int, ...]] | None:
        """The shape of each leaf of one example's v, where k tells it; free sizes as small as they may be."""
        return None

    def sensitivity(self, v: Input, size: Array) -> Array | float | None:
        """K with |grad_v Phi(v, p) - grad_v Phi(v, q)| <= K |p - q| where |p| + |q| <= size [...]; None if unknown."""
        return None

    def joint_smoothness(self, extent: tuple[float, float]) -> float | None:
        """beta with Phi beta-smooth in (v, p), for p with coordinates in `extent` (Euclidean); None where unknown."""
        return None

    def concavity_violation(self, v: Input) -> str | None:
        """Where the given v breaks the concavity this energy claims, in a sentence (reads values)."""
        return None

    # the shape of v

    def coerce(self, v: Any) -> Input:
        """v as this energy's Input: a bare array will do where there is one leaf."""
        if isinstance(v, self.Input):
            return v
        if len(self.Input._fields) == 1:
            return self.Input(v)
        fields = ", ".join(self.Input._fields)
        raise GfyTypeError(f"v must be a {self.name}.Input({fields}), got {type(v).__name__}")

    def batch_shape(self, v: Input) -> tuple[int, ...]:
        """The broadcast batch axes of the leaves."""
        shapes = []
        for field, rank in self.ranks.items():
            leaf = getattr(v, field)
            if leaf.ndim < rank:
                raise GfyValueError(
                    f"{self.name}.Input.{field} needs at least {rank} axes, got shape {tuple(leaf.shape)}"
                )
            shapes.append(tuple(leaf.shape[: leaf.ndim - rank]))
        if shapes and all(shape == shapes[0] for shape in shapes):
            return shapes[0]
        try:
            return tuple(np.broadcast_shapes(*shapes))
        except ValueError:
            listed = ", ".join(f"{f} {tuple(getattr(v, f).shape)}" for f in self.ranks)
            raise GfyValueError(f"{self.name}.Input has batch axes that do not agree: {listed}") from None

    def axes(self, v: Input) -> Any:
        """How many leading axes of each leaf of v are batch axes, as a tree like v: 0 for a leaf that examples share.

        Whatever takes examples apart (a slice, a map over the batch) asks here and treats a leaf of 0 as shared.
        """
        return self.Input(**{field: getattr(v, field).ndim - rank for field, rank in self.ranks.items()})

    # functions of the user's inside an energy

    def sized(self, k: int) -> Energy:
        """This energy, told the size of p where it did not know it."""
        return self

    def closed(self, v: Input, p: Array | None) -> tuple[Energy, Input, Hashable]:
        """(energy, v, program): an energy and an input of the same value, where what a function captured is part of v.

        p [..., k] has the shape of the solution; None where it follows from v. `program` changes whenever a
        function computes something else: what is remembered between calls asks for it.
        """
        return self, v, None

    def computed_in(self, dtype: str, v: Input) -> Energy:
        """This energy, its functions computing in at least this dtype, whatever the dtype of what they captured."""
        return self

    def check(self, v: Input) -> None:
        """Raise where the shapes of v's leaves do not agree with each other."""
        for leaf in leaves(v):
            if not hasattr(leaf, "shape"):
                raise GfyTypeError(
                    f"the leaves of {self.name}.Input must be arrays, got {type(leaf).__name__}"
                )
        self.batch_shape(v)
        self._check_sizes(v)

    def _check_sizes(self, v: Input) -> None:
        """Event axes that must be equal, checked by the energies that have several leaves."""


def agree(energy: str, **sizes: tuple[str, int]) -> None:
    """Raise unless all the named axes have one size; each value is (what it is, its size)."""
    if len({size for _, size in sizes.values()}) > 1:
        listed = ", ".join(f"{what} = {size}" for what, size in sizes.values())
        raise GfyValueError(f"{energy}.Input: axes that must have one size differ: {listed}")
