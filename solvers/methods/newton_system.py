"""(I - H J) d = r: the linear systems of Newton's method on theta = grad Phi(p_Omega(theta))."""

from __future__ import annotations

from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot, matvec, solve
from gfy.numerics.spd import responder
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from gfy.regularizers import BinaryShannon, Quadratic, Shannon
from gfy.sets import BandSet

_UNROLLED = 8


def slope_at(problem: InnerProblem, p: Array) -> Array:
    """The diagonal of J read from p itself: 1 / omega''(p) where p is free, 0 where a bound is active."""
    xp = backend_of(p).xp
    low, high = problem.domain.bounds(p) if isinstance(problem.domain, BandSet) else (0.0, 1.0)
    free = (p > low) & (p < high)
    regularizer: Any = problem.regularizer
    if isinstance(regularizer, Quadratic):
        return xp.astype(free, p.dtype) * (1 / regularizer.curvature)
    if isinstance(regularizer, BinaryShannon):
        return xp.where(free, p * (1 - p) / regularizer.gamma, 0 * p)
    if isinstance(regularizer, Shannon):
        return xp.where(free, p / regularizer.gamma, 0 * p)
    inside = xp.where(free, p, p * 0 + 0.5 * min(1.0, regularizer.most))
    slope = regularizer.coordinate_slope(regularizer.grad(inside), low - 1.0, high + 1.0)
    return xp.where(free & xp.isfinite(slope), slope, 0 * slope)


def by_cholesky(problem: InnerProblem, U: Array, p: Array, r: Array) -> Array:
    """d for a dense Hessian U on a box or simplex."""
    balanced = getattr(problem.domain, "total", None) is not None
    return r + matvec(U, responder(U, slope_at(problem, p), balanced)(r))


def positive_solve(matrix: Array, rhs: Array) -> Array:
    """Small symmetric positive definite systems [..., m, m] y = [..., m].

    JAX calls LAPACK once for every matrix: up to m = 8 elimination written over the batch is twice as fast.
    """
    backend = backend_of(matrix)
    if backend.name == "jax" and matrix.shape[-1] <= _UNROLLED:
        return _eliminate(matrix, rhs)
    if backend.name != "torch":
        return solve(matrix, rhs)
    import torch

    found, broken = torch.linalg.solve_ex(matrix, rhs[..., None])
    return _eliminate(matrix, rhs) if bool(broken.any()) else found[..., 0]


def _eliminate(matrix: Array, rhs: Array) -> Array:
    """Gauss and Jordan's elimination; a pivot that rounding made too small is replaced, so the answer is finite."""
    backend = backend_of(matrix)
    xp = backend.xp
    least = 8 * backend.eps(matrix)
    table = xp.concat([matrix + 0 * rhs[..., None], rhs[..., None]], axis=-1)
    for i in range(matrix.shape[-1]):
        pivot = xp.maximum(table[..., i, i], least * matrix[..., i, i])
        row = table[..., i, :] / pivot[..., None]
        column = backend.set_at(table[..., i], (..., i), 0 * pivot)
        table = backend.set_at(table - column[..., None] * row[..., None, :], (..., i, slice(None)), row)
    return table[..., -1]


class _Krylov(NamedTuple):
    x: Array
    r: Array
    d: Array
    rho: Array
    count: Array


def by_conjugate_gradients(
    problem: InnerProblem, v: Input, p: Array, theta: Array, rhs: Array, steps: int
) -> Array:
    """d by conjugate gradients: I - H J is self-adjoint and positive in the inner product of J."""
    backend = backend_of(p)
    xp = backend.xp
    energy = problem.energy

    if isinstance(problem.domain, BandSet):
        D = slope_at(problem, p)
        weight = D.sum(-1)[..., None]
        weight = xp.where(weight > 0, weight, xp.ones_like(weight))

        def J(x: Array) -> Array:
            if problem.domain.total is None:  # type: ignore[attr-defined]
                return D * x
            return D * (x - dot(D, x)[..., None] / weight)
    else:

        def J(x: Array) -> Array:
            return problem.regularizer.jacobian_product(theta, problem.domain, x)

    def ratio(a: Array, b: Array) -> Array:
        return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), 0 * b)[..., None]

    def body(s: _Krylov) -> _Krylov:
        jd = J(s.d)
        md = s.d - energy.hessian_product(v, p, jd)
        alpha = ratio(s.rho, dot(jd, md))
        x, r = s.x + alpha * s.d, s.r - alpha * md
        rho = dot(r, J(r))
        return _Krylov(x, r, r + ratio(rho, s.rho) * s.d, rho, s.count + 1)

    rho = dot(rhs, J(rhs))
    # the forcing term: a tenth at first, more digits as the steps converge
    limit = rho * xp.minimum(1e-4 + 0 * rho, rho) + 1e-40
    start = _Krylov(0 * rhs, rhs, rhs, rho, xp.sum(0 * rho))
    final = backend.while_loop(lambda s: xp.any(s.rho > limit) & (s.count < steps), body, start)
    # one application of the equation fills in the part that J does not see
    return rhs + energy.hessian_product(v, p, J(final.x))
