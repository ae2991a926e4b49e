"""Define the primitives that a framework must offer. Arithmetic is written once against `xp`; the rest is here.

A tree consists of nested tuples, lists and dicts of arrays (see `gfy.backend.tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

Tree = Any
Array = Any


class WithCaptured(NamedTuple):
    """Represent an argument of a function together with the arrays that the function captured."""

    v: Tree
    captured: tuple[Array, ...]


class Capture(NamedTuple):
    """Hold the arrays that a function captured, and the function with these arrays as its first argument.

    fn: takes `WithCaptured(first, arrays)` where the given function takes `first`; it is the given function itself
    where nothing was captured.
    arrays: the captured arrays, in the order of their first use.
    program: what the function computes apart from these arrays; None where nothing is kept between calls.
    """

    fn: Callable[..., Any]
    arrays: tuple[Array, ...]
    program: Hashable


class Backend(Protocol):
    """Define what a framework must offer: an array namespace `xp`, loops, derivatives, and a few operations on arrays.

    Solvers and energies use nothing else of a framework. `gfy.backend_of(arrays)` returns the backend of some arrays.

    Example:
        >>> backend = gfy.backend_of(array([1.0, 2.0]))
        >>> backend.gradient(lambda x: (x * x).sum(), array([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """

    name: str
    # True where functions are traced and compiled: shapes must then not depend on values, and a loop must be
    # the backend's own.
    staged: bool

    @property
    def xp(self) -> Any:
        """Return the array-API namespace."""

    # control flow
    def while_loop(self, cond: Callable[[Tree], Any], body: Callable[[Tree], Tree], state: Tree) -> Tree:
        """Run body while cond(state) is true; the loop is not differentiable in reverse."""

    def scan(self, body: Callable[[Tree], Tree], state: Tree, length: int) -> Tree:
        """Apply body `length` times; the result is differentiable."""

    def cond(
        self, which: Any, then: Callable[[Tree], Tree], otherwise: Callable[[Tree], Tree], given: Tree
    ) -> Tree:
        """Return then(given) where the scalar `which` is true, else otherwise(given); both return trees of
        one shape."""

    def in_parts(self, work: Callable[[Tree], Tree], size: int, tree: Tree) -> Tree:
        """Return work(tree), computed for about `size` examples (first axis of every leaf) at a time where
        that fits the cache."""

    # derivatives
    def vjp(
        self, fn: Callable[..., Array], *primals: Tree
    ) -> tuple[Array, Callable[[Array], tuple[Tree, ...]]]:
        """Return the value of fn and its pullback."""

    def value_and_grad(self, fn: Callable[..., Array]) -> Callable[..., tuple[Array, Tree]]:
        """Return a function that gives fn's value, a number, and its gradient in every leaf of the first argument."""

    def jvp(
        self, fn: Callable[..., Array], primals: Sequence[Tree], tangents: Sequence[Tree]
    ) -> tuple[Any, Any]:
        """Return the value of fn and its derivative along the tangents."""

    def gradient(self, fn: Callable[[Array], Array], x: Array) -> Array:
        """Return the gradient of sum(fn(x)) in x; whatever else fn depends on still receives its derivatives."""

    def hessian_product(self, fn: Callable[[Array], Array], x: Array, direction: Array) -> Array:
        """Return the Hessian of sum(fn(x)) in x times a direction."""

    def symmetric_product(self, fn: Callable[[Array], Array], x: Array, direction: Array) -> Array:
        """Return J times a direction, [..., k], for a function of the last axis whose Jacobian J is symmetric."""

    def constant(self) -> AbstractContextManager[Any]:
        """Return a context in which no derivative is recorded, not even for tensors that a function captured."""

    def wants_gradient(self, *trees: Tree) -> bool:
        """Return whether an array requires a derivative that is recorded while operations run (never true in JAX)."""

    # functions that the user wrote

    def capture(self, fn: Callable[..., Array], *args: Tree) -> Capture:
        """Return the arrays that fn captured, where the framework does not notice that they change or are
        differentiated."""

    def output_shape(self, fn: Callable[..., Array], *args: Tree) -> tuple[int, ...]:
        """Return the shape of fn(*args); nothing is computed where the framework can find the shape without it."""

    def widened(self, fn: Callable[..., Array], dtype: str) -> Callable[..., Array]:
        """Return fn changed so that it computes in at least this dtype; the tensors that it captured are
        widened too."""

    def narrows(self, fn: Callable[..., Array], *args: Tree) -> bool:
        """Return whether fn casts float64 numbers to a narrower dtype in any of its operations."""

    def custom_vjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Array]:
        """Return a function of trees that has the given pullback.

        forward(*args) -> (out, residuals); backward(residuals, cotangent) -> one cotangent tree per argument.
        """

    def attach(
        self,
        p: Array,
        v: Tree,
        image: Callable[[Tree, Array], Array],
        system: Callable[[Tree, Array], tuple[Callable[[Array], Array] | None, ...]],
    ) -> Array:
        """Return p as a function of v: dp = M^-1 d_v image(v, p), and system(v, p) = (M^-1, M^-T, M) as operators.

        M is None where M^-1 is an operation that the framework differentiates by itself.
        """

    def first_order(self, p: Array) -> Array:
        """Return p; a second derivative through `attach`, which would be wrong, is refused with a sentence."""

    def once(self, x: Array, sentence: str) -> Array:
        """Return x; a derivative of its derivative, in whatever x depends on, is refused with this sentence."""

    def checkpoint(self, fn: Callable[..., Tree]) -> Callable[..., Tree]:
        """Return fn changed so that its intermediate values are recomputed in the backward pass; only
        arguments get derivatives."""

    def stop_gradient(self, tree: Tree) -> Tree: ...

    def jit(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return fn staged where the framework stages functions (JAX), and unchanged elsewhere."""

    def stage(self, fn: Callable[..., tuple[Array, Tree]]) -> Callable[..., tuple[Array, Tree]]:
        """Run fn(v, *rest) -> (values, constants), which any framework can run, in the fastest way that this one has.

        Derivatives pass from the values to v; `constants` carry none.
        """

    # arrays
    def set_at(self, x: Array, index: Any, value: Array) -> Array:
        """Return a copy of x with x[index] = value."""

    def window(self, x: Array, begin: Array, size: int, axis: int) -> Array:
        """Return x[begin : begin + size] along an axis counted from the end, by a slice and not by an index array."""

    def place(self, x: Array, begin: Array, part: Array) -> Array:
        """Return a copy of x with x[..., begin : begin + the length of part] = part."""

    def indices(self, size: int, like: Array) -> Array:
        """Return 0, 1, .., size - 1 as integers, on the device of `like`."""

    def positive_solver(self, system: Array) -> Callable[[Array], Array]:
        """Return Y [..., k, r] with system Y = rhs for a positive definite system [..., k, k], or NaN where
        it is not definite."""

    def fused(self, name: str, *arrays: Array) -> Callable[..., Any] | None:
        """Return this framework's function for the named expression in fewer passes, or None where it has none.

        The caller must have a general formula for the case None. The names are: "inner" (a, b), "clip"
        (x, low, high), "sigmoid" (x), "extremes" (x), "pairwise_difference" (u, A, p, q, slope), "dense_difference"
        (u, U, p, q, slope) and "free_coordinates" (D, hessian).
        """

    def astype(self, x: Array, dtype: str) -> Array:
        """Return x in the dtype of this name; the cast is differentiable."""

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        """Return zeros of the given shape with the dtype and device of `like`."""

    def asarray(
        self, x: Any, like: Array | None = None, dtype: str | None = None, device: Any = None
    ) -> Array:
        """Return x as an array of this backend, with the dtype and device of `like`, or with those named."""

    def to_numpy(self, x: Array) -> np.ndarray: ...

    def sync(self, tree: Tree) -> Tree:
        """Wait until every array of the tree has been computed."""

    def is_concrete(self, *trees: Tree) -> bool:
        """Return whether values can be read now (not while a function is being staged)."""

    def reading(self) -> AbstractContextManager[Any]:
        """Return a context in which concrete values can be computed and read, even while another function is staged."""

    def float64(self) -> AbstractContextManager[Any]:
        """Return a context in which arrays may be of double precision, whatever the framework's default is."""

    def later(self, fn: Callable[..., None], *trees: Tree) -> None:
        """Run fn(*trees as NumPy) on the host whenever the function that is being staged runs."""

    def devices(self, *trees: Tree) -> set[str]:
        """Return the devices of the arrays where the framework cannot compute across several devices; else none."""

    def on_host(self, *arrays: Array) -> bool:
        """Return whether the arrays lie entirely in the host's memory: on no accelerator, and not over
        several devices."""

    def by_platform(self, host: Callable[..., Tree], other: Callable[..., Tree], *trees: Tree) -> Tree:
        """Return host(*trees) where the computation runs on the processor, other(*trees) elsewhere; both have
        one shape.

        A staged function may be lowered for another platform than that of the machine on which it is staged, so the
        choice is made when it is lowered. Call `on_host` first: it returns False where arrays lie over several
        devices.
        """

    def callback(self, fn: Callable[..., Any], like: Tree, *trees: Tree, batched: bool = False) -> Tree:
        """Return fn(*trees as NumPy), run on the host; the result has the shape and dtype of `like`, one
        array or several.

        `batched`: fn accepts further axes in front of its arguments, of length 1 where an argument has none. Without
        it a function that is mapped over a batch is called once per example.
        """

    # the machine

    def keep_float64(self) -> None:
        """Let the arrays of this process be of double precision from now on, whatever the framework's default is."""

    def device(self, name: str) -> Any:
        """Return the device of a name ("cpu", "cuda", "cuda:1") as `asarray` takes it."""

    def device_kinds(self) -> list[str]:
        """Return the kinds of device that the framework finds here; "cpu" is always one of them."""

    def device_peak_bytes(self, name: str) -> int | None:
        """Return the bytes in use on a device at the worst moment so far, or None where nothing counts them."""

    def restart_peak(self, name: str) -> None:
        """Let `device_peak_bytes` speak of what comes from now on, where the framework can do that."""

    def one_thread(self) -> AbstractContextManager[Any]:
        """Return a context in which the framework computes on one thread, where it can change that while it runs."""

    def eps(self, x: Array) -> float:
        """Return the distance from 1 to the next number of x's dtype."""
