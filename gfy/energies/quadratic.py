"""Define linear-quadratic energies: dense interactions, and low-rank ones that never form the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.energies.base import Dense, Energy, LowRank, QuadraticForm, agree
from gfy.errors import GfyValueError
from gfy.protocols import Array


class DenseInput(NamedTuple):
    """Hold the scores of labels u [..., k] and the symmetric scores of pairs U [..., k, k]."""

    u: Array
    U: Array


class PairwiseInput(NamedTuple):
    """Hold the scores of labels u [..., k] and A [..., k, m]; pairs are scored by U = -A A^T."""

    u: Array
    A: Array


class QuadraticEnergy(Energy):
    """Represent Phi(v, p) = <u, p> + 1/2 <p, U p>; a subclass declares `interactions` and defines `quadratic`.

    Every solver, gradient mode and certificate for quadratic energies then works with it: `interactions` is "dense" or
    "low rank", and `quadratic(v)` returns u with U as `Dense(U)` or `LowRank(A)`, which stands for U = -A A^T.

    Example:
        >>> from typing import Any, NamedTuple
        >>> from gfy.energies import Dense, QuadraticEnergy, QuadraticForm
        >>> class Scores(NamedTuple):
        ...     u: Any  # scores [..., k]
        ...     L: Any  # penalties [..., k, k], positive semi-definite
        >>> class Penalised(QuadraticEnergy):
        ...     Input, ranks = Scores, {"u": 1, "L": 2}
        ...     def quadratic(self, v):
        ...         return QuadraticForm(v.u, Dense(-v.L))
        >>> problem = gfy.InnerProblem(Penalised(), gfy.SquaredNorm(), gfy.Reals())
        >>> gfy.argmax(problem, Scores(array([1.0, 2.0]), array([[1.0, 0.0], [0.0, 3.0]]))).tolist()
        [0.5, 0.5]
    """

    interactions: str | None = "dense"
    explicit_hessian = True

    def quadratic(self, v: Any) -> QuadraticForm:
        raise NotImplementedError(f"{self.name} must define the method quadratic")

    def value(self, v: Any, p: Array) -> Array:
        form = self.quadratic(v)
        return form.curvature.value(form.u, p)

    def difference(self, v: Any, p: Array, q: Array, slope: Array | None = None) -> Array:
        form = self.quadratic(v)
        return form.curvature.difference(form.u, p, q, slope)

    def grad_p(self, v: Any, p: Array) -> Array:
        form = self.quadratic(v)
        return form.u + form.curvature.product(p)

    def dim(self, v: Any) -> int:
        return int(self.quadratic(v).u.shape[-1])


@dataclass(frozen=True)
class LinearQuadratic(QuadraticEnergy):
    """Represent the energy Phi(v, p) = <u, p> + 1/2 <p, U p>: u [..., k] scores labels, U [..., k, k] their pairs.

    It is linear in v = (u, U), and concave in p when U is negative semi-definite. On R^k with Omega = gamma / 2 |p|^2
    its solution has the closed form (gamma I - U)^-1 u.

    Args:
        concave: whether every U is negative semi-definite, which certificates check; True by default.

    Reference: Blondel et al. (2022), Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), gfy.Reals())
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-1.0, 0.0], [0.0, -3.0]]]))
        >>> gfy.argmax(problem, v).tolist()  # u divided by 1 + (1, 3)
        [[0.5, -0.125]]
    """

    concave: bool = True
    interactions = "dense"
    proven = True
    free_in_v = False  # U must be symmetric, and negative semi-definite where `concave`
    Input = DenseInput
    ranks = {"u": 1, "U": 2}

    def quadratic(self, v: Any) -> QuadraticForm:
        return QuadraticForm(v.u, Dense(v.U))

    def difference(self, v: Any, p: Array, q: Array, slope: Array | None = None) -> Array:
        fused = backend_of(v).fused("dense_difference", v.u, v.U, p, q)
        return super().difference(v, p, q, slope) if fused is None else fused(v.u, v.U, p, q, slope)

    def shapes(self, k: int) -> dict[str, tuple[int, ...]]:
        return {"u": (k,), "U": (k, k)}

    def sensitivity(self, v: Any, size: Array) -> Array:
        return (1.0 + (0.5 * size) ** 2) ** 0.5  # grad_u = p, grad_U = p p^T / 2

    def _check_sizes(self, v: Any) -> None:
        agree(
            self.name,
            k=("u's last axis", v.u.shape[-1]),
            r=("U's rows", v.U.shape[-2]),
            c=("U's columns", v.U.shape[-1]),
        )

    def concavity_violation(self, v: Any) -> str | None:
        U = backend_of(v).to_numpy(v.U).astype(np.float64, copy=False)
        scale = max(float(np.abs(U).max(initial=0.0)), 1e-300)
        tol = 1e-5 if backend_of(v).eps(v.U) > 1e-10 else 1e-10
        if float(np.abs(U - np.swapaxes(U, -1, -2)).max(initial=0.0)) > tol * scale:
            return "LinearQuadratic.Input.U must be symmetric: pass (U + U^T) / 2, which has the same energy"
        if not self.concave:
            return None
        limit = tol * scale * U.shape[-1]
        if _factors(limit * np.eye(U.shape[-1]) - U):  # it takes a tenth of the time of the eigenvalues
            return None
        largest = float(np.linalg.eigvalsh(U).max(initial=-np.inf))
        if largest > limit:
            return (
                f"LinearQuadratic claims to be concave but U has the eigenvalue {largest:.3g} > 0: pass a negative "
                "semi-definite U, or LinearQuadratic(concave=False)"
            )
        return None


@dataclass(frozen=True)
class Pairwise(QuadraticEnergy):
    """Represent the paper's pairwise energy Phi(v, p) = <u, p> - 1/2 |A^T p|^2, with interactions U = -A A^T of rank m.

    Its input has the scores u [..., k] of the labels and the factor A [..., k, m] of their interactions.
    It is linear in (u, U) and concave in p; the value and the gradient cost O(k m), and U is never formed.

    Reference: Blondel et al. (2022), Section 6 and Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[0.5, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> gfy.argmax(problem, v).tolist()
        [[0.481, 0.115]]
    """

    interactions = "low rank"
    proven = True
    in_v = "nonconvex"  # this is said of (u, A); the loss is convex in (u, U)
    Input = PairwiseInput
    ranks = {"u": 1, "A": 2}

    def quadratic(self, v: Any) -> QuadraticForm:
        return QuadraticForm(v.u, LowRank(v.A))

    def shapes(self, k: int) -> dict[str, tuple[int, ...]]:
        return {"u": (k,), "A": (k, 1)}

    def sensitivity(self, v: Any, size: Array) -> Array:
        return (1.0 + LowRank(v.A).bound() * size**2) ** 0.5  # grad_u = p, grad_A = -p (A^T p)^T

    def difference(self, v: Any, p: Array, q: Array, slope: Array | None = None) -> Array:
        fused = backend_of(v).fused("pairwise_difference", v.u, v.A, p, q)
        return super().difference(v, p, q, slope) if fused is None else fused(v.u, v.A, p, q, slope)

    def _check_sizes(self, v: Any) -> None:
        k, shape = int(v.u.shape[-1]), tuple(v.A.shape)
        if shape[-2] != k and shape[-1] == k:
            raise GfyValueError(
                f"{self.name}.Input.A must be [..., k, m] with k = {k} as u has it, got the shape {shape}: a factor of "
                "one column needs its last axis too, A[..., None]"
            )
        agree(self.name, k=("u's last axis", k), r=("A's rows", shape[-2]))


def _factors(matrices: np.ndarray) -> bool:
    """Return whether all of them have a Cholesky factor, so that all are positive definite."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True
