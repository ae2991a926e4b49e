"""Compute argmax maps of separable regularizers on doubly stochastic matrices by Newton's method on 2n multipliers.

P_ij = q(theta_ij - a_i - b_j), where q is the regularizer's scalar argmax map. The multipliers minimise the convex
sum_ij omega*(theta_ij - a_i - b_j) + sum a + sum b. Its Hessian is B D B^T, where D = diag(q') and B takes row and
column sums. As in `threshold`, one last differentiable Newton step gives the exact derivative.

Where the scores differ by much more than omega' can (a small gamma), almost every q' is zero, and Newton's method
fails when it starts far away. The regularizer is therefore first multiplied by s > 1, and s falls to 1 by a constant
factor per stage. Each stage starts from the multipliers of the stage before. The unknown is X = (theta - a - b) / s,
and not the multipliers: near the solution X is of the size of omega', so its digits are not lost beside large scores.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import solve, transpose
from gfy.protocols import Array

if TYPE_CHECKING:
    from gfy.regularizers.base import Separable

_MAX_STEPS = 400
_SHORTEST = 1e-9
_REACH = 4.0  # the longest step, in differences of omega' between 1/4 and 3/4
_STAGE = 8.0  # s falls by this factor
_ROUGH = 0.05  # the error of the margins at which a stage ends
# Entries are at most 1 at the solution, so a cap above 1 is not active there; it prevents overflow before.
_CAP = 2.0


class _State(NamedTuple):
    scores: Array  # [..., n, n] X
    scale: Array  # [...] s
    done: Array  # [...] bool
    step: Array  # []


class Margins:
    """Represent the argmax map of a separable regularizer over the Birkhoff polytope, on matrices [..., n, n]."""

    def __init__(self, regularizer: Separable) -> None:
        self.regularizer = regularizer

    def argmax(self, theta: Array) -> Array:
        backend = backend_of(theta)
        fixed = backend.stop_gradient(theta)
        scores = backend.stop_gradient(self._solved(fixed)) + (theta - fixed)
        matrix, slope = self._primal(scores)
        correction = solve(self._hessian(backend.stop_gradient(slope), backend.eps(theta)), _sums(matrix) - 1)
        # Only the derivative of the correction is used. In a null direction of the Hessian its value is
        # magnified rounding.
        return self._primal(scores - spread(correction - backend.stop_gradient(correction)))[0]

    def solution(self, theta: Array) -> tuple[Array, Array]:
        """Return P [..., n, n] without a derivative, and multipliers a, b [..., 2n] fitted to it to the
        rounding of theta."""
        scores = self._solved(theta)
        xp = backend_of(theta).xp
        both = theta - scores
        rows = xp.mean(both, axis=-1)
        columns = xp.mean(both - rows[..., None], axis=-2)
        return self._primal(scores)[0], xp.concat([rows, columns], axis=-1)

    def _solved(self, theta: Array) -> Array:
        """Return X [..., n, n] with the margins of q(X) equal to 1."""
        backend = backend_of(theta)
        xp = backend.xp
        n = theta.shape[-1]
        eps = backend.eps(theta)
        derivative = self.regularizer.derivative
        unit = derivative(0.75) - derivative(0.25)
        reach = _REACH * unit

        def body(state: _State) -> _State:
            X = state.scores
            matrix, slope = self._primal(X)
            excess = _sums(matrix) - 1
            error = xp.max(xp.abs(excess), axis=-1)
            # The Hessian is singular where the support splits. A ridge that decreases with the error keeps
            # the steps short.
            ridge = 1e-3 * xp.where(error < 1, error, xp.ones_like(error))
            direction = solve(self._hessian(slope, eps, ridge), excess)
            longest = xp.max(xp.abs(direction), axis=-1)
            direction = (
                direction * (reach / xp.where(longest > reach, longest, reach + 0 * longest))[..., None]
            )
            expected = (excess * direction).sum(-1)

            def too_long(length: Array) -> Array:
                """Return whether the dual rises again at half the slope with which it falls at first."""
                moved = _sums(self._primal(X - spread(length[..., None] * direction))[0]) - 1
                return ~((moved * direction).sum(-1) >= -0.5 * expected)

            def halve(trial: tuple[Array, Array]) -> tuple[Array, Array]:
                length = xp.where(trial[1], trial[0] / 2, trial[0])
                return length, too_long(length) & (length > _SHORTEST)

            one = xp.ones_like(error)
            length, _ = backend.while_loop(lambda t: xp.any(t[1]), halve, (one, too_long(one)))
            moved = X - spread(length[..., None] * direction)
            after = xp.max(xp.abs(_sums(self._primal(moved)[0]) - 1), axis=-1)

            last = state.scale <= 1
            advance = ~last & (after <= _ROUGH)
            following = xp.where(state.scale > _STAGE, state.scale / _STAGE, one)
            ratio = xp.where(advance, state.scale / following, one)[..., None, None]
            # Near the end rounding decides. The better of both points is kept, and the search stops when the
            # step does not improve.
            better = ~last | (after < error) | (expected > 64 * eps * unit)
            # A shift of a whole row is a multiplier, so the row's largest entry may stay as it was when the
            # stage changes.
            peak = xp.max(moved, axis=-1)[..., None]
            moved = xp.where(better[..., None, None], peak + (moved - peak) * ratio, X)
            return _State(
                xp.where(state.done[..., None, None], X, moved),
                xp.where(advance, following, state.scale),
                state.done | (last & (~better | (after <= 4 * eps))),
                state.step + 1,
            )

        high = xp.max(xp.max(theta, axis=-1), axis=-1)
        scale = (high - xp.min(xp.min(theta, axis=-1), axis=-1)) / unit
        scale = xp.where(scale > 1, scale, xp.ones_like(scale))
        wide = scale[..., None, None]
        level = self.regularizer.derivative(1.0 / n)
        start = _State(
            (theta - xp.max(theta, axis=-1)[..., None]) / wide + level,
            scale,
            scale < 0,
            xp.sum(xp.zeros_like(scale)),
        )
        return backend.while_loop(lambda s: xp.any(~s.done) & (s.step < _MAX_STEPS), body, start).scores

    def jacobian_product(self, theta: Array, x: Array) -> Array:
        backend = backend_of(theta)
        matrix = backend.stop_gradient(self.argmax(theta))
        # q' at the solution is computed from p itself, because theta - multipliers = omega'(p) wherever p is
        # free.
        slope = self._slope_at(matrix)
        shift = solve(self._hessian(slope, backend.eps(theta)), _sums(slope * x))
        return slope * (x - spread(shift))

    def _slope_at(self, matrix: Array) -> Array:
        xp = backend_of(matrix).xp
        free = matrix > 0
        inside = xp.where(free, matrix, xp.ones_like(matrix) / matrix.shape[-1])
        slope = self.regularizer.coordinate_slope(self.regularizer.grad(inside), 0.0, math.inf)
        return xp.where(free, slope, xp.zeros_like(slope))

    def _primal(self, scores: Array) -> tuple[Array, Array]:
        """Return q and its derivative."""
        high = min(self.regularizer.most, _CAP)
        return (
            self.regularizer.coordinate_argmax(scores, 0.0, high),
            self.regularizer.coordinate_slope(scores, 0.0, high),
        )

    def _hessian(self, slope: Array, eps: float, ridge: Array | float = 0.0) -> Array:
        """Return B D B^T plus a relative ridge, which is never zero: the matrix is singular along (1, -1) and
        where the support splits."""
        backend = backend_of(slope)
        xp = backend.xp
        n = slope.shape[-1]
        rows, columns = slope.sum(-1), slope.sum(-2)
        eye = backend.asarray([[float(i == j) for j in range(n)] for i in range(n)], like=slope)
        top = xp.concat([rows[..., None] * eye, slope], axis=-1)
        bottom = xp.concat([transpose(slope), columns[..., None] * eye], axis=-1)
        system = xp.concat([top, bottom], axis=-2)
        wide = backend.asarray([[float(i == j) for j in range(2 * n)] for i in range(2 * n)], like=slope)
        largest = xp.max(rows, axis=-1)
        # Where every q' is zero, any step is allowed, and the ridge only keeps the system regular.
        ridge = (ridge + 16 * eps) * xp.where(largest > 0, largest, xp.ones_like(largest))
        return system + ridge[..., None, None] * wide


def _sums(matrix: Array) -> Array:
    """Return the row sums, then the column sums, [..., n, n] -> [..., 2n]."""
    return backend_of(matrix).xp.concat([matrix.sum(-1), matrix.sum(-2)], axis=-1)


def spread(duals: Array) -> Array:
    """Return a_i + b_j, [..., 2n] -> [..., n, n]."""
    n = duals.shape[-1] // 2
    return duals[..., :n, None] + duals[..., None, n:]
