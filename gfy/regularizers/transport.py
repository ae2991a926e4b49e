"""Separable regularizers on doubly stochastic matrices: a damped Newton method on the 2n multipliers.

P_ij = q(theta_ij - a_i - b_j) with q the regularizer's scalar argmax map. The multipliers minimise the convex
sum_ij omega*(theta_ij - a_i - b_j) + sum a + sum b, whose Hessian is B D B^T for D = diag(q') and B the row
and column sums. As in `threshold`, one last differentiable Newton step carries the exact derivative.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gfy.backend import backend_of
from gfy.math import solve, transpose
from gfy.protocols import Array

if TYPE_CHECKING:
    from gfy.regularizers.base import Separable

_MAX_STEPS = 300
_HALVINGS = 30


class _State(NamedTuple):
    duals: Array  # [..., 2n]
    error: Array  # [...]
    step: Array  # []


class Margins:
    """The argmax map of a separable regularizer over the Birkhoff polytope, on matrices [..., n, n]."""

    def __init__(self, regularizer: Separable) -> None:
        self.regularizer = regularizer

    def argmax(self, theta: Array) -> Array:
        backend = backend_of(theta)
        xp = backend.xp
        fixed = backend.stop_gradient(theta)
        n = theta.shape[-1]
        eps = backend.eps(fixed)

        def body(state: _State) -> _State:
            matrix, slope = self._primal(fixed, state.duals)
            gradient = 1 - _sums(matrix)
            direction = -solve(self._hessian(slope, eps), gradient)
            base, expected = self._dual(fixed, state.duals), (gradient * direction).sum(-1)
            scale = xp.ones_like(base)
            for _ in range(_HALVINGS):
                short = self._dual(fixed, state.duals + scale[..., None] * direction)
                scale = xp.where(short <= base + 1e-4 * scale * expected + eps * xp.abs(base), scale, scale / 2)
            moving = (state.error > 8 * eps)[..., None]
            duals = xp.where(moving, state.duals + scale[..., None] * direction, state.duals)
            matrix, _ = self._primal(fixed, duals)
            return _State(duals, xp.max(xp.abs(_sums(matrix) - 1), axis=-1), state.step + 1)

        level = self.regularizer.derivative(1.0 / n)
        rows = xp.max(fixed, axis=-1) - level
        duals = xp.concat([rows, xp.zeros_like(rows)], axis=-1)
        start = _State(duals, xp.max(xp.abs(rows), axis=-1) * 0 + 1, xp.sum(xp.zeros_like(rows)))
        final = backend.while_loop(lambda s: xp.any(s.error > 8 * eps) & (s.step < _MAX_STEPS), body, start)
        duals = backend.stop_gradient(final.duals)
        _, slope = self._primal(fixed, duals)
        matrix, _ = self._primal(theta, duals)
        correction = solve(self._hessian(slope, eps), _sums(matrix) - 1)
        matrix, _ = self._primal(theta, duals + correction)
        return matrix

    def jacobian_product(self, theta: Array, x: Array) -> Array:
        backend = backend_of(theta)
        matrix = backend.stop_gradient(self.argmax(theta))
        # q' at the solution, read from p itself: theta - multipliers = omega'(p) wherever p is free
        slope = self._slope_at(matrix)
        shift = solve(self._hessian(slope, backend.eps(theta)), _sums(slope * x))
        return slope * (x - _spread(shift))

    def _slope_at(self, matrix: Array) -> Array:
        xp = backend_of(matrix).xp
        free = matrix > 0
        inside = xp.where(free, matrix, xp.ones_like(matrix) / matrix.shape[-1])
        slope = self.regularizer.coordinate_slope(self.regularizer.grad(inside), 0.0, math.inf)
        return xp.where(free, slope, xp.zeros_like(slope))

    def _primal(self, theta: Array, duals: Array) -> tuple[Array, Array]:
        scores = theta - _spread(duals)
        high = min(self.regularizer.most, math.inf)
        return (
            self.regularizer.coordinate_argmax(scores, 0.0, high),
            self.regularizer.coordinate_slope(scores, 0.0, high),
        )

    def _dual(self, theta: Array, duals: Array) -> Array:
        scores = theta - _spread(duals)
        p = self.regularizer.coordinate_argmax(scores, 0.0, min(self.regularizer.most, math.inf))
        return (scores * p - self.regularizer.coordinate_value(p)).sum(-1).sum(-1) + duals.sum(-1)

    def _hessian(self, slope: Array, eps: float) -> Array:
        """B D B^T plus a whisper of the identity: it is singular along (1, -1) and where the support splits."""
        xp = backend_of(slope).xp
        n = slope.shape[-1]
        rows, columns = slope.sum(-1), slope.sum(-2)
        eye = backend_of(slope).asarray([[float(i == j) for j in range(n)] for i in range(n)], like=slope)
        top = xp.concat([rows[..., None] * eye, slope], axis=-1)
        bottom = xp.concat([transpose(slope), columns[..., None] * eye], axis=-1)
        system = xp.concat([top, bottom], axis=-2)
        wide = backend_of(slope).asarray([[float(i == j) for j in range(2 * n)] for i in range(2 * n)], like=slope)
        ridge = 16 * eps * (1 + xp.max(rows, axis=-1))
        return system + ridge[..., None, None] * wide


def _sums(matrix: Array) -> Array:
    """Row sums then column sums, [..., n, n] -> [..., 2n]."""
    return backend_of(matrix).xp.concat([matrix.sum(-1), matrix.sum(-2)], axis=-1)


def _spread(duals: Array) -> Array:
    """a_i + b_j, [..., 2n] -> [..., n, n]."""
    n = duals.shape[-1] // 2
    return duals[..., :n, None] + duals[..., None, n:]
