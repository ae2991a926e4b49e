"""Run functions of torch tensors as programs of XLA, with their derivatives, where this was measured to be faster.

The tensors are passed as NumPy views of their memory, and the answers are copied into memory that torch owns. Small
answers leave the program in one array per dtype, because each array that XLA returns costs some microseconds. One
program computes the values and the gradient of their sum. A derivative of that gradient is left to eager torch.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
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
_SMALL = 4096  # numbers; an answer of at most this many is packed with the others of its dtype
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
        flat = list(leaves(v))
        moving = len(flat)
        flat += leaves(rest)
        if not _served(flat):
            return self._fn(v, *rest)
        wanted: tuple[int, ...] = ()
        if torch.is_grad_enabled():
            wanted = tuple([i for i, x in enumerate(flat) if x.requires_grad])
            if wanted and wanted[-1] >= moving:
                # An argument after v (a target, for instance) requires a derivative.
                return self._fn(v, *rest)
        key = (wanted, _form(v), *map(_form, rest), *[(x.shape, x.dtype) for x in flat])
        way = self._ways.pop(key, None) or _Way(self._fn, tree_map(lambda _: 0, (v, rest)), wanted)
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

        self._outputs = outputs
        self._alone = _Packed(outputs)
        self._both = _Packed(both)
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
                return *self._alone((), arrays), None
            moving = [arrays[i] for i in self.wanted]
            fixed = [x for i, x in enumerate(arrays) if i not in self.wanted]
            if g is None:
                g = self._ones(moving, fixed)
            found: tuple[Any, Any, Any] = self._both(moving, fixed, g)
        return found

    def _ones(self, moving: Sequence[Any], fixed: Sequence[Any]) -> Any:
        if self._one is None:
            import jax

            like = jax.eval_shape(self._outputs, moving, fixed)[0]
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
        elif ctx.gradient is not None and g.numel() and not any(g.stride()):
            factor = g.reshape(-1)[0].item()
            found = [x * factor for x in ctx.gradient] if factor != 1.0 else ctx.gradient
            if found is ctx.gradient:  # The caller may write to it, so it is handed over once.
                ctx.gradient = None
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


def _form(tree: Any) -> Any:
    """Return a hashable key of a tree's shape: the class of an array or of a tuple of arrays, else its leaves as 0."""
    kind = type(tree)
    if kind in _KINDS or (isinstance(tree, tuple) and all(type(x) in _KINDS for x in tree)):
        return kind, len(tree) if kind is tuple else 0
    shape = tree_map(lambda _: 0, tree)
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


def _double() -> AbstractContextManager[Any]:
    """Return a context in which JAX computes in float64; where it does so already, none has to be entered."""
    import jax

    return nullcontext() if jax.config.jax_enable_x64 else jax.enable_x64(True)


class _Packed:
    """Run a staged function of arrays whose answer, a tree, arrives in few arrays, and return it as tensors.

    The tensors lie in memory of their own. Small answers of one dtype share a piece of it, and larger ones do not, so
    that a small answer never keeps a large one in memory.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        import jax

        self._fn, self._shape = fn, None
        # For each leaf of the answer: which array it is in, where it begins there, and its shape.
        self._places: list[tuple[int, int, tuple[int, ...]]] = []
        self._run = jax.jit(self._packed)

    def _packed(self, *args: Any) -> list[Any]:
        """Return the leaves of the answer in few arrays; it is traced once, which notes where each leaf is."""
        import jax.numpy as jnp

        answer = self._fn(*args)
        self._shape = tree_map(lambda _: 0, answer)
        flat = [jnp.asarray(x) for x in leaves(answer)]
        shared = sorted({str(x.dtype) for x in flat if x.size <= _SMALL})
        packs: list[list[Any]] = [[] for _ in shared]
        places = []
        for x in flat:
            number = shared.index(str(x.dtype)) if x.size <= _SMALL else len(packs)
            if number == len(packs):
                packs.append([])
            places.append((number, sum(y.size for y in packs[number]), x.shape))
            packs[number].append(x)
        self._places = places
        return [xs[0] if len(xs) == 1 else jnp.concatenate([x.reshape(-1) for x in xs]) for xs in packs]

    def __call__(self, *args: Any) -> Any:
        arrays = [np.array(x) for x in self._run(*args)]
        flat = [arrays[number].reshape(-1) for number, _, _ in self._places]
        parts = (
            torch.from_numpy(x[start : start + math.prod(shape)].reshape(shape))
            for x, (_, start, shape) in zip(flat, self._places, strict=True)
        )
        return unflatten(self._shape, parts)
