"""Energies given by a function: probabilistic networks, metrics, and anything a user writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gfy.backend import backend_of, leaves, namespace
from gfy.energies.base import Energy
from gfy.energies.linear import LinearEnergy, VectorInput
from gfy.errors import GfyTypeError, GfyValueError
from gfy.numerics.arithmetic import clip, dot
from gfy.protocols import Array
from gfy.sets.ball import Ball


class TreeInput(NamedTuple):
    """v: any array, or tree of arrays, that the function understands."""

    v: Any


@dataclass(frozen=True)
class Probabilistic(LinearEnergy):
    """Phi(v, p) = sum_y p(y) E(v, y) over a finite Y: with Shannon on the simplex, p* is the Gibbs distribution.

    `energies(v)` returns E(v, .) as [..., |Y|]; without it v itself is that array.
    """

    energies: Callable[[Any], Array] | None = None
    Input = TreeInput
    in_v = "nonconvex"

    @property
    def array_api(self) -> bool:  # type: ignore[override]
        return self.energies is None

    def scores(self, v: Any) -> Array:
        return v.v if self.energies is None else self.energies(v.v)

    def batch_shape(self, v: Any) -> tuple[int, ...]:
        return tuple(self.scores(v).shape[:-1])


_METRICS = ("euclidean", "manhattan")


@dataclass(frozen=True)
class Metric(Energy):
    """Phi(v, p) = -C(v, p) for a metric C, "euclidean", "manhattan" or a function of (v, p): v, p [..., k].

    Closed form p* = v and Omega^Phi = -Omega where Omega is 1-Lipschitz for C and v lies in C.
    """

    cost: str | Callable[[Array, Array], Array] = "euclidean"
    Input = VectorInput
    ranks = {"v": 1}
    in_v = "nonconvex"
    smooth = False

    def __post_init__(self) -> None:
        if not callable(self.cost) and self.cost not in _METRICS:
            raise GfyValueError(
                f"Metric.cost must be one of {', '.join(_METRICS)} or a function, got {self.cost!r}"
            )

    @property
    def array_api(self) -> bool:  # type: ignore[override]
        return not callable(self.cost)

    @property
    def proven(self) -> bool:  # type: ignore[override]
        return not callable(self.cost)  # a metric need not be convex, norms are

    def value(self, v: Any, p: Array) -> Array:
        xp = namespace(p)
        if callable(self.cost):
            return -self.cost(v.v, p)
        apart = p - v.v
        if self.cost == "manhattan":
            return -xp.sum(xp.abs(apart), axis=-1)
        square = dot(apart, apart)
        return -xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, xp.ones_like(square))), 0 * square)

    def grad_p(self, v: Any, p: Array) -> Array:
        xp = namespace(p)
        if callable(self.cost):
            return _autodiff_grad(self.value, v, p)
        apart = p - v.v
        if self.cost == "manhattan":
            return -xp.sign(apart)
        square = dot(apart, apart)[..., None]
        return -apart / xp.sqrt(xp.where(square > 0, square, xp.ones_like(square)))

    def majorant(self, v: Any, p: Array, regularizer: Any, domain: Any) -> tuple[Array, Array]:
        """At a kink of -C any slope of (dual) length at most 1 bounds it from above: the best cancels Omega's own."""
        if callable(self.cost):
            return super().majorant(v, p, regularizer, domain)
        apart, wanted = p - v.v, regularizer.grad(p)
        if self.cost == "manhattan":
            kink, inside = apart == 0, clip(wanted, -1.0, 1.0)
        else:
            kink, inside = dot(apart, apart)[..., None] == 0, Ball(1.0).project(wanted)
        slope = namespace(p).where(kink, inside, self.grad_p(v, p))
        return slope, self.value(v, p) - dot(slope, p)

    def dim(self, v: Any) -> int:
        return int(v.v.shape[-1])


@dataclass(frozen=True)
class CustomEnergy(Energy):
    """Any Phi written by the user: fn(v, p) -> [...] in JAX or torch, p [..., k]; derivatives by autodiff.

    `concave=True` claims concavity in p (certificates are then bounds); `dim` gives k to `argmax`, which
    otherwise reads it from p0 (or from y, in a loss). v may be an array or any tree of arrays.
    """

    fn: Callable[[Any, Array], Array]
    concave: bool = False
    in_v: str = "nonconvex"
    smooth: bool = True
    k: int | None = None
    Input = TreeInput
    array_api = False

    def value(self, v: Any, p: Array) -> Array:
        out = self.fn(v.v, p)
        if tuple(getattr(out, "shape", ())) != tuple(p.shape[:-1]):
            raise GfyValueError(
                f"CustomEnergy.fn must return one value per example, shape {tuple(p.shape[:-1])} for p of shape "
                f"{tuple(p.shape)}, got {tuple(getattr(out, 'shape', ()))}"
            )
        return out

    def grad_p(self, v: Any, p: Array) -> Array:
        return _autodiff_grad(self.value, v, p)

    def dim(self, v: Any) -> int:
        if self.k is None:
            raise GfyTypeError(
                "CustomEnergy does not know the size of p: give CustomEnergy(fn, k=...) or pass p0"
            )
        return self.k

    def batch_shape(self, v: Any) -> tuple[int, ...]:
        """The leading axes of the first leaf, all but its last."""
        for leaf in leaves(v.v):
            return tuple(leaf.shape[:-1])
        return ()

    def check(self, v: Any) -> None:
        backend_of(v)


def _autodiff_grad(value: Callable[[Any, Array], Array], v: Any, p: Array) -> Array:
    """The gradient of sum(value) in p; in torch it keeps the graph so that v still receives derivatives."""
    backend = backend_of(v, p)
    if backend.name == "torch":
        import torch

        with torch.enable_grad():
            q = p if p.requires_grad else p.detach().requires_grad_()
            wanted = torch.is_grad_enabled() and (p.requires_grad or any(_tracked(x) for x in leaves(v)))
            (grad,) = torch.autograd.grad(value(v, q).sum(), q, create_graph=wanted)
        return grad
    return backend.vjp(lambda q: value(v, q), p)[1](backend.xp.ones(p.shape[:-1], dtype=p.dtype))[0]


def _tracked(leaf: Any) -> bool:
    return bool(getattr(leaf, "requires_grad", False))
