"""The linear systems of implicit differentiation: (I - J H) x = b and its transpose (I - H J) x = b."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.numerics.arithmetic import clip, dot, matvec, solve, transpose
from gfy.numerics.spd import in_parts, responder
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input

METHODS = ("auto", "dense", "cg", "gmres", "neumann")
Operator = Callable[[Array], Array]
System = tuple[Operator, Operator, Operator]  # solve, transpose_solve, product
_RESTART = 30
_POWER_STEPS = 20
_POWER_ROOM = 1.3  # the power method finds the largest eigenvalue from below


def solver_for(method: str, problem: InnerProblem, v: Input, p: Array, theta: Array, tol: float) -> System:
    """The system I - J H at (v, p), theta = grad_p Phi(v, p)."""
    energy = problem.energy

    def jacobian(x: Array) -> Array:
        return problem.regularizer.jacobian_product(theta, problem.domain, x)

    def hessian(x: Array) -> Array:
        return energy.hessian_product(v, p, x)

    def product(x: Array) -> Array:
        return x - jacobian(hessian(x))

    curvature = energy.curvature(v)
    if energy.linear and method == "auto":
        return _identity, _identity, _identity
    if method == "auto" and isinstance(curvature, LowRank):
        return (*_woodbury(problem, theta, curvature.A), product)
    if method in ("auto", "dense"):
        hessian_matrix = _hessian_matrix(problem, v, p)
        factors = _cholesky if _symmetric(problem) else _dense
        return (*factors(problem, theta, hessian_matrix), product)
    floor = 8 * backend_of(p).eps(p)
    tol = max(tol, floor)
    transposed = lambda x: x - hessian(jacobian(x))  # noqa: E731
    if method == "neumann":
        return _neumann(product, tol), _neumann(transposed, tol), product
    if method == "cg" and energy.concave:
        return _conjugate_gradient(jacobian, hessian, tol)
    return _gmres(product, tol), _gmres(transposed, tol), product


def _identity(x: Array) -> Array:
    return x


def _woodbury(problem: InnerProblem, theta: Array, A: Array) -> tuple[Operator, Operator]:
    """H = -A A^T: (I + J A A^T)^-1 = I - J A (I + A^T J A)^-1 A^T, an m x m symmetric system."""
    backend = backend_of(theta)
    columns = transpose(A)  # [..., m, k]
    moved = problem.regularizer.jacobian_product(
        theta[..., None, :], problem.domain, columns + 0 * theta[..., None, :]
    )
    small = columns @ transpose(moved) + backend.asarray(np.eye(A.shape[-1]), like=theta)

    def forward(b: Array) -> Array:
        return b - matvec(transpose(moved), solve(small, matvec(columns, b)))

    def backward(b: Array) -> Array:
        return b - matvec(A, solve(small, matvec(moved, b)))

    return forward, backward


def _hessian_matrix(problem: InnerProblem, v: Input, p: Array) -> Array:
    curvature = problem.energy.curvature(v)
    if curvature is not None:
        return curvature.dense()
    k = p.shape[-1]
    backend = backend_of(p)
    eye = backend.asarray(np.eye(k), like=p)
    rows = [problem.energy.hessian_product(v, p, eye[j] + 0 * p) for j in range(k)]
    return backend.xp.stack(rows, axis=-2)


def _symmetric(problem: InnerProblem) -> bool:
    """Whether J is a diagonal (less one multiplier) and H negative semi-definite: then Cholesky's factors do."""
    return problem.regularizer.separable and problem.domain.banded and problem.energy.concave


def _cholesky(problem: InnerProblem, theta: Array, hessian: Array) -> tuple[Operator, Operator]:
    """x = b + (I - J H)^-1 J (H b), and for the transpose x = b + H (I - J H)^-1 J b: the same symmetric system."""
    domain, omega = problem.domain, problem.regularizer
    slopes, balanced = omega.slopes(theta, domain), domain.total is not None

    def forward(b: Array) -> Array:
        return in_parts(lambda H, D, b: b + responder(H, D, balanced)(matvec(H, b)), hessian, slopes, b)

    def backward(b: Array) -> Array:
        return in_parts(lambda H, D, b: b + matvec(H, responder(H, D, balanced)(b)), hessian, slopes, b)

    return forward, backward


def _dense(problem: InnerProblem, theta: Array, hessian: Array) -> tuple[Operator, Operator]:
    """The k x k system itself."""
    backend = backend_of(theta)
    eye = backend.asarray(np.eye(theta.shape[-1]), like=theta)
    moved = problem.regularizer.jacobian_product(
        theta[..., None, :], problem.domain, hessian + 0 * theta[..., None, :]
    )
    transposed = eye - moved  # row j of `moved` is J H e_j: this is (I - J H)^T
    system = transpose(transposed)
    return lambda b: solve(system, b), lambda b: solve(transposed, b)


def kink_system(problem: InnerProblem, theta: Array, Q: Array, kink: Array) -> System:
    """dp + J Q^T ds = f, kink * (-Q dp) + (1 - kink) * ds = g, for x = (p, s) side by side; Q is 0 off the kinks.

    By elimination of dp: the small matrix Q J Q^T, with a 1 on the diagonal where there is no kink.
    """
    backend = backend_of(theta)
    k, n = theta.shape[-1], kink.shape[-1]
    moved = problem.regularizer.jacobian_product(
        theta[..., None, :], problem.domain, Q + 0 * theta[..., None, :]
    )
    eye = backend.asarray(np.eye(n), like=theta)
    gram = Q @ transpose(moved)
    # more kinks than directions in which p can move leave their multipliers undetermined: the shortest change is taken
    size = backend.xp.max((gram * eye).sum(-1), axis=-1)[..., None]
    small = gram + eye * (1 - kink + 64 * backend.eps(theta) * kink * size)[..., None, :]

    def join(p: Array, s: Array) -> Array:
        return backend.xp.concat([p, s], axis=-1)

    def forward(b: Array) -> Array:
        f, g = b[..., :k], b[..., k:]
        ds = solve(small, g + matvec(Q, f))
        return join(f - matvec(transpose(moved), ds), ds)

    def backward(b: Array) -> Array:
        f, g = b[..., :k], b[..., k:]
        ds = solve(small, g - matvec(moved, f))
        return join(f + matvec(transpose(Q), ds), ds)

    def product(x: Array) -> Array:
        p, s = x[..., :k], x[..., k:]
        return join(p + matvec(transpose(moved), s), (1 - kink) * s - matvec(Q, p))

    return forward, backward, product


def _neumann(product: Operator, tol: float) -> Operator:
    """Neumann's series of the damped system: x + w (b - M x) until it rests, M = I - J H.

    For a concave energy the eigenvalues of M lie between 1 and 1 + r, r the largest of -J H, so that w = 1 / (1 +
    r / 2) converges whatever r is; the undamped series does so for r < 1 alone. r is found by the power method.
    """

    def run(b: Array) -> Array:
        backend = backend_of(b)
        xp = backend.xp
        scale = tol * _norm(b)
        weight = (1 / (1 + _POWER_ROOM / 2 * _largest(product, b)))[..., None]

        def body(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, _, count = state
            residual = b - product(x)
            return x + weight * residual, _norm(residual), count + 1

        start = (b, scale + 1, 0 * scale.sum())
        return backend.while_loop(lambda s: xp.any(s[1] > scale) & (s[2] < 10_000), body, start)[0]

    return run


def _largest(product: Operator, like: Array) -> Array:
    """|eigenvalue| of I - product that is largest, [...], by the power method: from below, by a few per cent."""
    backend = backend_of(like)
    waves = backend.asarray(1 + np.cos(1.7 * np.arange(like.shape[-1]) ** 2), like=like)

    def body(state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, _ = state
        image = x - product(x)
        size = _norm(image)
        return image / backend.xp.where(size > 0, size, backend.xp.ones_like(size))[..., None], size

    start = (waves + 0 * like, 0 * like.sum(-1))
    return backend.scan(body, start, _POWER_STEPS)[1]


class _Krylov(NamedTuple):
    z: Array  # J y, y the solution so far
    r: Array  # the residual
    jr: Array  # J r
    d: Array  # the direction
    jd: Array  # J d
    rho: Array  # <r, J r>
    best: Array  # z where rho was least
    least: Array
    count: Array


def _conjugate_gradient(jacobian: Operator, hessian: Operator, tol: float) -> System:
    """Conjugate gradients: I - J H is self-adjoint and positive in the inner product of J^-1, I - H J in that of J.

    x = (I - J H)^-1 b = b + J y with (I - H J) y = H b, and (I - H J) is J-self-adjoint: <x, J (I - H J) x> >= 0.
    J is singular (it ignores bounds that are active, and the mean where sum p is fixed), and the part of r that it
    ignores stays as large as b. J r is therefore updated, J M d = J d - J H (J d), and never computed from r, whose
    ignored part would leave rounding of its own size. Where J ignores all of b but rounding, the steps are rounding too
    and may grow: the answer is taken where <r, J r> was least.
    """

    def adjoint(b: Array) -> Array:
        backend = backend_of(b)
        xp = backend.xp

        def ratio(a: Array, c: Array, used: Array) -> Array:
            return xp.where(used, a / xp.where(used, c, xp.ones_like(c)), xp.zeros_like(c))[..., None]

        def body(s: _Krylov) -> _Krylov:
            bent = hessian(s.jd)
            move, jmove = s.d - bent, s.jd - jacobian(bent)
            length = dot(s.jd, move)
            # an example that is done, or whose direction is rounding, stays where it is
            alpha = clip(ratio(s.rho, length, (s.rho > limit) & (length > 0)), 0.0, 1.0)  # M is at least I
            z, r, jr = s.z + alpha * s.jd, s.r - alpha * move, s.jr - alpha * jmove
            rho = xp.where(alpha[..., 0] > 0, dot(r, jr), xp.zeros_like(s.rho))
            beta = ratio(rho, s.rho, rho > limit)
            better = rho < s.least
            best, least = xp.where(better[..., None], z, s.best), xp.where(better, rho, s.least)
            return _Krylov(z, r, jr, r + beta * s.d, jr + beta * s.jd, rho, best, least, s.count + 1)

        jb = jacobian(b)
        rho = dot(b, jb)
        limit = tol * tol * rho
        start = _Krylov(0 * b, b, jb, b, jb, rho, 0 * b, rho, 0 * rho.sum())
        final = backend.while_loop(
            lambda s: xp.any(s.rho > limit) & (s.count < 4 * b.shape[-1] + 20), body, start
        )
        return b + hessian(final.best)  # y = b + H J y

    def forward(b: Array) -> Array:
        return b + jacobian(adjoint(hessian(b)))

    return forward, adjoint, lambda x: x - jacobian(hessian(x))


def _gmres(product: Operator, tol: float) -> Operator:
    """Restarted GMRES, every example its own Krylov space, by least squares on an explicit basis."""

    def run(b: Array) -> Array:
        backend = backend_of(b)
        xp = backend.xp
        scale = tol * _norm(b)
        size = min(_RESTART, b.shape[-1])

        def cycle(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, error, count = state
            residual = b - product(x)
            empty = xp.zeros_like(residual)[..., None] + backend.asarray(
                np.zeros(size), like=b
            )  # [..., k, size]

            def extend(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
                q, Q, M, column = state
                before = _norm(q)[..., None]
                for _twice in range(2):  # orthogonalised twice: Gram-Schmidt alone loses digits
                    q = q - matvec(Q, matvec(transpose(Q), q))
                length = _norm(q)[..., None]
                new = (
                    length > 1e3 * backend.eps(b) * before
                )  # else the space is complete, and this is rounding
                q = xp.where(new, q / xp.where(new, length, xp.ones_like(length)), xp.zeros_like(q))
                image = product(q)
                here = xp.astype(columns == column, b.dtype)
                return image, Q + q[..., None] * here, M + image[..., None] * here, column + 1

            columns = backend.asarray(np.arange(size, dtype=np.float64), like=b)
            _, Q, M, _ = backend.scan(extend, (residual, empty, empty, 0 * columns[0]), size)
            gram = transpose(M) @ M
            eye = backend.asarray(np.eye(size), like=b)
            lengths = (gram * eye).sum(-1)  # 0 where the Krylov space was complete already
            ridge = 16 * backend.eps(b) * xp.max(lengths, axis=-1)[..., None] + xp.astype(
                lengths == 0, b.dtype
            )
            y = solve(gram + ridge[..., None] * eye, matvec(transpose(M), residual))
            x = xp.where((error > scale)[..., None], x + matvec(Q, y), x)
            return x, _norm(b - product(x)), count + 1

        start = (0 * b, scale + 1, 0 * scale.sum())
        return backend.while_loop(lambda s: xp.any(s[1] > scale) & (s[2] < 50), cycle, start)[0]

    return run


def _norm(x: Array) -> Array:
    return backend_of(x).xp.sqrt(dot(x, x))
