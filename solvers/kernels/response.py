"""Compute how p* responds to its scores: r -> z = (I - J H)^-1 J r, from which derivatives of p* are made.

J = dp_Omega/dtheta at p*, and H is the Hessian of a quadratic energy. The operator is linear in r and symmetric, so
it serves tangents and cotangents alike. Second derivatives of p* need derivatives of the operator itself; the
framework computes these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.numerics.arithmetic import matvec, solve, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from solvers.kernels import call, frame


class ByFramework(NamedTuple):
    """Apply the same operator by the framework: r and D [B, k], matrix [B or 1, k, n] (U, or A if thin)."""

    thin: bool
    balanced: bool

    def __call__(self, r: Array, matrix: Array, D: Array) -> Array:
        columns = transpose(matrix)  # [B or 1, m, k]
        moved = self._mapped(D[:, None, :], columns + 0 * D[:, None, :])
        one = backend_of(D).asarray(np.eye(matrix.shape[-1]), like=D)
        z = self._mapped(D, r)
        # The system is I - J U itself. The roots of D would make it symmetric, but they have no derivative at
        # zero.
        if not self.thin:
            return solve(one - transpose(moved), z)
        small = columns @ transpose(moved) + one
        return z - matvec(transpose(moved), solve(small, matvec(columns + 0 * moved, z)))

    def _mapped(self, D: Array, x: Array) -> Array:
        """Return J x."""
        if not self.balanced:
            return D * x
        weight = D.sum(-1)[..., None]
        share = (D * x).sum(-1)[..., None] / backend_of(D).xp.where(weight > 0, weight, 1 + 0 * weight)
        return D * (x - share)


def response(problem: InnerProblem, v: Input, p: Array) -> Callable[[Array], Array] | None:
    """Return the compiled operator at p*, [..., k] -> [..., k], or None where the framework must solve the systems.

    Args:
        problem: The inner problem.
        v: The energy's input.
        p: Its solution [..., k].

    Returns:
        r [..., k] -> z [..., k], or None where compiled code does not serve the problem.

    Example:
        >>> answer = response(problem, v, p)
        >>> z = answer(cotangent)
    """
    if not call.serves(problem, v):
        return None
    backend, balanced = backend_of(v), problem.domain.total is not None

    def answer(r: Array) -> Array:
        slopes = problem.regularizer.slopes(problem.energy.grad_p(v, p), problem.domain)
        _, _, matrix, rank = call.parts(problem, v)
        batch = tuple(r.shape[:-1])
        square = call.matrices(backend.xp, matrix, batch)
        flat, D = (call.rows(backend.xp, x, batch, 1) for x in (r, backend.xp.astype(slopes, r.dtype)))
        threads = call.threads_for(backend.name, math.prod(batch) * matrix.shape[-1] * matrix.shape[-2])
        facts = _numbers(bool(rank), balanced, threads, call.dtype_of(r))
        z = call.caller(backend.name).response(flat, square, D, facts, ByFramework(bool(rank), balanced))
        return z if len(batch) == 1 else z.reshape(r.shape)

    return answer


@lru_cache(maxsize=64)
def _numbers(thin: bool, balanced: bool, threads: int, dtype: str) -> np.ndarray:
    facts = np.zeros(frame.HEAD)
    facts[frame.METHOD], facts[frame.TILT], facts[frame.THREADS] = frame.RESPONSE, float(thin), threads
    facts[frame.TOTAL] = 1.0 if balanced else math.nan
    return facts.astype(dtype)
