"""Define the inner problem max_{p in C} Phi(v, p) - Omega(p)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gfy.backend import backend_of, floating_leaf
from gfy.energies.base import Energy
from gfy.errors import GfyTypeError, UnsupportedError
from gfy.protocols import Array, Input
from gfy.regularizers.base import Regularizer
from gfy.sets.base import ConvexSet


@dataclass(frozen=True)
class InnerProblem:
    """Represent the problem that an energy network solves to predict: max_{p in C} Phi(v, p) - Omega(p).

    The input v is what your network computes from the features; the solution p* is the prediction.

    Args:
        energy: Phi, which says how well v and p fit; an instance such as `gfy.Pairwise()`.
        regularizer: Omega, a convex function of p; an instance such as `gfy.BinaryGini()`.
        domain: C, the set of allowed p; an instance such as `gfy.Box(0.0, 1.0)`.

    Raises:
        GfyTypeError: where an argument is of another kind, or a class and not an instance.
        UnsupportedError: where the regularizer is not defined on the set.

    Reference: Blondel et al. (2022), Section 3, Equations 4 and 5.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> v = gfy.Bilinear.Input(array([1.0, 0.5, -2.0]))
        >>> problem.value(v, array([0.5, 0.5, 0.0])).item()  # Phi(v, p) - Omega(p) at one p
        1.0
    """

    energy: Energy
    regularizer: Regularizer
    domain: ConvexSet

    def __post_init__(self) -> None:
        for field, kind in (("energy", Energy), ("regularizer", Regularizer), ("domain", ConvexSet)):
            given = getattr(self, field)
            if not isinstance(given, kind):
                hint = (
                    f"; write {given.__name__}()"
                    if isinstance(given, type) and issubclass(given, kind)
                    else ""
                )
                wanted = f"an instance of gfy.{kind.__name__}"
                raise GfyTypeError(f"InnerProblem.{field} must be {wanted}, got {given!r}{hint}")
        reason = self.regularizer.unsuited(self.domain)
        if reason is not None:
            raise UnsupportedError(reason)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Compute the hash once: problems are the keys under which choices and staged programs are kept."""
        return hash((self.energy, self.regularizer, self.domain))

    def __getstate__(self) -> dict[str, Any]:
        # The hash is left out, because another process computes another one.
        return {name: x for name, x in vars(self).items() if name != "_hash"}

    @property
    def name(self) -> str:
        return f"{self.energy.name}/{self.regularizer.name}/{self.domain.name}"

    @property
    def concave(self) -> bool:
        """Return whether Phi - Omega is concave in p, so that a stationary point is the maximum."""
        return self.energy.concave

    @property
    def strong_concavity(self) -> float:
        """Return a gamma for which Phi - Omega is gamma-strongly concave in p on C, or 0 where none is known."""
        return self.regularizer.strong_convexity(self.domain) if self.energy.concave else 0.0

    @property
    def unbounded(self) -> str | None:
        """Return the reason why the maximum may be infinite, in a sentence, or None where it is finite."""
        if self.regularizer.zero and not self.domain.compact:
            return (
                f"without a regularizer the maximum on {self.domain.name} may be infinite: use a compact set"
            )
        return None

    def check_dim(self, k: int) -> None:
        """Raise where the set or the regularizer does not exist in R^k."""
        self.domain.check_dim(k)
        self.regularizer.check_dim(k)

    def value(self, v: Input, p: Array) -> Array:
        """Return Phi(v, p) - Omega(p), [...]."""
        return self.energy.value(v, p) - self.regularizer.value(p)

    def difference(self, v: Input, p: Array, q: Array) -> Array:
        """Return the value at p minus the value at q, [...]; a quadratic Omega joins the linear term of Phi
        in one sum."""
        slope = self.regularizer.chord(p, q)
        if slope is None:
            return self.energy.difference(v, p, q) - self.regularizer.difference(p, q)
        return self.energy.difference(v, p, q, slope)

    def grad(self, v: Input, p: Array) -> Array:
        """Return the gradient of Phi - Omega in p, [..., k]; it is infinite where the gradient of Omega is."""
        return self.energy.grad_p(v, p) - self.regularizer.grad(p)

    def fixed_point(self, v: Input, p: Array) -> Array:
        """Return p_Omega(grad_p Phi(v, p)), [..., k]: p solves the problem (is stationary) exactly when this
        equals p."""
        return self.regularizer.argmax(self.energy.grad_p(v, p), self.domain)

    def initial_point(self, v: Input, p0: Array | None = None) -> Array:
        """Return p0 made feasible, or a point in the middle of C, with the shape [..., k] of the solution."""
        backend = backend_of(v)
        if p0 is not None:
            return self.domain.project(backend.stop_gradient(p0))
        shape = (*self.energy.batch_shape(v), self.energy.dim(v))
        return self.domain.center(backend.zeros(shape, floating_leaf(v)))
