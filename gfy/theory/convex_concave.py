"""Run the convex-concave procedure for losses that are a difference of convex functions of v.

Where Phi is convex in v (rectifier, maxout and log-sum-exp networks), L(v, y) = Omega^Phi(v) - Phi(v, y) + Omega(y)
is a difference of two convex functions. Replacing Phi(., y) by its tangent at the current v gives a convex upper
bound that touches L there. Minimising such bounds one after another never increases the loss, and needs no step size.
Reference: Yuille and Rangarajan (2003); Blondel et al. (2022), Section 4, who leave its use to future work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gfy.backend import backend_of, leaves
from gfy.backend.tree import unflatten
from gfy.checks import check_input, check_target
from gfy.conjugate import solve_with
from gfy.errors import GfyTypeError, GfyValueError, UnsupportedError
from gfy.losses import FenchelYoungLoss
from gfy.numerics.ascent import ascend
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Stop


class Descent(NamedTuple):
    """Hold the last theta, the objective before each round and after the last, and the number of inner evaluations."""

    theta: Any
    objectives: list[float]
    evaluations: list[int]


def not_dc(problem: InnerProblem) -> str | None:
    """Return the reason why the loss is not known to be a difference of convex functions of v, or None where it is."""
    if problem.energy.in_v == "nonconvex":
        return f"{problem.energy.name} is not convex in v"
    if problem.energy.in_v == "convex" and problem.domain.extent()[0] < 0:
        return f"{problem.energy.name} is convex in v where p >= 0, and {problem.domain.name} allows p < 0"
    return None


@dataclass(frozen=True)
class ConvexConcave:
    """Minimise a loss that is a difference of convex functions of v, by minimising convex upper bounds of it.

    Where Phi is convex in v (`Rectifier`, `Maxout`, `LogSumExp`), each bound touches the loss at the current v. The
    loss therefore never increases, and no step size is needed.

    Args:
        loss: a `FenchelYoungLoss` whose energy is convex in v.
        rounds: how many bounds are minimised, at least 1; 20 by default.
        inner: each bound is minimised until its gradient is `inner.tol` or `inner.max_steps` evaluations were made;
            1e-7 and 100 by default.

    Returns:
        `minimize(network, theta, y, penalty)` returns theta where it ended, the objectives and the evaluations.

    Raises:
        GfyTypeError, GfyValueError: for another loss, or no round at all.
        UnsupportedError: where the loss is not known to be a difference of convex functions.

    Reference: Yuille and Rangarajan (2003); Blondel et al. (2022), Section 4.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Maxout(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> procedure = gfy.ConvexConcave(gfy.FenchelYoungLoss(problem), rounds=3)
        >>> found = procedure.minimize(gfy.Maxout.Input, array([[0.5, 0.2]]), array([[0.5]]))
        >>> found.objectives[-1]
        0.01
    """

    loss: FenchelYoungLoss
    rounds: int = 20
    inner: Stop = Stop(1e-7, 100)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, FenchelYoungLoss):
            raise GfyTypeError(f"ConvexConcave needs a FenchelYoungLoss, got {type(self.loss).__name__}")
        if self.rounds < 1:
            raise GfyValueError(f"ConvexConcave.rounds must be at least 1, got {self.rounds!r}")
        reason = not_dc(self.loss.problem)
        if reason is not None:
            raise UnsupportedError(f"the convex-concave procedure on {self.loss.problem.name}: {reason}")

    def majorant(self, v: Any, y: Array, anchor: Any) -> Array:
        """Return a convex function of v that is above L(v, y) and touches it at the anchor, [...]; it is
        differentiable in v.
        """
        problem = self.loss.problem
        v, anchor = check_input(problem, v), check_input(problem, anchor)
        y = check_target(problem, v, y, self.loss.target_tol)
        return self._majorant(v, y, *self._tangent(anchor, y))

    def minimize(self, network: Callable[[Any], Any], theta: Any, y: Array, penalty: float = 0.0) -> Descent:
        """Minimise mean_i L(network(theta)_i, y_i) + penalty / 2 |theta|^2, where theta is any tree of arrays.

        network(theta) is the energy's Input for all examples. Where it is affine in theta the bounds are convex. The
        objective never rises for any network, except by rounding.
        """
        problem = self.loss.problem
        backend = backend_of(theta)
        xp = backend.xp
        start = xp.concat([xp.reshape(leaf, (-1,)) for leaf in leaves(theta)])
        y = check_target(problem, check_input(problem, network(theta)), y, self.loss.target_tol)

        def inputs(x: Array) -> Input:
            return problem.energy.coerce(network(_tree(theta, x)))

        def cost(values: Array, x: Array) -> Array:
            return xp.mean(values) + 0.5 * penalty * (x * x).sum()

        def objective(x: Array) -> Array:
            v = inputs(x)
            return cost(self._conjugate(v) - problem.value(v, y), x)

        def one_round(x: Array) -> tuple[Array, Array, Array]:
            at, slope = self._tangent(inputs(x), y)

            def bound(z: Array) -> tuple[Array, Array]:
                value, pull = backend.vjp(lambda w: -cost(self._majorant(inputs(w), y, at, slope), w), z)
                return value, pull(xp.ones_like(value))[0]

            end = ascend(bound, backend.stop_gradient(x), self.inner)
            return end.x, objective(end.x), end.steps

        staged = backend.jit(one_round)
        x = backend.stop_gradient(start)
        objectives, evaluations = [float(backend.to_numpy(objective(x)))], [0]
        for _ in range(self.rounds):
            x, value, steps = staged(x)
            objectives.append(float(backend.to_numpy(value)))
            evaluations.append(evaluations[-1] + int(backend.to_numpy(steps)) + 1)
            if objectives[-2] - objectives[-1] <= 1e-12 * (1 + abs(objectives[-1])):
                break
        return Descent(_tree(theta, x), objectives, evaluations)

    def _conjugate(self, v: Input) -> Array:
        loss = self.loss
        p = solve_with(loss.problem, v, *loss.means, None, loss.stop)
        return loss.problem.value(v, p)

    def _tangent(self, anchor: Input, y: Array) -> tuple[Array, Input]:
        """Return Phi(anchor, y) - <slope, anchor> and the slope of Phi(., y) at the anchor."""
        backend = backend_of(anchor)
        fixed = backend.stop_gradient(anchor)
        value, pull = backend.vjp(lambda w: self.loss.problem.energy.value(w, y), fixed)
        (slope,) = pull(backend.xp.ones_like(value))
        return value - _inner(slope, fixed, value), slope

    def _majorant(self, v: Input, y: Array, at: Array, slope: Input) -> Array:
        return self._conjugate(v) + self.loss.problem.regularizer.value(y) - at - _inner(slope, v, at)


def _inner(slope: Input, v: Input, like: Array) -> Array:
    """Return <slope, v> for each example, summed over all event axes: leaves [..., event] -> [...]."""
    xp = backend_of(like).xp
    total = xp.zeros_like(like)
    for a, b in zip(leaves(slope), leaves(v), strict=True):
        product = a * b
        total = total + xp.reshape(product, (*like.shape, -1)).sum(-1)
    return total


def _tree(like: Any, x: Array) -> Any:
    """Return the vector x cut and shaped as the tree `like`."""
    xp = backend_of(x).xp
    parts, start = [], 0
    for leaf in leaves(like):
        size = math.prod(leaf.shape)
        parts.append(xp.reshape(x[start : start + size], tuple(leaf.shape)))
        start += size
    return unflatten(like, iter(parts))
