"""Separable regularizers on doubly stochastic matrices: a damped Newton method on the 2n multipliers.

P_ij = q(theta_ij - a_i - b_j) with q the regularizer's scalar argmax map. The multipliers minimise the convex
sum_ij omega*(theta_ij - a_i - b_j) + sum a + sum b, whose Hessian is B D B^T for D = diag(q') and B the row
and column sums. As in `threshold`, one last differentiable Newton step carries the exact derivative.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import solve, transpose
from gfy.protocols import Array

if TYPE_CHECKING:
    from gfy.regularizers.base import Separable

_MAX_STEPS = 200
_SHORTEST = 1e-9
_CAP = 2.0  # entries are at most 1: a cap above it is never active at the solution, and nothing overflows


class _State(NamedTuple):
    duals: Array  # [..., 2n]
    error: Array  # [...]
    done: Array  # [...] bool
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

        size = 1 + xp.max(xp.max(xp.abs(fixed), axis=-1), axis=-1)

        def body(state: _State) -> _State:
            matrix, slope = self._primal(fixed, state.duals)
            gradient = 1 - _sums(matrix)
            # where the support splits the Hessian is singular: a ridge that fades with the error keeps steps short
            far = 1e-3 * xp.max(xp.abs(gradient), axis=-1) / size
            direction = -solve(self._hessian(slope, eps, far), gradient)
            base, expected = self._dual(fixed, state.duals), (gradient * direction).sum(-1)
            allowed = base + 4 * eps * (1 + xp.abs(base))

            def too_long(scale: Array) -> Array:
                moved = self._dual(fixed, state.duals + scale[..., None] * direction)
                return ~(moved <= allowed + 1e-4 * scale * expected)

            def halve(trial: tuple[Array, Array]) -> tuple[Array, Array]:
                scale = xp.where(trial[1], trial[0] / 2, trial[0])
                return scale, too_long(scale) & (scale > _SHORTEST)

            one = xp.ones_like(base)
            scale, _ = backend.while_loop(lambda t: xp.any(t[1]), halve, (one, too_long(one)))
            duals = state.duals + scale[..., None] * direction
            matrix, _ = self._primal(fixed, duals)
            error = xp.max(xp.abs(_sums(matrix) - 1), axis=-1)
            # near the end rounding decides: keep the better of the two, and stop when neither improves
            better = (error < state.error) | (scale * -expected > 16 * eps * (1 + xp.abs(base)))
            duals = xp.where(better[..., None], duals, state.duals)
            return _State(
                duals, xp.where(better, error, state.error), ~better | (error <= 8 * eps), state.step + 1
            )

        level = self.regularizer.derivative(1.0 / n)
        rows = xp.max(fixed, axis=-1) - level
        duals = xp.concat([rows, xp.zeros_like(rows)], axis=-1)
        large = xp.zeros_like(rows[..., 0]) + math.inf
        start = _State(duals, large, large < 0, xp.sum(xp.zeros_like(rows)))
        final = backend.while_loop(lambda s: xp.any(~s.done) & (s.step < _MAX_STEPS), body, start)
        duals = backend.stop_gradient(final.duals)
        _, slope = self._primal(fixed, duals)
        matrix, _ = self._primal(theta, duals)
        correction = solve(self._hessian(slope, eps), _sums(matrix) - 1)
        # only its derivative is wanted: in a null direction of the Hessian its value is rounding blown up
        matrix, _ = self._primal(theta, duals + correction - backend.stop_gradient(correction))
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
        high = min(self.regularizer.most, _CAP)
        return (
            self.regularizer.coordinate_argmax(scores, 0.0, high),
            self.regularizer.coordinate_slope(scores, 0.0, high),
        )

    def _dual(self, theta: Array, duals: Array) -> Array:
        scores = theta - _spread(duals)
        p = self.regularizer.coordinate_argmax(scores, 0.0, min(self.regularizer.most, _CAP))
        return (scores * p - self.regularizer.coordinate_value(p)).sum(-1).sum(-1) + duals.sum(-1)

    def _hessian(self, slope: Array, eps: float, ridge: Array | float = 0.0) -> Array:
        """B D B^T plus a ridge, at least a whisper: it is singular along (1, -1) and where the support splits."""
        xp = backend_of(slope).xp
        n = slope.shape[-1]
        rows, columns = slope.sum(-1), slope.sum(-2)
        eye = backend_of(slope).asarray([[float(i == j) for j in range(n)] for i in range(n)], like=slope)
        top = xp.concat([rows[..., None] * eye, slope], axis=-1)
        bottom = xp.concat([transpose(slope), columns[..., None] * eye], axis=-1)
        system = xp.concat([top, bottom], axis=-2)
        wide = backend_of(slope).asarray(
            [[float(i == j) for j in range(2 * n)] for i in range(2 * n)], like=slope
        )
        ridge = ridge + 16 * eps * (1 + xp.max(rows, axis=-1))
        return system + ridge[..., None, None] * wide


def _sums(matrix: Array) -> Array:
    """Row sums then column sums, [..., n, n] -> [..., 2n]."""
    return backend_of(matrix).xp.concat([matrix.sum(-1), matrix.sum(-2)], axis=-1)


def _spread(duals: Array) -> Array:
    """a_i + b_j, [..., 2n] -> [..., n, n]."""
    n = duals.shape[-1] // 2
    return duals[..., :n, None] + duals[..., None, n:]
