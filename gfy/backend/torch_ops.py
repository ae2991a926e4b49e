"""Implement the backend protocol with PyTorch: eager loops and autograd graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import array_api_compat.torch as xp_torch
import numpy as np
import torch

from gfy.backend import torch_fused
from gfy.backend.eager import Eager
from gfy.backend.torch_functions import (
    ARGMAX_ONCE,
    CHANGED,
    Once,
    Widened,
    gradient,
    hessian_product,
    narrows,
)
from gfy.backend.torch_recompute import recomputed
from gfy.backend.torch_staged import Measured
from gfy.backend.tree import leaves, tree_map, unflatten
from gfy.errors import GfyValueError

# This many times the examples that fit the cache are computed at once, because eager torch takes a fixed time
# per call.
_CALLS = 4


class TorchBackend(Eager):
    name = "torch"
    xp = xp_torch

    def in_parts(self, work: Callable[[Any], Any], size: int, tree: Any) -> Any:
        count = next(leaves(tree)).shape[0]
        parts = [
            work(tree_map(lambda x, i=i: x[i : i + _CALLS * size], tree))
            for i in range(0, count, _CALLS * size)
        ]
        return tree_map(lambda *pieces: torch.cat(pieces), *parts)

    def vjp(self, fn: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        with torch.enable_grad():
            inputs = tree_map(_as_variable, primals)
            out = fn(*inputs)
        return out.detach(), lambda cotangent: _pulled_back(out, inputs, cotangent, keep=True)

    def value_and_grad(self, fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
        def both(v: Any, *rest: Any) -> tuple[Any, Any]:
            with torch.enable_grad():
                tracked = tree_map(_as_variable, v)
                value = fn(tracked, *rest)
            return value.detach(), _pulled_back(value, tracked)

        return both

    def jvp(self, fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return torch.func.jvp(fn, tuple(primals), tuple(tangents))

    def gradient(self, fn: Callable[[Any], Any], x: Any) -> Any:
        return gradient(fn, x)

    def hessian_product(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        return hessian_product(fn, x, direction)

    def symmetric_product(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        return self.vjp(fn, x)[1](direction)[0]

    def constant(self) -> AbstractContextManager[Any]:
        return torch.no_grad()

    def wants_gradient(self, *trees: Any) -> bool:
        return torch.is_grad_enabled() and any(_is_variable(x) for t in trees for x in leaves(t))

    def output_shape(self, fn: Callable[..., Any], *args: Any) -> tuple[int, ...]:
        with torch.no_grad():
            return tuple(getattr(fn(*args), "shape", ()))

    def widened(self, fn: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        return Widened(fn, getattr(torch, dtype))

    def narrows(self, fn: Callable[..., Any], *args: Any) -> bool:
        return narrows(fn, *args)

    def custom_vjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
        def fn(*args: Any) -> Any:
            shape = tree_map(lambda _: 0, args)
            return _Custom.apply(forward, backward, shape, *leaves(args))  # type: ignore[no-untyped-call]

        return fn

    def attach(
        self, p: Any, v: Any, image: Callable[[Any, Any], Any], system: Callable[[Any, Any], Any]
    ) -> Any:
        fixed = self.stop_gradient(v)
        read = [x for x in leaves(fixed) if isinstance(x, torch.Tensor) and self.is_concrete(x)]
        read = [(x, x._version) for x in read if not x.is_inference()]

        def pull(_: Any, g: Any) -> tuple[Any]:
            if any(x._version != version for x, version in read):
                raise GfyValueError(CHANGED)
            return (system(fixed, p)[1](g),)

        solution = self.custom_vjp(lambda moved: (p + torch.zeros_like(moved), None), pull)
        return solution(image(v, p))

    def stage(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return Measured(fn)

    def first_order(self, p: Any) -> Any:
        return self.once(p, ARGMAX_ONCE)

    def once(self, x: Any, sentence: str) -> Any:
        return Once.apply(x, sentence) if x.requires_grad else x  # type: ignore[no-untyped-call]

    def checkpoint(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return recomputed(fn)

    def stop_gradient(self, tree: Any) -> Any:
        return tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, tree)

    def set_at(self, x: Any, index: Any, value: Any) -> Any:
        copy = x.clone()
        copy[index] = value
        return copy

    def astype(self, x: Any, dtype: str) -> Any:
        return torch.as_tensor(x).to(getattr(torch, dtype))

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        return torch.zeros(shape, dtype=like.dtype, device=like.device)

    def indices(self, size: int, like: Any) -> Any:
        return torch.arange(size, device=getattr(like, "device", None))

    def positive_solver(self, system: Any) -> Callable[[Any], Any]:
        lower, _ = torch.linalg.cholesky_ex(system)
        return lambda rhs: torch.cholesky_solve(rhs, lower)

    def fused(self, name: str, *arrays: Any) -> Callable[..., Any] | None:
        return torch_fused.find(name, *arrays)

    def asarray(self, x: Any, like: Any = None, dtype: str | None = None, device: Any = None) -> Any:
        kind = like.dtype if like is not None and dtype is None else (dtype and getattr(torch, dtype))
        place = device if device is not None else (like.device if like is not None else None)
        return torch.as_tensor(x, dtype=kind or None, device=place)

    def to_numpy(self, x: Any) -> np.ndarray:
        if not isinstance(x, torch.Tensor):
            return np.asarray(x)
        host = x.detach().cpu()
        if host.dtype == torch.bfloat16:  # NumPy has no bfloat16; float32 holds every value of it
            host = host.float()
        array: np.ndarray = host.numpy()
        return array

    def sync(self, tree: Any) -> Any:
        for leaf in leaves(tree):
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
                torch.cuda.synchronize(leaf.device)
        return tree

    def is_concrete(self, *trees: Any) -> bool:
        if torch.compiler.is_compiling():
            return False
        return not any(
            torch._C._functorch.is_functorch_wrapped_tensor(x)
            for t in trees
            for x in leaves(t)
            if isinstance(x, torch.Tensor)
        )

    def devices(self, *trees: Any) -> set[str]:
        return {str(x.device) for tree in trees for x in leaves(tree) if hasattr(x, "device")}

    def on_host(self, *arrays: Any) -> bool:
        return self.is_concrete(arrays) and all(x.device.type == "cpu" for x in arrays)

    def device_kinds(self) -> list[str]:
        return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]

    def device_peak_bytes(self, name: str) -> int | None:
        if not (name.startswith("cuda") and torch.cuda.is_available()):
            return None
        return int(torch.cuda.max_memory_allocated(name))

    def restart_peak(self, name: str) -> None:
        if name.startswith("cuda") and torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats(name)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def callback(self, fn: Callable[..., Any], like: Any, *trees: Any, batched: bool = False) -> Any:
        def tensor(x: Any, shape: Any) -> Any:
            return torch.as_tensor(np.asarray(x, order="C"), dtype=shape.dtype, device=shape.device)

        return tree_map(tensor, fn(*tree_map(self.to_numpy, trees)), like)

    def eps(self, x: Any) -> float:
        return float(torch.finfo(x.dtype).eps)


class _Custom(torch.autograd.Function):
    """Run forward(*args) -> (out, residuals) with backward(residuals, cotangent); the args are given as flat leaves.

    All calls share one class. A class made at every call would be part of a reference cycle, which keeps its
    residuals until Python collects garbage.
    """

    @staticmethod
    def forward(
        ctx: Any, forward: Callable[..., Any], backward: Callable[..., Any], shape: Any, *flat: Any
    ) -> Any:
        out, ctx.residuals = forward(*unflatten(shape, iter(flat)))
        ctx.rule = backward
        return out

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return (None,) * 3 + tuple(leaves(ctx.rule(ctx.residuals, *cotangents)))


def _pulled_back(out: Any, inputs: Any, cotangent: Any = None, keep: bool = False) -> Any:
    """Return the gradient of out in every leaf of inputs, zero where out is independent of it; `keep` keeps
    the graph."""
    flat = [leaf for leaf in leaves(inputs) if _is_variable(leaf)]
    found: Any = [None] * len(flat)
    if out.requires_grad:  # It is False where the function ignores its arguments.
        found = torch.autograd.grad(out, flat, cotangent, retain_graph=keep, allow_unused=True)
    grads = iter(found)

    def gradient(leaf: Any) -> Any:
        if not _is_variable(leaf):
            return leaf
        grad = next(grads)
        return torch.zeros_like(leaf) if grad is None else grad

    return tree_map(gradient, inputs)


def _as_variable(leaf: Any) -> Any:
    return leaf.detach().requires_grad_() if _is_float(leaf) else leaf


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
