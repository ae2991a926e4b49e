"""Compute the Fenchel-Young loss of eager torch tensors in one compiled call, and its gradient in another.

A call solves, computes the loss at the solution, and checks whether inputs and targets are sound. Where anything is
doubtful it gives no answer. The loss is then computed step by step, with every check and its message.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gfy.backend.torch_functions import with_refusal
from gfy.gradients.envelope import FIRST_ONLY
from gfy.problem import InnerProblem
from gfy.protocols import Solution, Stop
from solvers.kernels import call, frame, host_call, torch_direct

if TYPE_CHECKING:
    from solvers.kernels.at_once import AtOnce

_SCALES: dict[float, array[float]] = {}


class Loss:
    """Compute the losses of one problem, one stopping rule and one reduction.

    Args:
        problem: The inner problem.
        stop: The stopping rule.
        target_tol: How far outside C a target may lie.
        reduction: "none", "mean" or "sum" over the examples.
        solver: The solver whose compiled calls are asked for; its `served_at_once` is called once per shape of v.
        check: Called with v and y of new shapes: raises a sentence where they cannot be used, and returns whether U has
            to be seen to be negative semi-definite in each call.
    """

    def __init__(
        self, problem: InnerProblem, stop: Stop, target_tol: float, reduction: str,
        solver: AtOnce, check: Callable[[Any, Any], bool],
    ) -> None:  # fmt: skip
        self._problem, self._stop, self._tol, self._reduction = problem, stop, target_tol, reduction
        self._solver, self._check = solver, check

    def __call__(self, v: Any, y: Any, p0: Any, return_solution: bool) -> Any | None:
        """Return the loss (and the solution), or None where it is to be computed step by step."""
        y = _target(y, v[0].dtype) if type(v[0]) in torch_direct.PLAIN else None
        if y is None:
            return None
        more = (self._solver, y.shape, self._tol)
        ready = torch_direct.prepared(self._problem, v, p0, self._stop, more, lambda: self._made(v, y))
        if ready is None:
            return None
        launch, u, matrix = ready
        count = u.shape[0]
        p, losses = torch.empty_like(u, requires_grad=False), torch.empty(count, dtype=u.dtype)
        error, ends = torch.empty(count, dtype=u.dtype), torch.empty(2, count, dtype=torch.int32)
        out = (p.data_ptr(), error.data_ptr(), ends.data_ptr(), ends.data_ptr() + 4 * count)
        value = losses if self._reduction == "none" else torch.empty((), dtype=u.dtype)
        share = count if self._reduction == "mean" else 1
        total = 0 if value is losses else value.data_ptr()
        memory = launch.run(u, matrix, p0, out, y.data_ptr(), losses.data_ptr(), total, share)
        if memory[frame.UNSOLVED] or memory[frame.OUTSIDE]:
            return None
        wanted = u.requires_grad or (matrix is not None and matrix.requires_grad)
        if wanted and torch.is_grad_enabled():
            value = _Attached.apply(u, matrix, _Found(launch, p, y, value, 1.0 / share))  # type: ignore[no-untyped-call]
        if not return_solution:
            return value
        return value, Solution(p, error, ends[0], torch.ones(count, dtype=torch.bool), ends[1])

    def _made(self, v: Any, y: Any) -> torch_direct.Launch | None:
        concave = self._check(v, y)
        if not self._solver.served_at_once(self._problem, v):
            return None
        launch = torch_direct.launch_of(self._problem, v, self._stop, self._tol, concave)
        fits = launch is not None and y.shape == launch.shape and y.element_size() == launch.words[frame.SIZE]
        return launch if fits else None


def _target(y: Any, dtype: torch.dtype) -> Any | None:
    """Return y as a constant tensor of the host in this dtype; None where it is no such thing."""
    if type(y) is np.ndarray and y.dtype.kind in "biuf" and y.flags.writeable:
        y = torch.from_numpy(y)
    if type(y) is not torch.Tensor or not y.is_cpu or y.requires_grad or y.is_complex():
        return None
    if y.layout is not torch.strided or y.is_nested:
        return None
    return y.to(dtype).contiguous() if y.dtype != dtype else y if y.is_contiguous() else y.contiguous()


class _Found:
    """Hold the solution p at targets y, the loss there, and the number by which a mean divides its gradient."""

    def __init__(self, launch: torch_direct.Launch, p: Any, y: Any, value: Any, scale: float) -> None:
        self.launch, self.p, self.y, self.value, self.scale = launch, p, y, value, scale

    def differentiable(self, u: Any, matrix: Any) -> Any:
        """Return the losses by torch's own operations at the same p, reduced, for differentiating again."""
        d, s = self.p - self.y, self.p + self.y
        values = (u * d).sum(-1)
        if matrix is not None and self.launch.dense:
            values = values + 0.5 * torch.einsum("bi,bij,bj->b", d, matrix, s)
        elif matrix is not None:
            values = values - 0.5 * torch.einsum("bim,bi,bjm,bj->b", matrix, d, matrix, s)
        return values * self.scale if self.value.ndim else values.sum() * self.scale


class _Attached(torch.autograd.Function):
    """Attach the gradient to a computed loss: it is compiled, or made by torch where a graph of it is asked for.

    The graph serves derivatives in the cotangent. p* is a constant in it: derivatives in u and the matrix are refused.
    """

    @staticmethod
    def forward(ctx: Any, u: Any, matrix: Any, found: _Found) -> Any:
        ctx.found = found
        ctx.save_for_backward(u, matrix, found.p, found.y)
        return found.value

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        (g,) = cotangents
        found = ctx.found
        u, matrix, p, y = ctx.saved_tensors
        needs = ctx.needs_input_grad[:2]
        if torch.is_grad_enabled() or torch_direct.transformed():
            leaves = [x for x, need in zip((u, matrix), needs, strict=True) if need]
            with torch.enable_grad():
                value = found.differentiable(u, matrix)
                g = with_refusal(g, *leaves, sentence=FIRST_ONLY)
                grads = iter(torch.autograd.grad(value, leaves, g, create_graph=True))
            return (*(next(grads) if need else None for need in needs), None)
        in_u = torch.empty_like(p) if needs[0] else None
        in_matrix = None
        if needs[1]:
            in_matrix = torch.empty(matrix.shape, dtype=p.dtype)
            host_call.large_pages(in_matrix.data_ptr(), in_matrix.nbytes)
        slope(found.launch, p, y, matrix, g, found.scale, in_u, in_matrix)
        return in_u, in_matrix, None


def slope(
    launch: torch_direct.Launch, p: Any, y: Any, matrix: Any, g: Any, scale: float, in_u: Any, in_matrix: Any
) -> None:
    """Write scale g times the gradients in u and in the matrix; g is one number or one per example."""
    g = g if g.is_contiguous() else g.contiguous()
    kept = _SCALES.setdefault(scale, array("d", [scale]))
    memory = launch.words[:]
    memory[frame.N] = 0 if launch.dense or matrix is None else matrix.shape[-1]
    memory[frame.SCORES], memory[frame.TARGET] = p.data_ptr(), y.data_ptr()
    memory[frame.MATRIX] = 0 if matrix is None else matrix.data_ptr()
    memory[frame.START], memory[frame.FACTS] = g.data_ptr(), kept.buffer_info()[0]
    memory[frame.FLAG] = int(g.ndim == 0)
    memory[frame.OUT] = 0 if in_u is None else in_u.data_ptr()
    memory[frame.OUT + 1] = 0 if in_matrix is None else in_matrix.data_ptr()
    work = 0 if in_matrix is None else in_matrix.numel()
    memory[frame.HOW] = int(frame.SLOPE) + 8 * call.threads_for("torch", work // 4)
    host_call.need(int(frame.SLOPE))
    host_call.handler()(memory.buffer_info()[0])
