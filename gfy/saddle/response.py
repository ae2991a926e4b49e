"""Compute p as a response to scores on the way to a saddle point, its derivative, and Omega's own derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.energies.kinks import Stacked
from gfy.numerics.arithmetic import dot
from gfy.protocols import Array
from gfy.regularizers.quadratic import SquaredNorm
from gfy.sets.interior import Polyhedron, Round, described, interior_of


class Parts(NamedTuple):
    """Hold what stays the same from step to step."""

    st: Stacked
    omega: Any
    domain: Any
    room: Polyhedron | Round | None


def parts(st: Stacked, regularizer: Any, domain: Any) -> Parts:
    """Return the problem in the form that the steps take."""
    room = interior_of(domain, st.slope) if regularizer.separable or regularizer.zero else None
    return Parts(st, regularizer, domain, room)


def unsupported(regularizer: Any, domain: Any) -> str | None:
    """Return the reason why no saddle point can be found with Omega on the set, in a sentence, or None where it can."""
    if regularizer.zero and not described(domain):
        return (
            f"without a regularizer the kinks on {domain.name} have no multipliers to solve for: the set is known by "
            "its oracle alone; use SquaredNorm, or a ConvexHull of its points"
        )
    return str(reason) if (reason := regularizer.no_argmax(domain)) else None


def respond(given: Parts, theta: Array, x: Array) -> Array:
    """Return argmax of <theta, p> - Omega(p), or without Omega of <theta, p> minus a small square of the distance to x.

    Where p* is a vertex and x is near it, that square does not change the answer, which is the vertex.
    """
    if given.omega.zero and given.room is not None:
        return SquaredNorm().argmax(given.room.point(x) + theta / _size(given.st), given.domain)
    return given.omega.argmax(theta, given.domain)


def jacobian(given: Parts, theta: Array, x: Array, rows: Array) -> Array:
    """Return J applied to each row of [..., n, k], where J is the derivative of `respond` in theta."""
    rows = rows + 0 * theta[..., None, :]
    if given.omega.zero and given.room is not None:
        size = _size(given.st)
        near = (given.room.point(x) + theta / size)[..., None, :]
        return SquaredNorm().jacobian_product(near, given.domain, rows) / size[..., None]
    return given.omega.jacobian_product(theta[..., None, :], given.domain, rows)


def _size(st: Stacked) -> Array:
    """Return the largest linear term, [..., 1]. The scores themselves may all be zero at the saddle point."""
    xp = backend_of(st.slope).xp
    return xp.max(xp.abs(st.slope), axis=-1)[..., None] + 1e-30


def omega_at(regularizer: Any, p: Array) -> tuple[Array, Array]:
    """Return Omega's gradient and second derivatives at an interior point, [..., k] each."""
    xp = backend_of(p).xp
    if regularizer.zero:
        return 0 * p, 0 * p
    slope = regularizer.grad(p)
    spread = regularizer.coordinate_slope(slope, -float("inf"), float("inf"))
    return slope, 1 / xp.where(spread > 0, spread, xp.ones_like(spread))


def diagonal_jacobian(given: Parts, theta: Array) -> Callable[[Array], Array]:
    """Return the map x [..., k] -> J x for a separable Omega on a box or simplex, with its diagonal computed once."""
    D = given.omega.slopes(theta, given.domain)
    if given.domain.total is None:
        return lambda x: D * x
    weight = D.sum(-1)[..., None]
    share = D / backend_of(D).xp.where(weight > 0, weight, 1 + 0 * weight)
    return lambda x: D * x - share * dot(D, x)[..., None]
