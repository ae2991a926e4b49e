"""Recompute in the backward pass of torch: nothing but the inputs is kept after the forward pass.

`torch.utils.checkpoint` keeps every node of the graph, and these many small objects fragment the heap: after 1000
steps the process had grown by 1.4 GB, most of it unused. Here the forward pass builds no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from gfy.backend.torch_functions import sources
from gfy.backend.tree import leaves, tree_map, unflatten
from gfy.errors import UnsupportedError


def recomputed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return fn of trees of tensors; derivatives reach its arguments only, and other tensors are refused."""

    def call(*args: Any) -> Any:
        shape = tree_map(lambda _: 0, args)
        made: list[Any] = []
        flat = _Recomputed.apply(fn, shape, made, *leaves(args))  # type: ignore[no-untyped-call]
        return unflatten(made.pop(), iter(flat))

    return call


class _Recomputed(torch.autograd.Function):
    """Run fn at arguments given as flat leaves; the structure of its result is stored in `made`."""

    @staticmethod
    def forward(ctx: Any, fn: Callable[..., Any], shape: Any, made: list[Any], *flat: Any) -> Any:
        out = fn(*unflatten(shape, iter(flat)))
        made.append(tree_map(lambda _: 0, out))
        ctx.fn, ctx.shape = fn, shape
        ctx.save_for_backward(*flat)
        ctx.set_materialize_grads(False)
        return tuple(leaves(out))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Any) -> Any:
        wanted = ctx.needs_input_grad[3:]
        inputs = [x.detach().requires_grad_(need) for x, need in zip(ctx.saved_tensors, wanted, strict=True)]
        with torch.enable_grad():
            outputs = leaves(ctx.fn(*unflatten(ctx.shape, iter(inputs))))
            pairs = [
                (o, g) for o, g in zip(outputs, cotangents, strict=True) if g is not None and o.requires_grad
            ]
        if not pairs:
            return (None,) * (3 + len(inputs))
        ends, slopes = zip(*pairs, strict=True)
        _refuse_strangers(ends, inputs)
        sources = [x for x, need in zip(inputs, wanted, strict=True) if need]
        found = iter(torch.autograd.grad(ends, sources, slopes, allow_unused=True))
        return (None,) * 3 + tuple(next(found) if need else None for need in wanted)


def _refuse_strangers(outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Raise where a tensor that is no argument requires a gradient, since it would get none."""
    known = {id(x) for x in inputs}
    for variable in sources(outputs):
        if id(variable) not in known:
            raise UnsupportedError(
                f"a tensor of shape {tuple(variable.shape)} that is not part of v wants a gradient: put it into the "
                "energy's Input, or use Unrolled(checkpoint=False)"
            )
