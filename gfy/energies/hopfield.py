"""Define the energy of an associative memory, whose convex-concave steps are the updates of a Hopfield network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.energies.base import Energy, agree
from gfy.errors import GfyTypeError, GfyValueError, UnsupportedError
from gfy.numerics.arithmetic import dot, matvec, transpose
from gfy.protocols import Array
from gfy.regularizers.base import Regularizer
from gfy.regularizers.entropy import Shannon
from gfy.sets.simplex import Simplex


class HopfieldInput(NamedTuple):
    """Hold a linear term u [..., k] and n stored patterns X [..., n, k]."""

    u: Array
    X: Array


@dataclass(frozen=True)
class Hopfield(Energy):
    """Represent Phi(v, p) = <u, p> + Psi*(beta X p) / beta; Psi* conjugates a regularizer Psi of the simplex.

    It is convex in p, so that max_p Phi(v, p) - Omega(p) is the energy of a Hopfield network. Shannon's entropy gives
    the modern one, whose update is attention over the patterns. Gini's and Tsallis's give sparse ones, which retrieve
    a pattern exactly. `gfy.retrieve` takes the updates, and `retrieval_radius` says within which distance one update
    is enough.

    Args:
        association: Psi, which turns the scores X p of the n patterns into weights on the simplex; a regularizer with
            an argmax map there; `Shannon()` by default.
        beta: the inverse temperature, a number > 0; 1 by default.

    Raises:
        GfyTypeError: for an association that is not a regularizer.
        GfyValueError: for a beta that is not positive, and an association without an argmax map on the simplex.

    Reference: Santos, Niculae, McNamee and Martins (2024), Hopfield-Fenchel-Young networks.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Hopfield(gfy.Gini(), beta=2.0), gfy.SquaredNorm(), gfy.Reals())
        >>> v = gfy.Hopfield.Input(u=array([[0.0, 0.0]]), X=array([[1.0, 0.0], [0.0, 1.0]]))  # X [n, k]: patterns
        >>> gfy.retrieve(problem, v, array([[0.9, 0.1]])).p.tolist()  # the first pattern, exactly
        [[1.0, 0.0]]
    """

    association: Regularizer = Shannon()
    beta: float = 1.0
    Input = HopfieldInput
    ranks = {"u": 1, "X": 2}
    concave = False
    convex = True
    in_v = "convex"

    def __post_init__(self) -> None:
        if not isinstance(self.association, Regularizer):
            raise GfyTypeError(
                f"Hopfield.association must be a regularizer such as gfy.Gini(), got {self.association!r}"
            )
        if not 0 < self.beta < math.inf:
            raise GfyValueError(f"Hopfield.beta must be a finite number > 0, got {self.beta!r}")
        reason = self.association.no_argmax(Simplex())
        if reason is not None:
            raise GfyValueError(f"Hopfield.association must have an argmax map on the simplex: {reason}")

    @property
    def explicit_hessian(self) -> bool:  # type: ignore[override]
        return self.association.separable

    def weights(self, v: Any, p: Array) -> Array:
        """Return the weights of the patterns at p, on the simplex, [..., n]."""
        return self.association.argmax(self.beta * matvec(v.X, p), Simplex())

    def value(self, v: Any, p: Array) -> Array:
        scores = self.beta * matvec(v.X, p)
        return dot(v.u, p) + self.association.conjugate(scores, Simplex()) / self.beta

    def grad_p(self, v: Any, p: Array) -> Array:
        return v.u + matvec(transpose(v.X), self.weights(v, p))

    def hessian_product(self, v: Any, p: Array, x: Array) -> Array:
        if not self.explicit_hessian:
            return super().hessian_product(v, p, x)
        slopes = self.association.slopes(self.beta * matvec(v.X, p), Simplex())
        total = slopes.sum(-1)
        moved = matvec(v.X, x)
        xp = namespace(x)
        mean = dot(slopes, moved) / xp.where(total > 0, total, xp.ones_like(total))
        return self.beta * matvec(transpose(v.X), slopes * (moved - mean[..., None]))

    def smoothness(self, v: Any) -> Array | None:
        """Return beta |X|^2 / mu where Psi is mu-strongly convex on the simplex."""
        mu = self.association.strong_convexity(Simplex())
        if not mu > 0:
            return None
        bound: Array = (self.beta / mu) * (v.X * v.X).sum(-1).sum(-1)
        return bound + 0 * backend_of(v).xp.sum(v.u, axis=-1)

    def retrieval_radius(self, v: Any) -> Array:
        """Return the distance from each pattern within which one update with Omega = |p|^2 / 2 and u = 0
        returns it exactly.

        The weights are those of pattern i alone where, for every j, beta (x_i - x_j) . q is at least
        psi'(1) - psi'(0), the margin of the association. For |q - x_i| <= r the left side is at least beta
        ((x_i - x_j) . x_i - |x_i - x_j| r).

        Args:
            v: the energy's Input, of any framework; its patterns X [..., n, k] are read.

        Returns:
            The radii [..., n]: negative where a pattern is not its own retrieval, minus infinity where the association
            has no margin (Shannon's entropy) or a pattern is stored twice, infinite where there is one pattern.

        Raises:
            UnsupportedError: for an association that is not separable.

        Reference: Santos et al. (2024), exact retrieval; margins of Blondel, Martins and Niculae (2020).

        Example:
            >>> energy = gfy.Hopfield(gfy.Gini(), beta=4.0)
            >>> energy.retrieval_radius(gfy.Hopfield.Input(0 * query, patterns))
        """
        if not self.association.separable:
            raise UnsupportedError(f"{self.association.name} is not separable: its margin is not known")
        v = self.coerce(v)
        self.check(v)
        backend = backend_of(v)
        xp, X = backend.xp, v.X
        with np.errstate(divide="ignore"):  # the slope of an entropy is infinite at 0
            first, last = self.association.grad(np.array([0.0, 1.0]))
        margin = float(last - first) / self.beta
        apart = X[..., :, None, :] - X[..., None, :, :]
        distance = xp.sqrt(dot(apart, apart))
        each = backend.indices(X.shape[-2], X)
        lead = dot(apart, X[..., :, None, :]) - margin
        radius = lead / xp.where(distance > 0, distance, xp.ones_like(distance))
        far = xp.full_like(radius, math.inf)
        radius = xp.where(distance > 0, radius, -far)
        return xp.min(xp.where(each[:, None] == each[None, :], far, radius), axis=-1)

    def dim(self, v: Any) -> int:
        return int(v.u.shape[-1])

    def _check_sizes(self, v: Any) -> None:
        agree(self.name, k=("u's last axis", v.u.shape[-1]), X=("X's columns", v.X.shape[-1]))
