"""Run functions of torch tensors as programs of XLA, with their derivatives, where this was measured to be faster.

The tensors are passed as NumPy views of their memory, and the answers are copied into memory that torch owns. One
program computes the values and the gradient of their sum. A derivative of that gradient is left to eager torch.
"""

from __future__ import annotations

import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from gfy.backend.tree import leaves, tree_map, unflatten
from gfy.calling.staging import patience
from gfy.errors import GfyWarning

_SHAPES = 32  # programs that one function keeps, one per shape of its arguments
_TRIALS = 5  # staged calls after which the slower way is dropped
_KINDS = (torch.Tensor, torch.nn.Parameter)  # classes that derive from these are not served
_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)

Function = Callable[..., tuple[Any, Any]]


class Measured:
    """Run fn(v, *rest) -> (values, constants) eagerly or by XLA; derivatives pass from `values` to v alone."""

    def __init__(self, fn: Function) -> None:
        self._fn = fn
        self._ways: OrderedDict[Any, _Way] = OrderedDict()

    def __call__(self, v: Any, *rest: Any) -> tuple[Any, Any]:
        after = patience()
        if after is None:
            return self._fn(v, *rest)
        moving, flat = list(leaves(v)), list(leaves((v, rest)))
        if not _served(flat):
            return self._fn(v, *rest)
        wanted: tuple[int, ...] = ()
        if torch.is_grad_enabled():
            wanted = tuple(i for i, x in enumerate(flat) if x.requires_grad)
            if wanted and wanted[-1] >= len(moving):
                # An argument after v (a target, for instance) requires a derivative.
                return self._fn(v, *rest)
        shape = tree_map(lambda _: 0, (v, rest))
        key = (wanted, _hashable(shape), *((x.shape, x.dtype) for x in flat))
        way = self._ways.pop(key, None) or _Way(self._fn, shape, wanted)
        self._ways[key] = way  # The one that was used last is dropped last.
        if len(self._ways) > _SHAPES:
            self._ways.popitem(last=False)
        return way(flat, after)


class _Way:
    """Record how one shape is computed: the seconds that both ways have taken so far."""

    def __init__(self, fn: Function, shape: Any, wanted: tuple[int, ...]) -> None:
        self._fn, self._shape, self._wanted = fn, shape, wanted
        self._spent = 0.0
        self._best = {"eager": float("inf"), "staged": float("inf")}
        self._calls = 0
        self._program: _Program | None = None
        self._settled = False

    def __call__(self, flat: Sequence[Any], after: float) -> tuple[Any, Any]:
        if self._program is None and not self._settled and self._calls and self._spent >= after:
            self._stage(flat)
        way: Callable[..., tuple[Any, Any]] = self._eager if self._program is None else self._program
        if self._settled:
            return way(flat)
        begin = time.perf_counter()
        found = way(flat)
        self._note("eager" if self._program is None else "staged", time.perf_counter() - begin)
        return found

    def _eager(self, flat: Sequence[Any]) -> tuple[Any, Any]:
        v, rest = unflatten(self._shape, iter(flat))
        return self._fn(v, *rest)

    def _stage(self, flat: Sequence[Any]) -> None:
        """Compile the function; a function that XLA cannot run stays eager, with a warning."""
        try:
            program = _Program(self._eager, self._shape, self._fn, self._wanted)
            program(flat)
            self._program = program
        except Exception as error:
            self._settled = True
            warnings.warn(
                f"a loss of torch tensors could not be staged by XLA and runs eagerly: {type(error).__name__}: {error}",
                GfyWarning,
                stacklevel=2,
            )
        self._calls = 0

    def _note(self, way: str, seconds: float) -> None:
        self._calls += 1
        self._spent += seconds
        self._best[way] = min(self._best[way], seconds)
        if way == "staged" and self._calls >= _TRIALS:
            self._settled = True
            if self._best["staged"] > self._best["eager"]:
                self._program = None


class _Program:
    """Represent a compiled function of tensors of one shape, with its pullback where a leaf requires a derivative."""

    def __init__(
        self,
        eager: Callable[[Sequence[Any]], tuple[Any, Any]],
        shape: Any,
        fn: Function,
        wanted: tuple[int, ...],
    ) -> None:
        import jax

        self.eager, self.wanted = eager, wanted

        def outputs(moving: Sequence[Any], fixed: Sequence[Any]) -> tuple[Any, Any]:
            some, others = iter(moving), iter(fixed)
            flat = (next(some) if i in wanted else next(others) for i in range(len(moving) + len(fixed)))
            v, rest = unflatten(shape, flat)
            return fn(v, *rest)

        def both(moving: Sequence[Any], fixed: Sequence[Any], g: Any) -> tuple[Any, Any, Any]:
            values, pull, constants = jax.vjp(lambda some: outputs(some, fixed), moving, has_aux=True)
            return values, constants, pull(g)[0]

        self._alone = jax.jit(outputs)
        self._both = jax.jit(both)
        self._one: Any = None  # ones, the cotangent of the sum of the values

    def __call__(self, flat: Sequence[Any]) -> tuple[Any, Any]:
        if not self.wanted:
            return self.forward(flat)[:2]
        made: list[Any] = []
        values = _Staged.apply(self, made, *flat)  # type: ignore[no-untyped-call]
        return values, made.pop()

    def forward(self, flat: Sequence[Any], g: Any = None) -> tuple[Any, Any, Any]:
        """Return the values, the constants, and the gradient of <g, values> in the leaves that require one; g
        defaults to 1."""
        arrays = [x.detach().numpy() for x in flat]
        with _double():
            if not self.wanted:
                return *_owned(self._alone((), arrays)), None
            moving = [arrays[i] for i in self.wanted]
            fixed = [x for i, x in enumerate(arrays) if i not in self.wanted]
            if g is None:
                g = self._ones(moving, fixed)
            found: tuple[Any, Any, Any] = _owned(self._both(moving, fixed, g))
        return found

    def _ones(self, moving: Sequence[Any], fixed: Sequence[Any]) -> Any:
        if self._one is None:
            import jax

            like = jax.eval_shape(self._alone, moving, fixed)[0]
            self._one = np.ones(like.shape, like.dtype)
        return self._one


class _Staged(torch.autograd.Function):
    """Compute the gradient with the values; it is scaled where the cotangent is one number, else computed again."""

    @staticmethod
    def forward(ctx: Any, program: _Program, made: list[Any], *flat: Any) -> Any:
        values, constants, ctx.gradient = program.forward(flat)
        ctx.program = program
        ctx.save_for_backward(*flat)
        made.append(constants)
        return values

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        flat, program, (g,) = ctx.saved_tensors, ctx.program, cotangents
        if torch.is_grad_enabled():  # The gradient is differentiated again; torch does that.
            values, _ = program.eager(flat)
            moving = [flat[i] for i in program.wanted]
            found = torch.autograd.grad(values, moving, g, create_graph=True, materialize_grads=True)
        elif g.numel() and not any(g.stride()):
            factor = g.reshape(-1)[0]
            found = [x * factor for x in ctx.gradient]
        else:
            found = program.forward(flat, g.numpy())[2]
        gradients = dict(zip(program.wanted, found, strict=True))
        return (None, None, *(gradients.get(i) for i in range(len(flat))))


def _served(flat: Sequence[Any]) -> bool:
    """Return whether all are plain tensors on the processor, nothing transforms or traces them, and JAX can
    be used here."""
    plain = all(type(x) in _KINDS and x.dtype in _DTYPES and x.device.type == "cpu" for x in flat)
    return plain and not _watched() and _available()


def _watched() -> bool:
    """Return whether torch.func, torch.compile, forward derivatives, autocast or a mode of torch sees every
    operation."""
    return (
        torch._C._functorch.peek_interpreter_stack() is not None
        or torch.compiler.is_compiling()
        or torch.autograd.forward_ad._current_level >= 0
        or torch.is_autocast_enabled("cpu")
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch.is_inference_mode_enabled()
    )


def _hashable(shape: Any) -> Any:
    try:
        hash(shape)
    except TypeError:  # the tree holds dicts or lists
        return str(shape)
    return shape


@cache
def _available() -> bool:
    """Return whether JAX is installed and computes on the processor, since no GPU memory is taken for this."""
    if find_spec("jax") is None:
        return False
    import jax

    return jax.default_backend() == "cpu" and jax.device_count() == 1


@contextmanager
def _double() -> Iterator[None]:
    import jax

    with jax.enable_x64(True):
        yield


def _owned(tree: Any) -> Any:
    """Return arrays of JAX as tensors in memory of their own, after they are computed."""
    return tree_map(lambda x: torch.from_numpy(np.array(x)), tree)
