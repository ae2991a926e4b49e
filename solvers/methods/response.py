"""Compute p_Omega and its slope together, with as few passes over memory as they need."""

from __future__ import annotations

from typing import Any

from gfy.backend import backend_of
from gfy.numerics.arithmetic import sigmoid
from gfy.problem import InnerProblem
from gfy.protocols import Array


def respond(problem: InnerProblem, theta: Array) -> tuple[Array, Array]:
    """Return argmax_{low <= p <= high} theta p - omega(p) and its derivative, elementwise; both are [..., k].

    At a kink (a coordinate exactly at its bound) the coordinate counts as free.
    """
    low, high = problem.domain.bounds(theta)
    omega: Any = problem.regularizer
    backend = backend_of(theta)
    xp = backend.xp
    if omega.quadratic:
        free = (theta + omega.tilt) * (1 / omega.curvature)
        p = clamp(free, low, high)
        return p, xp.astype(free == p, p.dtype) * (1 / omega.curvature)
    if omega.entropy == "binary":
        free = (backend.fused("sigmoid", theta) or sigmoid)(theta * (1 / omega.gamma))
        slope = free * (1 - free) * (1 / omega.gamma)
        if isinstance(low, float) and isinstance(high, float) and low <= 0 and high >= 1:
            return free, slope
        p = clamp(free, low, high)
        return p, xp.where(free == p, slope, 0 * slope)
    return omega.coordinate_argmax(theta, low, high), omega.coordinate_slope(theta, low, high)


def clamp(x: Array, low: Any, high: Any) -> Array:
    """Compute in one kernel where the framework has one."""
    backend = backend_of(x)
    return (backend.fused("clip", x) or backend.xp.clip)(x, low, high)
