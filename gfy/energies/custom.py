"""Define energies that call a function of the user, and the energy that consists of one such function."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from gfy.backend import WithCaptured, backend_of, floating_leaf, leaves
from gfy.energies import batching
from gfy.energies.base import Energy
from gfy.errors import GfyTypeError, GfyValueError
from gfy.protocols import Array


class TreeInput(NamedTuple):
    """Hold v, any array or tree of arrays that the function understands."""

    v: Any


class FunctionEnergy(Energy):
    """Represent an energy with a function of the user in the field called `function`, which takes `v.v` first."""

    function: ClassVar[str]

    def closed(self, v: Any, p: Array | None) -> tuple[Energy, Any, Hashable]:
        found = self._capture(v, p)
        if not found.arrays:
            return self, v, found.program
        here: Any = replace(self, **{self.function: found.fn})  # type: ignore[type-var]
        return here, TreeInput(WithCaptured(v.v, found.arrays)), found.program

    def _capture(self, v: Any, p: Array | None) -> Any:
        backend = backend_of(v)
        if p is None:
            p = backend.zeros((*self.batch_shape(v), self.dim(v)), floating_leaf(v))
        return backend.capture(getattr(self, self.function), v.v, p)

    def computed_in(self, dtype: str, v: Any) -> Energy:
        fn = backend_of(v).widened(getattr(self, self.function), dtype)
        here: Any = replace(self, **{self.function: fn})  # type: ignore[type-var]
        return here

    def derivative(self, v: Any, p: Array) -> Array:
        """Return grad_p by autodiff; v and the arrays that the function captured still receive their derivatives."""
        return backend_of(p).gradient(lambda q: self.value(v, q), p)

    def check(self, v: Any) -> None:
        for leaf in leaves(v):
            if not hasattr(leaf, "shape") and not isinstance(leaf, int | float):
                raise GfyTypeError(
                    f"the leaves of {self.name}.Input must be arrays, got {type(leaf).__name__}: a module goes "
                    "into the function, its arrays go into v"
                )
        backend_of(v)


@dataclass(frozen=True)
class CustomEnergy(FunctionEnergy):
    """Represent any energy given by a function fn(v, p) -> [...] in JAX or torch; its derivatives come from autodiff.

    v is an array, or a tuple, NamedTuple, dict or nest of arrays.

    Args:
        fn: the energy. Its leading axes are batch axes: p [..., k] gives one value per example, [...]. It may capture
            weights (an nn.Module, the parameters of a flax or equinox module): they receive their gradients as v
            does.
        concave: whether Phi is concave in p; certificates are then bounds. False by default.
        in_v: "linear", "convex" or "nonconvex" (the default) in v, for `gfy.explain`.
        smooth: whether Phi is differentiable in p; True by default.
        k: the size of p, which `argmax` otherwise reads from p0 (and a loss from y); None by default.
        batched: which leaves of v carry the batch axes, where fn's values do not tell it: a tree like v of bools
            (True: the leaf carries them; False: the examples share it) or of event ranks (the number of axes of one
            example's part of the leaf), or the names of the entries that carry them, for v a dict or a NamedTuple.
            None by default.

    Raises:
        GfyValueError: where fn does not return one value per example, or where the batch axes are not clear.
        GfyTypeError: where the size of p is not known, or `batched` does not fit v.

    Example:
        >>> fn = lambda v, p: (v["u"] * p).sum(-1) - ((p @ v["W"]) ** 2).sum(-1)
        >>> energy = gfy.CustomEnergy(fn, concave=True, k=2)
        >>> problem = gfy.InnerProblem(energy, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = {"u": array([[0.5, -0.5]]), "W": array([[0.5], [0.5]])}  # u [B, 2]; W [2, 1] is shared
        >>> gfy.argmax(problem, v).tolist()
        [[0.583, 0.083]]
    """

    fn: Callable[[Any, Array], Array]
    concave: bool = False
    in_v: str = "nonconvex"
    smooth: bool = True
    k: int | None = None
    batched: Any = field(default=None, hash=False)
    Input = TreeInput
    array_api = False
    opaque = True
    function = "fn"

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise GfyTypeError(f"CustomEnergy.fn must be a function of (v, p), got {type(self.fn).__name__}")

    def value(self, v: Any, p: Array) -> Array:
        out = self.fn(v.v, p)
        if tuple(getattr(out, "shape", ())) != tuple(p.shape[:-1]):
            raise GfyValueError(
                f"CustomEnergy.fn must return one value per example, shape {tuple(p.shape[:-1])} for p of shape "
                f"{tuple(p.shape)}, got {tuple(getattr(out, 'shape', ()))}"
            )
        return out

    def grad_p(self, v: Any, p: Array) -> Array:
        return self.derivative(v, p)

    def hessian_product(self, v: Any, p: Array, x: Array) -> Array:
        return backend_of(v, p).hessian_product(lambda q: self.value(v, q), p, x)

    def dim(self, v: Any) -> int:
        if self.k is None:
            raise GfyTypeError(
                "CustomEnergy does not know the size of p: give CustomEnergy(fn, k=...) or pass p0"
            )
        return self.k

    def sized(self, k: int) -> Energy:
        return self if self.k is not None else replace(self, k=k)

    def batch_shape(self, v: Any) -> tuple[int, ...]:
        """Return the batch axes that were declared, or those of the value that fn returns."""
        return batching.batch_shape(self.fn, v.v, self.dim(v), self.batched)

    def axes(self, v: Any) -> Any:
        return TreeInput(batching.batch_axes(self.fn, v.v, self.dim(v), self.batched))
