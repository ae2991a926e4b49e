"""Linear-quadratic energies: dense interactions, and low-rank ones that never form the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.energies.base import Dense, Energy, LowRank, agree
from gfy.numerics.arithmetic import dot, symmetric_matvec
from gfy.protocols import Array


class DenseInput(NamedTuple):
    """u [..., k] scores of labels, U [..., k, k] symmetric scores of pairs."""

    u: Array
    U: Array


class PairwiseInput(NamedTuple):
    """u [..., k] scores of labels, A [..., k, m]: pairs are scored by U = -A A^T."""

    u: Array
    A: Array


@dataclass(frozen=True)
class LinearQuadratic(Energy):
    """Phi(v, p) = <u, p> + 1/2 <p, U p>, v = (u, U): linear in v, concave in p when U is negative semi-definite.

    Closed form (gamma I - U)^-1 u on R^k with Omega = gamma / 2 |p|^2, where gamma I - U is positive definite.
    Say `concave=False` for a U that is not negative semi-definite.
    """

    concave: bool = True
    proven = True
    Input = DenseInput
    ranks = {"u": 1, "U": 2}

    def value(self, v: Any, p: Array) -> Array:
        return dot(p, v.u + 0.5 * symmetric_matvec(v.U, p))

    def grad_p(self, v: Any, p: Array) -> Array:
        return v.u + symmetric_matvec(v.U, p)

    def dim(self, v: Any) -> int:
        return int(v.u.shape[-1])

    def curvature(self, v: Any) -> Dense:
        return Dense(v.U)

    def _check_sizes(self, v: Any) -> None:
        agree(
            self.name,
            k=("u's last axis", v.u.shape[-1]),
            r=("U's rows", v.U.shape[-2]),
            c=("U's columns", v.U.shape[-1]),
        )

    def concavity_violation(self, v: Any) -> str | None:
        U = backend_of(v).to_numpy(v.U).astype(np.float64)
        scale = max(float(np.abs(U).max(initial=0.0)), 1e-300)
        tol = 1e-5 if backend_of(v).eps(v.U) > 1e-10 else 1e-10
        if float(np.abs(U - np.swapaxes(U, -1, -2)).max(initial=0.0)) > tol * scale:
            return "LinearQuadratic.Input.U must be symmetric: pass (U + U^T) / 2, which has the same energy"
        if not self.concave:
            return None
        largest = float(np.linalg.eigvalsh(U).max(initial=-np.inf))
        if largest > tol * scale * U.shape[-1]:
            return (
                f"LinearQuadratic claims to be concave but U has the eigenvalue {largest:.3g} > 0: pass a negative "
                "semi-definite U, or LinearQuadratic(concave=False)"
            )
        return None


@dataclass(frozen=True)
class Pairwise(Energy):
    """Phi(v, p) = <u, p> - 1/2 |A^T p|^2, v = (u, A): the paper's pairwise model with U = -A A^T of rank m.

    Linear in (u, U), concave in p; value and gradient cost O(k m).
    """

    proven = True
    in_v = "nonconvex"  # in (u, A); the loss is convex in (u, U)
    Input = PairwiseInput
    ranks = {"u": 1, "A": 2}

    def value(self, v: Any, p: Array) -> Array:
        t = LowRank(v.A).across(p)
        return dot(v.u, p) - 0.5 * dot(t, t)

    def difference(self, v: Any, p: Array, q: Array, slope: Array | None = None) -> Array:
        if backend_of(v).name == "torch":
            from gfy.energies import eager_pairwise

            if eager_pairwise.served(v.u, v.A, p, q):
                return eager_pairwise.difference(v.u, v.A, p, q, slope)
        pairs = LowRank(v.A)
        u = v.u if slope is None else v.u + slope
        return dot(u, p - q) - 0.5 * dot(pairs.across(p - q), pairs.across(p + q))

    def grad_p(self, v: Any, p: Array) -> Array:
        return v.u + LowRank(v.A).product(p)

    def dim(self, v: Any) -> int:
        return int(v.u.shape[-1])

    def curvature(self, v: Any) -> LowRank:
        return LowRank(v.A)

    def _check_sizes(self, v: Any) -> None:
        agree(self.name, k=("u's last axis", v.u.shape[-1]), r=("A's rows", v.A.shape[-2]))
