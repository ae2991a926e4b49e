"""Differentiate at a cusp of an energy <slope, p> - |p - point| + constant, for instance a Euclidean metric.

Every w with |w| <= 1 bounds -|p - point| from above by <w, p - point>. Where p* = point, the least of these bounds is
the one whose w cancels the gradient of Omega: w = grad Omega(point) - slope. The norm |p - point| has no slope there,
and the derivative of the maximum uses this w in its place; p* moves with the point. A point inside C is p* exactly
where |w| <= 1. Where p* = point lies on the boundary of C, or on a flat set, the maximum has no derivative.
"""

from __future__ import annotations

import math

from gfy.backend import backend_of
from gfy.energies.base import Cusp
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input


def at_cusp(problem: InnerProblem, v: Input, p: Array, value: Array) -> Array:
    """Return value [...], computed at the solution p, with the derivative in v that the maximum has there."""
    found = problem.energy.cusp(v)
    if found is None:
        return value
    backend = backend_of(v)
    xp = backend.xp
    held, w = _held(problem, found, p), backend.stop_gradient(_balance(problem, found))
    # The gradient of an entropy may be infinite elsewhere.
    w = xp.where(held[..., None], w, xp.zeros_like(w))
    change = dot(w, p - found.point) + dot(found.slope, p) - problem.energy.value(v, p)
    change = change - backend.stop_gradient(change)
    return value + xp.where(held, change, xp.zeros_like(change))


def with_cusp(problem: InnerProblem, v: Input, p: Array) -> tuple[Array, Array] | None:
    """Return where p [..., k] is held at the cusp, [..., 1] bool, and the cusp with its derivative in v; None
    without cusp."""
    found = problem.energy.cusp(v)
    if found is None:
        return None
    backend = backend_of(v)
    moved = p + found.point - backend.stop_gradient(found.point)
    return _held(problem, found, p)[..., None], moved


def _balance(problem: InnerProblem, found: Cusp) -> Array:
    """Return w = grad Omega(point) - slope, [..., k]."""
    return problem.regularizer.grad(found.point) - found.slope


def _held(problem: InnerProblem, found: Cusp, p: Array) -> Array:
    """Return where p is the point of the cusp and that is the maximum, [...] bool."""
    backend = backend_of(p)
    apart, w = backend.stop_gradient((p - found.point, _balance(problem, found)))
    near = backend.xp.max(backend.xp.abs(apart), axis=-1) <= math.sqrt(backend.eps(p))
    return near & (dot(w, w) <= 1)
