"""Call compiled code from torch on the memory of the tensors, or as an operator where a graph is being made."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from solvers.kernels import host_call


def solve(u: Any, matrix: Any, start: Any, facts: np.ndarray, *_: Any) -> tuple[Any, ...]:
    """Return p [B, k], error, steps and result [B]; eager tensors skip the operator, whose dispatch costs 50
    microseconds."""
    if type(u) is torch.Tensor and not torch.compiler.is_compiling() and not _wrapped(u, matrix, start):
        return _direct(u, matrix, start, facts)
    numbers = torch.tensor(facts.tolist(), dtype=u.dtype)
    found: tuple[Any, ...] = _operator(u.detach(), matrix.detach(), start.detach(), numbers)
    return found


def response(r: Any, matrix: Any, D: Any, facts: np.ndarray, otherwise: Any) -> Any:
    """Return the response of p to scores moved by r, [B, k]; torch's operations compute it where its
    derivative is needed."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in (r, matrix, D)):
        return otherwise(r, matrix, D)
    if type(r) is torch.Tensor and not torch.compiler.is_compiling() and not _wrapped(r, matrix, D):
        return _run((r, matrix, D), facts, (torch.empty_like(r, memory_format=torch.contiguous_format),))[0]
    return _response(r, matrix, D, torch.tensor(facts.tolist(), dtype=r.dtype))


def _wrapped(*tensors: Any) -> bool:
    """Return whether one of them stands for others: inside torch.func's transforms, or under a mode that sees calls."""
    inside = torch._C._functorch.is_functorch_wrapped_tensor
    return any(inside(x) for x in tensors) or torch._C._len_torch_dispatch_stack() > 0


def _direct(u: Any, matrix: Any, start: Any, facts: np.ndarray) -> tuple[Any, ...]:
    return _run((u, matrix, start), facts, _outputs(u))


def _run(given: tuple[Any, ...], facts: np.ndarray, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    scores, matrix, start = (x if x.is_contiguous() else x.contiguous() for x in given)
    count, k = scores.shape
    inputs = (
        scores.data_ptr(),
        matrix.data_ptr(),
        start.data_ptr() if len(start) else 0,
        host_call.place(facts),
    )
    shape = (count, k, matrix.shape[2], matrix.shape[0], facts.itemsize)
    host_call.run(shape, host_call.how(facts), inputs, [x.data_ptr() for x in outputs])
    return outputs


def _outputs(u: Any) -> tuple[Any, ...]:
    count = u.shape[0]
    return (
        torch.empty_like(u, memory_format=torch.contiguous_format),
        u.new_empty(count),
        u.new_empty(count, dtype=torch.int32),
        u.new_empty(count, dtype=torch.int32),
    )


@torch.library.custom_op("gfy::solve", mutates_args=(), device_types="cpu")
def _operator(
    u: torch.Tensor, matrix: torch.Tensor, start: torch.Tensor, facts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    return _direct(u, matrix, start, facts.numpy())  # type: ignore[return-value]


@_operator.register_fake
def _(u: Any, matrix: Any, start: Any, facts: Any) -> Any:
    return _outputs(u)


def _over_axis(info: Any, dims: tuple[Any, ...], *args: Any) -> Any:
    """Apply torch.func.vmap: the axis joins the batch; an absent matrix or start stays absent."""
    from solvers.kernels.merge import merge

    merged = merge(torch, info.batch_size, dims, args)
    found = _operator(*merged)
    return tuple(x.reshape(info.batch_size, x.shape[0] // info.batch_size, *x.shape[1:]) for x in found), (
        0,
    ) * 4


_operator.register_vmap(_over_axis)


@torch.library.custom_op("gfy::response", mutates_args=(), device_types="cpu")
def _response(r: torch.Tensor, matrix: torch.Tensor, D: torch.Tensor, facts: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _run((r, matrix, D), facts.numpy(), (torch.empty(r.shape, dtype=r.dtype),))[0]
    return found


@_response.register_fake
def _(r: Any, matrix: Any, D: Any, facts: Any) -> Any:
    return torch.empty(r.shape, dtype=r.dtype)


def _response_over_axis(info: Any, dims: tuple[Any, ...], *args: Any) -> Any:
    from solvers.kernels.merge import merge

    found = _response(*merge(torch, info.batch_size, dims, args))
    return found.reshape(info.batch_size, found.shape[0] // info.batch_size, found.shape[1]), 0


_response.register_vmap(_response_over_axis)
