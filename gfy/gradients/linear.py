"""Solve the linear systems of implicit differentiation: (I - J H) x = b and its transpose (I - H J) x = b."""

from __future__ import annotations

import numpy as np

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.numerics.arithmetic import dot, matvec, solve, transpose
from gfy.numerics.krylov import Operator, adjoint_solve
from gfy.numerics.spd import in_parts, responder
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input

METHODS = ("auto", "dense", "cg", "gmres", "neumann")
# (solve, transpose_solve, product). The product is None where frameworks can differentiate `solve`
# themselves.
System = tuple[Operator, Operator, Operator | None]
_RESTART = 30
_POWER_STEPS = 20
_POWER_ROOM = 1.3  # the power method approaches the largest eigenvalue from below


def solver_for(method: str, problem: InnerProblem, v: Input, p: Array, theta: Array, tol: float) -> System:
    """Return the system I - J H at (v, p), theta = grad_p Phi(v, p)."""
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
    """Solve for H = -A A^T by (I + J A A^T)^-1 = I - J A (I + A^T J A)^-1 A^T, an m x m symmetric system."""
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
    """Return whether J is a diagonal (less one multiplier) and H negative semi-definite, so that Cholesky
    factors suffice."""
    return problem.regularizer.separable and problem.domain.banded and problem.energy.concave


def _cholesky(problem: InnerProblem, theta: Array, hessian: Array) -> tuple[Operator, Operator]:
    """Solve x = b + (I - J H)^-1 J (H b), and for the transpose x = b + H (I - J H)^-1 J b: the same
    symmetric system."""
    domain, omega = problem.domain, problem.regularizer
    slopes, balanced = omega.slopes(theta, domain), domain.total is not None

    def forward(b: Array) -> Array:
        return in_parts(lambda H, D, b: b + responder(H, D, balanced)(matvec(H, b)), hessian, slopes, b)

    def backward(b: Array) -> Array:
        return in_parts(lambda H, D, b: b + matvec(H, responder(H, D, balanced)(b)), hessian, slopes, b)

    return forward, backward


def _dense(problem: InnerProblem, theta: Array, hessian: Array) -> tuple[Operator, Operator]:
    """Solve the k x k system itself."""
    backend = backend_of(theta)
    eye = backend.asarray(np.eye(theta.shape[-1]), like=theta)
    moved = problem.regularizer.jacobian_product(
        theta[..., None, :], problem.domain, hessian + 0 * theta[..., None, :]
    )
    transposed = eye - moved  # Row j of `moved` is J H e_j, so this is (I - J H)^T.
    system = transpose(transposed)
    return lambda b: solve(system, b), lambda b: solve(transposed, b)


def kink_system(problem: InnerProblem, theta: Array, Q: Array, kink: Array) -> System:
    """Solve dp + J Q^T ds = f, kink * (-Q dp) + (1 - kink) * ds = g, for x = (p, s) side by side; Q is 0 off the kinks.

    dp is eliminated. The small matrix is Q J Q^T, with a 1 on the diagonal where there is no kink.
    """
    backend = backend_of(theta)
    k, n = theta.shape[-1], kink.shape[-1]
    moved = problem.regularizer.jacobian_product(
        theta[..., None, :], problem.domain, Q + 0 * theta[..., None, :]
    )
    eye = backend.asarray(np.eye(n), like=theta)
    gram = Q @ transpose(moved)
    # Where p* lies on more kinks than it has directions to move in, their multipliers are not determined. The
    # ridge then gives the shortest change.
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
    """Solve by Neumann's series of the damped system: repeat x + w (b - M x) until x rests, with M = I - J H.

    For a concave energy the eigenvalues of M lie between 1 and 1 + r, where r is the largest eigenvalue of -J H. With
    w = 1 / (1 + r / 2) the series converges for every r; without damping it does so for r < 1 only. r is found by the
    power method.
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
    """Return the largest |eigenvalue| of I - product, [...], by the power method, which stays a few per cent
    below it."""
    backend = backend_of(like)
    waves = backend.asarray(1 + np.cos(1.7 * np.arange(like.shape[-1]) ** 2), like=like)

    def body(state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, _ = state
        image = x - product(x)
        size = _norm(image)
        return image / backend.xp.where(size > 0, size, backend.xp.ones_like(size))[..., None], size

    start = (waves + 0 * like, 0 * like.sum(-1))
    return backend.scan(body, start, _POWER_STEPS)[1]


def _conjugate_gradient(jacobian: Operator, hessian: Operator, tol: float) -> System:
    """Solve by conjugate gradients on I - H J: x = (I - J H)^-1 b = b + J y with (I - H J) y = H b."""

    def adjoint(b: Array) -> Array:
        return adjoint_solve(jacobian, hessian, b, lambda rho: tol * tol * rho, 4 * b.shape[-1] + 20)

    def forward(b: Array) -> Array:
        return b + jacobian(adjoint(hessian(b)))

    return forward, adjoint, lambda x: x - jacobian(hessian(x))


def _gmres(product: Operator, tol: float) -> Operator:
    """Solve by restarted GMRES, with one Krylov space per example, by least squares on an explicit basis."""

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
                for _twice in range(2):
                    # q is orthogonalised twice, because Gram-Schmidt loses digits when it is done once.
                    q = q - matvec(Q, matvec(transpose(Q), q))
                length = _norm(q)[..., None]
                # Otherwise the space is complete, and q is rounding.
                new = length > 1e3 * backend.eps(b) * before
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
