"""Define what an energy must provide. v is the energy's `Input`; p is [..., k]; values are [...]."""

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
    """Represent the Hessian -A A^T without forming it; A is [..., k, m]."""

    A: Array

    def across(self, x: Array) -> Array:
        """Return A^T x, [..., m]; one column is a plain inner product, which fuses with the operations around it."""
        return dot(self.A[..., 0], x)[..., None] if self.A.shape[-1] == 1 else matvec(transpose(self.A), x)

    def along(self, t: Array) -> Array:
        """Return A t, [..., k]."""
        return self.A[..., 0] * t if self.A.shape[-1] == 1 else matvec(self.A, t)

    def product(self, x: Array) -> Array:
        return -self.along(self.across(x))

    def bound(self) -> Array:
        """Return an upper bound of the spectral norm, [...]."""
        return (self.A * self.A).sum(-1).sum(-1)

    def value(self, u: Array, p: Array) -> Array:
        """Return <u, p> - 1/2 |A^T p|^2, [...]."""
        t = self.across(p)
        return dot(u, p) - 0.5 * dot(t, t)

    def difference(self, u: Array, p: Array, q: Array, slope: Array | None = None) -> Array:
        """Return the value at p minus the value at q minus <slope, p - q>, [...], without the cancellation of
        the two values."""
        u = u if slope is None else u + slope
        return dot(u, p - q) - 0.5 * dot(self.across(p - q), self.across(p + q))

    def diagonal(self) -> Array:
        return -(self.A * self.A).sum(-1)

    def dense(self) -> Array:
        return -(self.A @ transpose(self.A))


class Dense(NamedTuple):
    """Represent a symmetric Hessian U, [..., k, k]."""

    U: Array

    def product(self, x: Array) -> Array:
        return symmetric_matvec(self.U, x)

    def value(self, u: Array, p: Array) -> Array:
        """Return <u, p> + 1/2 <p, U p>, [...]."""
        return dot(p, u + 0.5 * symmetric_matvec(self.U, p))

    def difference(self, u: Array, p: Array, q: Array, slope: Array | None = None) -> Array:
        """Return the value at p minus the value at q minus <slope, p - q>, [...]."""
        found = self.value(u, p) - self.value(u, q)
        return found if slope is None else found + dot(slope, p - q)

    def bound(self) -> Array:
        """Return an upper bound of the spectral norm: the largest absolute row sum, [...]."""
        xp = namespace(self.U)
        return xp.max(xp.sum(xp.abs(self.U), axis=-1), axis=-1)

    def diagonal(self) -> Array:
        xp = namespace(self.U)
        return xp.linalg.diagonal(self.U)

    def dense(self) -> Array:
        return self.U


class QuadraticForm(NamedTuple):
    """Hold u [..., k] and U, a `curvature`, of Phi(v, .) = <u, p> + 1/2 <p, U p> up to a constant."""

    u: Array
    curvature: LowRank | Dense


class Cusp(NamedTuple):
    """Hold slope and point, both [..., k], of Phi(v, p) = <slope, p> - |p - point| + constant (Euclidean norm)."""

    point: Array
    slope: Array


class Energy:
    """This class is the base of every energy Phi(v, p): a higher value means that v and p fit better.

    `ranks` gives the number of event axes of each leaf of the Input. Further leading axes are batch axes, and the
    batch shares a leaf that has none. Facts about convexity are those of the paper's Table 1. Solvers, gradient modes
    and certificates read these facts and never ask for a class, so they work for every energy that states them. The
    guide "Add an energy" has the list of the facts.

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
    concave: bool = True  # Phi is concave in p for every v
    # True where concavity holds by construction or is checked at v; else the author claims it
    proven: bool = False
    convex: bool = False  # Phi is convex in p for every v, and not `linear`
    in_v: str = "linear"  # how Phi depends on v: "linear", "convex" or "nonconvex"
    linear: bool = False  # Phi is linear in p: Phi = <scores(v), p> + constant
    interactions: str | None = None  # "dense" or "low rank" where Phi is quadratic in p (see `quadratic`)
    # the distance to `anchor(v)` of which Phi is the negative: "euclidean", "manhattan" or "other"
    metric: str | None = None
    smooth: bool = True  # Phi is differentiable in p
    kinked: bool = False  # Phi has kinks in p, made by rectifiers that `kinks` describes
    is_network: bool = False  # Phi is minus a network that is convex in p; `network` gives its layers
    array_api: bool = True  # value and grad_p are written against the array namespace
    explicit_hessian: bool = False  # hessian_product is a formula, which needs no autodiff
    # the energy calls a function of the user: only its values and first derivatives are used
    opaque: bool = False

    @property
    def name(self) -> str:
        return type(self).__name__

    def value(self, v: Input, p: Array) -> Array:
        """Return Phi(v, p), [...]."""
        raise NotImplementedError(f"{self.name} must define the method value")

    def difference(self, v: Input, p: Array, q: Array, slope: Array | None = None) -> Array:
        """Return Phi(v, p) - Phi(v, q) + <slope, p - q>, [...]; an energy may compute it so that no digits
        are lost near q.

        `slope` [..., k] is a further linear term. It costs least where the energy adds it to its own linear term.
        """
        if self.linear:
            scores = self.scores(v)
            return dot(scores if slope is None else scores + slope, p - q)
        found = self.value(v, p) - self.value(v, q)
        return found if slope is None else found + dot(slope, p - q)

    def grad_p(self, v: Input, p: Array) -> Array:
        """Return the (super)gradient of Phi in p, [..., k]; an energy that describes all of its kinks gets it
        from them."""
        found = self.kinks(v, p) if self.kinked else None
        if found is None:
            raise NotImplementedError(f"{self.name} must define the method grad_p")
        return found.supergradient(p)

    def scores(self, v: Input) -> Array:
        """Return theta with Phi(v, p) = <theta, p> + constant, for energies linear in p."""
        raise NotImplementedError(f"{self.name} must define the method scores")

    def dim(self, v: Input) -> int:
        """Return k, the number of coordinates of p."""
        raise NotImplementedError(f"{self.name} must define the method dim")

    def quadratic(self, v: Input) -> QuadraticForm | None:
        """Return u and U of Phi = <u, p> + 1/2 <p, U p> + constant, or None where the energy declares no
        `interactions`."""
        return None

    def curvature(self, v: Input) -> LowRank | Dense | None:
        """Return the Hessian in p where it does not depend on p, as in quadratic energies."""
        form = self.quadratic(v)
        return None if form is None else form.curvature

    def anchor(self, v: Input) -> Array:
        """Return the point at which Phi(v, .) is largest, [..., k], for an energy that is a `metric`."""
        raise NotImplementedError(f"{self.name} must define the method anchor")

    def hessian_product(self, v: Input, p: Array, x: Array) -> Array:
        """Return the Hessian of Phi in p times x, [..., k]."""
        curvature = self.curvature(v)
        if curvature is not None:
            return curvature.product(x)
        if self.linear:
            return namespace(x).zeros_like(x)
        return backend_of(x).jvp(lambda q: self.grad_p(v, q), (p,), (x,))[1]

    def smoothness(self, v: Input) -> Array | None:
        """Return an upper bound of the Hessian's spectral norm over p, [...], or None where unknown or infinite."""
        curvature = self.curvature(v)
        if curvature is not None:
            return curvature.bound()
        return self.scores(v).sum(-1) * 0 if self.linear else None

    def shift(self, v: Input, c: Array) -> Input | None:
        """Return the input of Phi(v, p) + <c, p>, for an energy whose linear term can take c."""
        return v._replace(u=v.u + c) if self.tilts else None

    def network(self, v: Input) -> Kinks | None:
        """Return the layers of an energy that is minus a network convex in p, or None for other energies.

        Its activation is the rectifier, and log(1 + exp(.)) where the energy is `smooth`.
        """
        return None

    def kinks(self, v: Input, p: Array | None = None) -> Kinks | None:
        """Return the rectifiers of an energy that is `kinked`, or None for the others.

        A concave energy does not need p. At p [..., k], one that is not concave gives the concave energy of the
        rectifiers that bend it downwards; the others are replaced by their tangent at p.
        """
        return None

    def cusp(self, v: Input) -> Cusp | None:
        """Return the point at which Phi(v, .) is the apex of a cone, for an energy that is one, or None for
        the others."""
        return None

    def majorant(self, v: Input, p: Array, regularizer: Any, domain: Any) -> tuple[Array, Array]:
        """Return (g, c) with Phi(v, q) <= <g, q> + c for every q in C: the tangent at p of a concave energy.

        At kinks a tangent may be far above the maximum. Where the energy is `kinked`, the bound is therefore that of
        the best multipliers, the same for every p. An energy that is not concave is bounded in the form that `kinks`
        gives at p: its rectifiers that bend upwards are their tangents there.
        """
        if self.kinked:
            from gfy.saddle import saddle_of

            st, found = saddle_of(self, v, regularizer, domain, p, None if self.concave else p)
            return st.scores(found.s), st.constant - dot(found.s, st.b)
        g = self.grad_p(v, p)
        return g, self.value(v, p) - dot(g, p)

    # facts about v, for the theory of the losses

    smooth_in_v: bool = True
    mixing: Any = None  # the fixed matrix U [d, k] of Phi = <v, U p>, where there is one

    free_in_v: bool = True  # every v of the right shapes is an input

    @property
    def tilts(self) -> bool:
        """Return whether `shift` can add any linear term <c, p> to Phi."""
        return "u" in getattr(self.Input, "_fields", ())

    def shapes(self, k: int) -> dict[str, tuple[int, ...]] | None:
        """Return the shape of each leaf of one example's v, where k determines it; free sizes are as small as
        possible."""
        return None

    def sensitivity(self, v: Input, size: Array) -> Array | float | None:
        """Return K with |grad_v Phi(v, p) - grad_v Phi(v, q)| <= K |p - q| where |p| + |q| <= size [...], or
        None if unknown."""
        return None

    def joint_smoothness(self, extent: tuple[float, float]) -> float | None:
        """Return beta with Phi beta-smooth in (v, p), for p with coordinates in `extent` (Euclidean), or None
        where unknown."""
        return None

    def concavity_violation(self, v: Input) -> str | None:
        """Return a sentence that says where the given v breaks the concavity this energy claims (it reads values)."""
        return None

    # the shape of v

    def coerce(self, v: Any) -> Input:
        """Return v as this energy's Input; a bare array is accepted where there is one leaf."""
        if isinstance(v, self.Input):
            return v
        if len(self.Input._fields) == 1:
            return self.Input(v)
        fields = ", ".join(self.Input._fields)
        shown = f"an array of shape {tuple(v.shape)}" if hasattr(v, "shape") else type(v).__name__
        raise GfyTypeError(f"v must be a {self.name}.Input({fields}), got {shown}")

    def batch_shape(self, v: Input) -> tuple[int, ...]:
        """Return the broadcast batch axes of the leaves."""
        shapes = []
        for field, rank in self.ranks.items():
            leaf = getattr(v, field)
            if not hasattr(leaf, "ndim"):
                raise GfyTypeError(f"{self.name}.Input.{field} must be an array, got {type(leaf).__name__}")
            if leaf.ndim < rank:
                raise GfyValueError(
                    f"{self.name}.Input.{field} must have {rank} or more axes, got the shape {tuple(leaf.shape)}"
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
        """Return a tree like v with the number of leading batch axes of each leaf: 0 for a leaf that the
        examples share.

        Code that separates examples (a slice, a map over the batch) calls this, and treats a leaf with 0 as shared.
        """
        return self.Input(**{field: getattr(v, field).ndim - rank for field, rank in self.ranks.items()})

    # functions that the user wrote, inside an energy

    def sized(self, k: int) -> Energy:
        """Return this energy with the size of p set where it was not known."""
        return self

    def closed(self, v: Input, p: Array | None) -> tuple[Energy, Input, Hashable]:
        """Return (energy, v, program) of the same value, where the arrays that a function captured are part of v.

        p [..., k] has the shape of the solution; None where it follows from v. `program` changes whenever a function
        computes something else, so what is kept between calls must compare it.
        """
        return self, v, None

    def computed_in(self, dtype: str, v: Input) -> Energy:
        """Return this energy with functions that compute in at least this dtype, whatever dtype they captured."""
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
        """Check the event axes that must be equal; energies that have several leaves override this."""


def agree(energy: str, **sizes: tuple[str, int]) -> None:
    """Raise unless all the named axes have one size; each value is (what it is, its size)."""
    if len({size for _, size in sizes.values()}) > 1:
        listed = ", ".join(f"{what} = {size}" for what, size in sizes.values())
        raise GfyValueError(f"{energy}.Input: axes that must have one size differ: {listed}")
