"""The primitives a framework must offer. Arithmetic is written once against `xp`; the rest is here.

A tree is a nest of tuples, lists and dicts of arrays (see `gfy.backend.tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

Tree = Any
Array = Any


class WithCaptured(NamedTuple):
    """An argument of a function together with the arrays that the function captured."""

    v: Tree
    captured: tuple[Array, ...]


class Capture(NamedTuple):
    """What a function captured, and the function as one of what it captured.

    fn: takes `WithCaptured(first, arrays)` where the given function takes `first`; the given function itself where
    nothing was captured.
    arrays: the captured arrays, in the order of their first use.
    program: what the function computes apart from these arrays; None where nothing is remembered between calls.
    """

    fn: Callable[..., Any]
    arrays: tuple[Array, ...]
    program: Hashable


class Backend(Protocol):
    name: str
    staged: bool  # functions are traced and compiled: shapes must not depend on values, and loops are the backend's

    @property
    def xp(self) -> Any:
        """The array-API namespace."""

    # control flow
    def while_loop(self, cond: Callable[[Tree], Any], body: Callable[[Tree], Tree], state: Tree) -> Tree:
        """Run body while cond(state); not differentiable in reverse."""

    def scan(self, body: Callable[[Tree], Tree], state: Tree, length: int) -> Tree:
        """Apply body `length` times; differentiable."""

    def cond(
        self, which: Any, then: Callable[[Tree], Tree], otherwise: Callable[[Tree], Tree], given: Tree
    ) -> Tree:
        """then(given) where the scalar `which` is true, else otherwise(given); both return trees of one shape."""

    def in_parts(self, work: Callable[[Tree], Tree], size: int, tree: Tree) -> Tree:
        """work(tree), about `size` examples (the first axis of every leaf) at a time where that keeps them in cache."""

    # derivatives
    def vjp(
        self, fn: Callable[..., Array], *primals: Tree
    ) -> tuple[Array, Callable[[Array], tuple[Tree, ...]]]:
        """fn's value and its pullback."""

    def value_and_grad(self, fn: Callable[..., Array]) -> Callable[..., tuple[Array, Tree]]:
        """A function of fn's arguments: fn's value, a number, and its gradient in every leaf of the first argument."""

    def jvp(
        self, fn: Callable[..., Array], primals: Sequence[Tree], tangents: Sequence[Tree]
    ) -> tuple[Any, Any]:
        """fn's value and its derivative along the tangents."""

    def gradient(self, fn: Callable[[Array], Array], x: Array) -> Array:
        """The gradient of sum(fn(x)) in x; what else fn depends on still receives its derivatives."""

    def hessian_product(self, fn: Callable[[Array], Array], x: Array, direction: Array) -> Array:
        """The Hessian of sum(fn(x)) in x times a direction."""

    def symmetric_product(self, fn: Callable[[Array], Array], x: Array, direction: Array) -> Array:
        """J times a direction, for a function of the last axis whose Jacobian J is symmetric, [..., k]."""

    def constant(self) -> AbstractContextManager[Any]:
        """A context in which no derivative is recorded, not even of tensors that a function captured."""

    def wants_gradient(self, *trees: Tree) -> bool:
        """Whether an array asks for a derivative that is recorded as operations run (never in JAX)."""

    # functions of the user's

    def capture(self, fn: Callable[..., Array], *args: Tree) -> Capture:
        """The arrays that fn captured, where the framework would not see that they change or are differentiated."""

    def output_shape(self, fn: Callable[..., Array], *args: Tree) -> tuple[int, ...]:
        """The shape of fn(*args); nothing is computed where the framework can do without."""

    def widened(self, fn: Callable[..., Array], dtype: str) -> Callable[..., Array]:
        """fn, computing in at least this dtype, with the tensors it captured widened too."""

    def narrows(self, fn: Callable[..., Array], *args: Tree) -> bool:
        """Whether fn casts float64 numbers to a narrower dtype on its way."""

    def custom_vjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Array]:
        """A function of trees with a pullback of its own.

        forward(*args) -> (out, residuals); backward(residuals, cotangent) -> one cotangent tree per argument.
        """

    def attach(
        self,
        p: Array,
        v: Tree,
        image: Callable[[Tree, Array], Array],
        system: Callable[[Tree, Array], tuple[Callable[[Array], Array] | None, ...]],
    ) -> Array:
        """p as a function of v: with dp = M^-1 d_v image(v, p), system(v, p) = (M^-1, M^-T, M) as operators.

        M is None where M^-1 is an operation that the framework differentiates by itself.
        """

    def first_order(self, p: Array) -> Array:
        """p, refused with a sentence where its derivative by `attach` is differentiated again and would be wrong."""

    def checkpoint(self, fn: Callable[..., Tree]) -> Callable[..., Tree]:
        """fn, its intermediate values recomputed in the backward pass; differentiate by its arguments alone."""

    def stop_gradient(self, tree: Tree) -> Tree: ...

    def jit(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """fn, staged where the framework stages (JAX); unchanged where it does not."""

    def stage(self, fn: Callable[..., tuple[Array, Tree]]) -> Callable[..., tuple[Array, Tree]]:
        """fn(v, *rest) -> (values, constants), text that any framework runs, by the fastest way this one has.

        Derivatives pass from the values to v; `constants` carry none.
        """

    # arrays
    def set_at(self, x: Array, index: Any, value: Array) -> Array:
        """A copy of x with x[index] = value."""

    def window(self, x: Array, begin: Array, size: int, axis: int) -> Array:
        """x[begin : begin + size] along an axis counted from the end: a slice, not an index array."""

    def place(self, x: Array, begin: Array, part: Array) -> Array:
        """A copy of x with x[..., begin : begin + the length of part] = part."""

    def indices(self, size: int, like: Array) -> Array:
        """0, 1, .., size - 1 as integers, on the device of `like`."""

    def positive_solver(self, system: Array) -> Callable[[Array], Array]:
        """rhs [..., k, r] -> Y with system Y = rhs, for a positive definite system [..., k, k]; NaN where it is not."""

    def fused(self, name: str, *arrays: Array) -> Callable[..., Any] | None:
        """The framework's own way to compute the named expression of these arrays in fewer passes; None for none.

        Who asks has a general formula. The names: "inner" (a, b), "clip" (x, low, high), "sigmoid" (x), "extremes" (x),
        "pairwise_difference" (u, A, p, q, slope) and "free_coordinates" (D, hessian).
        """

    def astype(self, x: Array, dtype: str) -> Array:
        """x in the dtype of this name, differentiable."""

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        """Zeros of the given shape with the dtype and device of `like`."""

    def asarray(
        self, x: Any, like: Array | None = None, dtype: str | None = None, device: Any = None
    ) -> Array:
        """x as this backend's array, with the dtype and device of `like`, or those named."""

    def to_numpy(self, x: Array) -> np.ndarray: ...

    def sync(self, tree: Tree) -> Tree:
        """Wait until every array of the tree has been computed."""

    def is_concrete(self, *trees: Tree) -> bool:
        """Whether values can be read now (not while a function is being staged)."""

    def reading(self) -> AbstractContextManager[Any]:
        """A context in which concrete values can be computed with and read, also while something else is staged."""

    def float64(self) -> AbstractContextManager[Any]:
        """A context in which arrays may be of double precision, whatever the framework's default is."""

    def later(self, fn: Callable[..., None], *trees: Tree) -> None:
        """Have fn(*trees as NumPy) run on the host whenever the function that is being staged runs."""

    def devices(self, *trees: Tree) -> set[str]:
        """The devices the arrays lie on, where the framework does not compute with arrays of several; else none."""

    def on_host(self, *arrays: Array) -> bool:
        """Whether the arrays lie whole in the host's memory: on no accelerator, and not over several devices."""

    def by_platform(self, host: Callable[..., Tree], other: Callable[..., Tree], *trees: Tree) -> Tree:
        """host(*trees) where the computation runs on the processor, other(*trees) elsewhere; both return one shape.

        A staged function may be lowered for another platform than that of the machine it is staged on: the choice is
        made when it is lowered. Ask `on_host` first, which knows of several devices.
        """

    def callback(self, fn: Callable[..., Any], like: Tree, *trees: Tree, batched: bool = False) -> Tree:
        """fn(*trees as NumPy) run on the host, its result shaped and typed as `like`, an array or several.

        `batched`: fn takes further axes in front of its arguments, of length 1 where an argument has none; otherwise
        a mapped function is called example by example.
        """

    def eps(self, x: Array) -> float:
        """The distance from 1 to the next number of x's dtype."""
