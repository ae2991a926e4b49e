"""Evaluate the rank-1 dual with a quadratic Omega in eager torch, with few kernels and pieces that stay in cache.

For omega = c p^2 / 2 - tilt p the response to scores u - a t is (q + tilt) / c, where q is a clamp of u - a t. The
tilt and 1 / c are therefore applied to sums [...] and not to arrays [..., k].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array

_LARGE = 2**18  # Numbers in u. Above this, the arrays between the kernels do not stay in the cache.
_PIECE = 2**18  # numbers that are then computed at a time


def serves(problem: InnerProblem, u: Array) -> bool:
    """Return whether the tensors are torch's and Omega is quadratic."""
    return backend_of(u).name == "torch" and problem.regularizer.quadratic


def evaluate(problem: InnerProblem, u: Array, a: Array, total: Array, t: Array) -> tuple[Array, Array]:
    """Return <a, p(t)> and minus its derivative in t, [...]; `total` is sum a."""
    parts = list(pieces(problem, u, a))
    room = tuple(u.new_empty(parts[0][0].shape) for _ in range(2)) if len(parts) > 1 else ()
    found = [_sums(problem, *part, t, room) for part in parts]
    value, bend = found[0] if len(found) == 1 else (sum(x) for x in zip(*found, strict=True))
    omega = problem.regularizer
    return (value + omega.tilt * total) / omega.curvature, bend / omega.curvature


def primal(problem: InnerProblem, u: Array, a: Array, t: Array) -> Array:
    """Return p(t), [..., k]."""
    import torch

    omega = problem.regularizer
    shape = torch.broadcast_shapes(u.shape, a.shape, (*t.shape, 1))
    p, begin = u.new_empty(shape), 0
    shift = u.new_tensor(omega.tilt / omega.curvature)
    for scores, weights in pieces(problem, u, a):
        # Each piece is written into p at once, so that no second array of p's size is made.
        part = p[..., begin : begin + scores.shape[-1]]
        moved = torch.addcmul(scores, weights, t[..., None], value=-1)
        torch.add(shift, moved, alpha=1 / omega.curvature, out=part)
        torch.clamp(part, *problem.domain.bounds(scores), out=part)
        begin += scores.shape[-1]
    return p


def _sums(
    problem: InnerProblem, u: Array, a: Array, t: Array, room: tuple[Array, ...] = ()
) -> tuple[Array, Array]:
    """Return <a, q> and |a|^2 over the free labels, [...]. `room` is memory to write to, as new memory costs more."""
    import torch

    from gfy.backend.torch_fused import inner

    omega = problem.regularizer
    low, high = (omega.curvature * bound - omega.tilt for bound in problem.domain.bounds(u))
    room = tuple(one[..., : u.shape[-1]] for one in room)
    x = torch.addcmul(u, a, t[..., None], value=-1, out=room[0] if room else None)
    if isinstance(low, float) and isinstance(high, float):
        # The clamp is done in place. Its own derivative is one kernel; a mask of booleans takes four times as
        # long.
        q = x.clamp_(low, high)
        slope = torch.ops.aten.hardtanh_backward
        whole = a.expand(q.shape)
        free: Any = (
            slope.grad_input(whole, q, low, high, grad_input=room[1]) if room else slope(whole, q, low, high)
        )
    else:
        q = torch.clamp(x, low, high)
        free = torch.where(q == x, a, 0 * a)
    return inner(a, q), inner(free, free)


def pieces(problem: InnerProblem, u: Array, a: Array) -> Iterator[tuple[Array, Array]]:
    """Yield u and a whole, or a part of the labels at a time where the arrays between eager kernels would be large."""
    k = u.shape[-1]
    uniform = all(isinstance(bound, float) for bound in problem.domain.bounds(u))
    if backend_of(u).name != "torch" or u.is_cuda or u.numel() <= _LARGE or not uniform:
        yield u, a
        return
    width = max(1, _PIECE * k // u.numel())
    for begin in range(0, k, width):
        yield u[..., begin : begin + width], a[..., begin : begin + width]
