"""Solve (I - H J) d = r: the linear systems of Newton's method on theta = grad Phi(p_Omega(theta))."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.numerics.arithmetic import dot, matvec, transpose
from gfy.numerics.krylov import adjoint_solve
from gfy.numerics.spd import balance, positive_solver, responder
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input

_UNROLLED = 8
_LEAST = 8.0  # Units in the last place of a diagonal entry. A smaller pivot is rounding.


def slope_at(problem: InnerProblem, p: Array) -> Array:
    """Return the diagonal of J read from p itself: 1 / omega''(p) where p is free, 0 where a bound is active."""
    xp = backend_of(p).xp
    low, high = problem.domain.bounds(p) if problem.domain.banded else problem.domain.extent()
    free = (p > low) & (p < high)
    regularizer = problem.regularizer
    inside = xp.where(free, p, p * 0 + 0.5 * min(1.0, regularizer.most))
    return xp.where(free, regularizer.coordinate_flatness(inside), xp.zeros_like(p))


def by_cholesky(problem: InnerProblem, U: Array, p: Array, r: Array) -> Array:
    """Return d for a dense Hessian U on a box or simplex."""
    balanced = problem.domain.total is not None
    return r + matvec(U, responder(U, slope_at(problem, p), balanced)(r))


def answer(D: Array, x: Array, balanced: bool) -> Array:
    """Return J x for J = diag(D), less D D^T / sum D where `balanced` (sum p is fixed), [..., k]."""
    if not balanced:
        return D * x
    xp = backend_of(D).xp
    weight = D.sum(-1)[..., None]
    return D * (x - dot(D, x)[..., None] / xp.where(weight > 0, weight, xp.ones_like(weight)))


def small_system(A: Array, D: Array, balanced: bool) -> Array:
    """Return I + A^T J A, [..., m, m], for J as in `answer`."""
    backend = backend_of(A, D)
    eye = backend.asarray(np.eye(A.shape[-1]), like=D)
    weighted = D[..., None] * A
    system = transpose(A) @ weighted + eye
    if not balanced:
        return system
    along, weight = weighted.sum(-2), D.sum(-1)
    weight = backend.xp.where(weight > 0, weight, backend.xp.ones_like(weight))
    return system - along[..., :, None] * (along / weight[..., None])[..., None, :]


def low_rank_responder(A: Array, D: Array, balanced: bool) -> Callable[[Array], Array]:
    """Return r -> (I + J A A^T)^-1 J r, as `gfy.numerics.spd.responder` for the Hessian -A A^T, by an m x m system.

    Where D is large, most of D r cancels. The answer is therefore inserted into its equation once, and the response
    to the remaining residual is added.
    """
    system = small_system(A, D, False)
    xp = backend_of(D).xp
    free = D > 0
    stiff = xp.where(free, 1 / xp.where(free, D, xp.ones_like(D)), xp.zeros_like(D))

    def once(r: Array) -> Array:
        first = D * r
        return first - D * matvec(A, positive_solve(system, matvec(transpose(A), first)))

    def twice(r: Array) -> Array:
        z = once(r)
        return z + once(xp.where(free, r - stiff * z - matvec(A, matvec(transpose(A), z)), xp.zeros_like(z)))

    if not balanced:
        return twice
    tilt = twice(xp.ones_like(D))
    return lambda r: balance(twice(r), tilt)


def responder_at(problem: InnerProblem, v: Input, p: Array) -> Callable[[Array], Callable[[Array], Array]]:
    """Return D -> (r -> (I - J H)^-1 J r) with H the Hessian of Phi at p, by its low rank where that is below k."""
    balanced = problem.domain.total is not None
    curvature = problem.energy.curvature(v)
    if isinstance(curvature, LowRank) and curvature.A.shape[-1] < p.shape[-1]:
        A = curvature.A
        return lambda D: low_rank_responder(A, D, balanced)
    hessian = hessian_at(problem, v, p) if curvature is None else curvature.dense()
    return lambda D: responder(hessian, D, balanced)


def hessian_at(problem: InnerProblem, v: Input, p: Array) -> Array:
    """Return the Hessian of Phi in p, [..., k, k], computed row by row."""
    backend = backend_of(p)
    k = p.shape[-1]
    eye = backend.asarray(np.eye(k), like=p)

    def row(now: tuple[Array, Array]) -> tuple[Array, Array]:
        matrix, j = now
        found = problem.energy.hessian_product(v, p, eye[j] + 0 * p)
        return backend.set_at(matrix, (..., j, slice(None)), found), j + 1

    first = backend.asarray(np.asarray(0), dtype="int32")
    return backend.scan(row, (0 * p[..., None] * eye, first), k)[0]


def positive_solve(matrix: Array, rhs: Array) -> Array:
    """Solve small symmetric positive definite systems [..., m, m] y = [..., m].

    Rounding may leave a pivot of such a matrix at any value below some units in the last place of its diagonal: zero
    on one processor and negative on another. A tiny multiple of the diagonal is therefore added first, so that no
    such pivot is a divisor, and <y, rhs> > 0, as a descent direction needs. JAX calls LAPACK once per matrix; up to
    m = 8 an elimination over the whole batch is twice as fast.
    """
    backend = backend_of(matrix)
    if backend.staged and matrix.shape[-1] <= _UNROLLED:
        return _eliminate(matrix, rhs)
    eye = backend.asarray(np.eye(matrix.shape[-1]), like=matrix)
    ridge = _LEAST * matrix.shape[-1] * backend.eps(matrix)
    return positive_solver(matrix * (1 + ridge * eye))(rhs[..., None])[..., 0]


def _eliminate(matrix: Array, rhs: Array) -> Array:
    """Solve by Gauss-Jordan elimination; a pivot that rounding made too small is replaced, so the answer is finite."""
    backend = backend_of(matrix)
    xp = backend.xp
    least = _LEAST * backend.eps(matrix)
    table = xp.concat([matrix + 0 * rhs[..., None], rhs[..., None]], axis=-1)
    for i in range(matrix.shape[-1]):
        pivot = xp.maximum(table[..., i, i], least * matrix[..., i, i])
        row = table[..., i, :] / pivot[..., None]
        column = backend.set_at(table[..., i], (..., i), 0 * pivot)
        table = backend.set_at(table - column[..., None] * row[..., None, :], (..., i, slice(None)), row)
    return table[..., -1]


def by_conjugate_gradients(
    problem: InnerProblem, v: Input, p: Array, theta: Array, rhs: Array, steps: int
) -> Array:
    """Return d by conjugate gradients: I - H J is self-adjoint and positive in the inner product of J."""
    xp = backend_of(p).xp
    if problem.domain.banded:
        D, balanced = slope_at(problem, p), problem.domain.total is not None

        def J(x: Array) -> Array:
            return answer(D, x, balanced)
    else:

        def J(x: Array) -> Array:
            return problem.regularizer.jacobian_product(theta, problem.domain, x)

    # The residual, in the norm of J, is reduced to at most a hundredth of its start, and further as the steps
    # converge.
    def limit(rho: Array) -> Array:
        return rho * xp.minimum(1e-4 + 0 * rho, rho) + 1e-40

    return adjoint_solve(J, lambda x: problem.energy.hessian_product(v, p, x), rhs, limit, steps)
