"""Describe concave energies with kinks: rectifier networks that are convex in p, written as a maximum over multipliers.

    Phi(v, p) = constant + <slope, p> - <weights, z_L>,   z_l = relu(a_l),   a_l = M_l p + b_l + Wz_l z_{l-1},

with weights >= 0 and Wz >= 0. Take one number t in [0, 1] per rectifier. Replacing relu(a) by t a gives an upper
bound of Phi, and the best t gives Phi itself. Let s be t times the upper limit of s in the set S below. The bound is
then linear in s:

    max_{p in C} Phi - Omega  =  min_{s in S}  Omega*(slope - sum_l M_l^T s_l) - sum_l <s_l, b_l> + constant,
    S = {0 <= s_L <= weights, 0 <= s_l <= Wz_{l+1}^T s_{l+1}}.

The multipliers s serve to solve, certify and differentiate every energy that returns `Kinks` from `Energy.kinks`.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot, matvec, relu, transpose
from gfy.protocols import Array


class Layer(NamedTuple):
    """Hold one layer of rectifiers: M [..., h, k], b [..., h], and Wz >= 0 [..., h, h below], None in the
    first layer."""

    M: Array
    b: Array
    Wz: Array | None = None


class Kinks(NamedTuple):
    """Hold the layers of a concave rectifier energy, from first to last; leading axes are batch axes and may be shared.

    slope [..., k] and constant [...] are the linear part, and weights [..., h] >= 0 are those of the last layer. A
    maximum of affine functions is a chain: max(a_1, .., a_n) = a_n + z_n with z_j = relu(a_{j-1} - a_j + z_{j-1}).
    """

    slope: Array
    constant: Array
    layers: tuple[Layer, ...]
    weights: Array

    def unfolded(self, p: Array, t: Array) -> Array:
        """Return the upper bound of Phi with relu(a) replaced by t a, [...]; t [..., n] holds the layers one
        after another."""
        start, below = 0, None
        for layer in self.layers:
            a = matvec(layer.M, p) + layer.b
            if layer.Wz is not None:
                a = a + matvec(layer.Wz, below)
            stop = start + layer.b.shape[-1]
            below, start = t[..., start:stop] * a, stop
        return self.constant + dot(self.slope, p) - dot(self.weights, below)

    def supergradient(self, p: Array) -> Array:
        """Return the slope of Phi at p, [..., k]; the slope of a rectifier at its kink is taken as 0."""
        st = stacked(self, tuple(p.shape[:-1]))
        on = backend_of(p).xp.astype(st.inner(p) > 0, p.dtype)
        return st.scores(st.spread(on, 0 * on))


class Stacked(NamedTuple):
    """Hold `Kinks` with all n rectifiers in one axis: a = M p + b + N relu(a), and s <= c(s) = top + N^T s."""

    slope: Array
    constant: Array
    M: Array  # [..., n, k]
    b: Array  # [..., n]
    top: Array  # [..., n]: the weights in the last layer, 0 in the others
    N: Array | None  # [..., n, n], strictly block lower triangular; None where there is one layer
    sizes: tuple[int, ...]

    def rounds(self) -> range:
        """Return how many applications of N one pass through all layers takes."""
        return range(len(self.sizes) - 1)

    def inner(self, p: Array) -> Array:
        """Return the pre-activations a [..., n] at p."""
        base = matvec(self.M, p) + self.b
        a = base
        for _ in self.rounds():
            a = base + matvec(self.N, relu(a))
        return a

    def asked(self, s: Array) -> Array:
        """Return c(s) [..., n]: the largest value each multiplier may take, given those of the layer above."""
        return self.top + 0 * s if self.N is None else self.top + matvec(transpose(self.N), s)

    def spread(self, on: Array, value: Array) -> Array:
        """Return s [..., n] with s = on * c(s) + value, from the last layer to the first."""
        s = on * self.top + value
        for _ in self.rounds():
            s = on * self.asked(s) + value
        return s

    def feasible(self, on: Array, value: Array) -> Array:
        """Return s as `spread` does, with each s moved into [0, c(s)]."""
        s = 0 * value
        for _ in range(len(self.sizes)):
            c = self.asked(s)
            s = _between(on * c + value, c)
        return s

    def linear(self, on: Array) -> Array:
        """Return Q [..., n, k], the derivative of the pre-activations in p where exactly the rectifiers `on` pass."""
        Q = self.M + 0 * on[..., None]
        for _ in self.rounds():
            Q = self.M + self.N @ (on[..., None] * Q)
        return Q

    def scores(self, s: Array) -> Array:
        """Return theta(s) = slope - M^T s, [..., k]."""
        return self.slope - matvec(transpose(self.M), s)

    def ratio(self, s: Array) -> Array:
        """Return t = s / c(s) in [0, 1], 0 where c(s) = 0."""
        c = self.asked(s)
        xp = backend_of(s).xp
        live = c > 0
        t = s / xp.where(live, c, xp.ones_like(c))
        return xp.where(live, _between(t, xp.ones_like(t)), 0 * t)


def stacked(kinks: Kinks, shape: tuple[int, ...]) -> Stacked:
    """Return the layers in one axis, for a batch of the given shape."""
    backend = backend_of(kinks.slope, kinks.weights)
    xp = backend.xp
    sizes = tuple(int(layer.b.shape[-1]) for layer in kinks.layers)
    slope = xp.broadcast_to(kinks.slope, (*shape, kinks.slope.shape[-1]))
    if len(sizes) == 1:
        (layer,) = kinks.layers
        return Stacked(slope, kinks.constant, layer.M, layer.b, kinks.weights, None, sizes)

    def joined(parts: list[Array], axis: int, event: int) -> Array:
        lead = shape if any(part.ndim > event for part in parts) else ()
        wide = [xp.broadcast_to(part, (*lead, *part.shape[part.ndim - event :])) for part in parts]
        return xp.concat(wide, axis=axis)

    M = joined([layer.M for layer in kinks.layers], -2, 2)
    b = joined([layer.b for layer in kinks.layers], -1, 1)
    top = joined([*(backend.zeros((size,), kinks.weights) for size in sizes[:-1]), kinks.weights], -1, 1)
    rows = [backend.zeros((sizes[0], sum(sizes)), M)]
    for index in range(1, len(sizes)):
        before, after = sum(sizes[: index - 1]), sum(sizes[index:])
        blank = [backend.zeros((sizes[index], width), M) for width in (before, after)]
        rows.append(joined([blank[0], kinks.layers[index].Wz, blank[1]], -1, 2))
    return Stacked(slope, kinks.constant, M, b, top, joined(rows, -2, 2), sizes)


def _between(x: Array, high: Array) -> Array:
    """Return x moved into [0, high]."""
    xp = backend_of(x).xp
    return xp.maximum(xp.minimum(x, high), 0 * high)
