"""Solve (I - H J) y = b by conjugate gradients, for symmetric H <= 0 and J >= 0: Newton's steps, implicit gradients.

I - H J is self-adjoint and positive in the inner product of J. J is singular: it maps to 0 the coordinates whose
bounds are active, and the mean where sum p is fixed. The part of r that J maps to 0 stays as large as that of b. J r
is therefore updated by J M d = J d - J H (J d), and never computed from r, because the rounding of that large part
would remain in it. Where J maps all of b to 0 up to rounding, the steps are rounding too and may grow: the answer is
therefore taken where <r, J r> was least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import clip, dot
from gfy.protocols import Array

Operator = Callable[[Array], Array]


class _Krylov(NamedTuple):
    z: Array  # J y, where y is the solution so far
    r: Array  # the residual
    jr: Array  # J r
    d: Array  # the direction
    jd: Array  # J d
    rho: Array  # <r, J r>
    best: Array  # z where rho was least
    least: Array
    count: Array


def adjoint_solve(jacobian: Operator, hessian: Operator, b: Array, limit: Operator, most: int) -> Array:
    """Return y [..., k] with (I - H J) y = b [..., k].

    An example is done where <r, J r> is at most limit(<b, J b>), [...]. At most `most` steps are taken, each with one
    product by H and one by J.
    """
    backend = backend_of(b)
    xp = backend.xp

    def ratio(a: Array, c: Array, used: Array) -> Array:
        return xp.where(used, a / xp.where(used, c, xp.ones_like(c)), xp.zeros_like(c))[..., None]

    def body(s: _Krylov) -> _Krylov:
        bent = hessian(s.jd)
        move, jmove = s.d - bent, s.jd - jacobian(bent)
        length = dot(s.jd, move)
        # An example stays where it is when it is done, or when its direction is only rounding.
        # The step is at most 1, because I - H J is at least I.
        alpha = clip(ratio(s.rho, length, (s.rho > goal) & (length > 0)), 0.0, 1.0)
        z, r, jr = s.z + alpha * s.jd, s.r - alpha * move, s.jr - alpha * jmove
        rho = xp.where(alpha[..., 0] > 0, dot(r, jr), xp.zeros_like(s.rho))
        beta = ratio(rho, s.rho, rho > goal)
        better = rho < s.least
        best, least = xp.where(better[..., None], z, s.best), xp.where(better, rho, s.least)
        return _Krylov(z, r, jr, r + beta * s.d, jr + beta * s.jd, rho, best, least, s.count + 1)

    jb = jacobian(b)
    rho = dot(b, jb)
    goal = limit(rho)
    start = _Krylov(0 * b, b, jb, b, jb, rho, 0 * b, rho, 0 * rho.sum())
    final = backend.while_loop(lambda s: xp.any(s.rho > goal) & (s.count < most), body, start)
    return b + hessian(final.best)  # y = b + H J y adds the part that J maps to 0
