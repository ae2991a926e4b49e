"""Describe sets for interior-point methods: polyhedra p = x E with G x + g >= 0 and A x = a, and balls.

Boxes and simplices have x = p. The points of a hull are weighted, and x are the weights. The rows of G are plus or
minus unit vectors, so that the barrier of the inequalities has a diagonal Hessian. A ball has one inequality, which
is quadratic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot, transpose
from gfy.numerics.spd import positive_solver
from gfy.protocols import Array
from gfy.sets.ball import Ball
from gfy.sets.base import BandSet, ConvexSet
from gfy.sets.birkhoff import Birkhoff
from gfy.sets.hull import ConvexHull


class Polyhedron(NamedTuple):
    """Hold E [n, k] (None: x = p), G [m, n], g [m], A [q, n], a [q] and a start x [n], all in the arrays of a
    framework."""

    E: Array | None
    G: Array
    g: Array
    A: Array
    a: Array
    start: Array

    def point(self, x: Array) -> Array:
        """Return p [..., k]."""
        return x if self.E is None else x @ self.E

    def pull(self, theta: Array) -> Array:
        """Return E theta, [..., k] -> [..., n]."""
        return theta if self.E is None else theta @ transpose(self.E)

    def slack(self, x: Array) -> Array:
        """Return how far x is inside each inequality, [..., m]."""
        return x @ transpose(self.G) + self.g

    def change(self, x: Array, dx: Array) -> Array:
        """Return the change of the slack at x along dx, to first order, [..., m]."""
        return dx @ transpose(self.G)

    def push(self, x: Array, bounds: Array) -> Array:
        """Return the sum of the slacks' gradients at x, each times its multiplier of `bounds` [..., m], [..., n]."""
        return bounds @ self.G

    def system(
        self, curvature: Array, x: Array, bounds: Array, slack: Array
    ) -> Callable[[Array, Array | float], tuple[Array, Array]]:
        """Map (rhs [..., r, n], e [..., r, q]) to dx, dtau with (E D E^T + G^T B G) dx + A^T dtau = rhs, A dx = e.

        D is the diagonal `curvature` [..., k] of Omega, and B that of `bounds` / `slack` [..., m].
        """
        xp = backend_of(curvature).xp
        diagonal = (bounds / slack) @ xp.abs(self.G)  # [..., n]
        if self.E is None:
            diagonal = diagonal + curvature

            def whole(rhs: Array) -> Array:
                return rhs / diagonal[..., None, :]
        else:
            eye = backend_of(curvature).asarray(np.eye(self.G.shape[-1]), like=curvature)
            matrix = (self.E * curvature[..., None, :]) @ transpose(self.E) + diagonal[..., None, :] * eye
            factors = positive_solver(matrix)

            def whole(rhs: Array) -> Array:
                return transpose(factors(transpose(rhs)))

        if not self.A.shape[0]:
            return lambda rhs, e: (whole(rhs), rhs[..., :0])
        moved = whole(self.A + 0 * diagonal[..., None, :])  # [..., q, n]
        small = moved @ transpose(self.A)
        share = positive_solver(small) if self.A.shape[0] > 1 else None

        def balanced(rhs: Array, e: Array | float) -> tuple[Array, Array]:
            free = whole(rhs)
            wanted = free @ transpose(self.A) - e
            tau = wanted / small if share is None else transpose(share(transpose(wanted)))
            return free - tau @ moved, tau

        return balanced


class Round(NamedTuple):
    """Hold a ball as the inequality (radius^2 - |x|^2) / 2 >= 0, with the fields and methods of `Polyhedron` that
    steps use; p = x. There are no equations: A [0, k] and a [0]."""

    radius: float
    A: Array
    a: Array
    start: Array

    def point(self, x: Array) -> Array:
        return x

    def pull(self, theta: Array) -> Array:
        return theta

    def slack(self, x: Array) -> Array:
        return (self.radius**2 - dot(x, x)[..., None]) / 2

    def change(self, x: Array, dx: Array) -> Array:
        return -dot(x, dx)[..., None]

    def push(self, x: Array, bounds: Array) -> Array:
        return -bounds * x

    def system(
        self, curvature: Array, x: Array, bounds: Array, slack: Array
    ) -> Callable[[Array, Array | float], tuple[Array, Array]]:
        """Map rhs [..., r, k] to dx with (D + bounds I + (bounds / slack) x x^T) dx = rhs: see `Polyhedron.system`."""
        diagonal, along = (curvature + bounds)[..., None, :], x[..., None, :]
        scaled = along / diagonal
        weight = bounds / slack
        weight = (weight / (1 + weight * dot(x, scaled[..., 0, :])[..., None]))[..., None, :]

        def solve(rhs: Array, _: Array | float) -> tuple[Array, Array]:
            free = rhs / diagonal
            return free - weight * dot(along, free)[..., None] * scaled, rhs[..., :0]

        return solve


def interior_of(domain: ConvexSet, like: Array) -> Polyhedron | Round | None:
    """Return the description of the set for points like `like` [..., k], or None where none is known."""
    if not isinstance(domain, Ball):
        return polyhedron(domain, like)
    k = int(like.shape[-1])
    arrays = (backend_of(like).asarray(x, like=like) for x in (np.zeros((0, k)), np.zeros(0), np.zeros(k)))
    return Round(domain.radius, *arrays)


def described(domain: ConvexSet) -> bool:
    """Return whether `interior_of` can describe the set and it has at least one inequality."""
    return isinstance(domain, Ball | BandSet | Birkhoff | ConvexHull)


def polyhedron(domain: ConvexSet, like: Array) -> Polyhedron | None:
    """Return the description of the set for points like `like` [..., k], or None where none is known."""
    k = int(like.shape[-1])
    E, A, a = None, np.zeros((0, k)), np.zeros(0)
    if isinstance(domain, BandSet):
        low, high = (np.broadcast_to(np.asarray(bound, float), (k,)) for bound in domain.bounds(np.zeros(k)))
        if domain.total is not None:
            A, a = np.ones((1, k)), np.asarray([domain.total])
            if low.min() >= 0 and domain.total <= high.min():
                high = np.full(k, np.inf)  # The sum implies the upper bound.
        G = np.concatenate([np.eye(k)[np.isfinite(low)], -np.eye(k)[np.isfinite(high)]])
        if not len(G):
            return None  # Without an inequality the argmax map is linear.
        g = np.concatenate([-low[np.isfinite(low)], high[np.isfinite(high)]])
        start = np.asarray(domain.center(np.zeros(k)))
    elif isinstance(domain, Birkhoff):
        n = domain.side(k)
        eye, ones = np.eye(n), np.ones((1, n))
        # The last sum is left out, because it follows from the others.
        A = np.concatenate([np.kron(eye, ones), np.kron(ones, eye)])[:-1]
        a, G, g, start = np.ones(2 * n - 1), np.eye(k), np.zeros(k), np.full(k, 1 / n)
    elif isinstance(domain, ConvexHull):
        E = domain.points
        n = len(E)
        A, a, G, g, start = np.ones((1, n)), np.ones(1), np.eye(n), np.zeros(n), np.full(n, 1 / n)
    else:
        return None
    # A set without interior points is widened by about 1e-6, so that a barrier exists. This description
    # serves for the way only; the map p_Omega gives the point.
    g = np.maximum(g, 1e-6 * (1 + np.abs(start).max()) - G @ start)
    arrays = (None if x is None else backend_of(like).asarray(x, like=like) for x in (E, G, g, A, a, start))
    return Polyhedron(*arrays)
