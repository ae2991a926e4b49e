"""Differentiate functions that a user wrote in torch, and run such functions in a wider dtype.

A function may capture any tensors, for instance the parameters of an nn.Module; they still receive their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gfy.backend.tree import leaves, tree_map
from gfy.errors import UnsupportedError


def gradient(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return the gradient of sum(fn(x)) in x, with a graph where x or a tensor that fn captured requires a gradient."""
    if _transformed():
        return torch.func.grad(lambda q: fn(q).sum())(x)
    wanted = torch.is_grad_enabled()
    with torch.enable_grad():
        q = _variable(x)
        total = fn(q).sum()
        (found,) = _grad(total, q, None, wanted and (q is x or _has_other_sources(total, q)))
    return found


def hessian_product(fn: Callable[[Any], Any], x: Any, direction: Any) -> Any:
    """Return the Hessian of sum(fn(x)) in x times a direction, by a second backward pass."""
    if _transformed():
        return torch.func.jvp(torch.func.grad(lambda q: fn(q).sum()), (x,), (direction,))[1]
    wanted = torch.is_grad_enabled()
    with torch.enable_grad():
        q = _variable(x)
        total = fn(q).sum()
        wanted = wanted and (q is x or direction.requires_grad or _has_other_sources(total, q))
        (slope,) = _grad(total, q, None, True)
        (found,) = _grad(slope, q, direction, wanted)
    return found


ARGMAX_ONCE = (
    "Second derivatives of the argmax are not offered in torch: Implicit gives dp*/dv once. Use JAX, where "
    "they are exact, or Unrolled; second derivatives of the loss and of the conjugate are offered through Implicit."
)

CHANGED = (
    "a tensor of v was changed in place after the argmax was computed, so that dp*/dv at that v is lost: call backward "
    "before the change, or change a clone"
)


class Once(torch.autograd.Function):
    """Pass x unchanged; its pullback may be differentiated in the cotangent, and is refused in what x depends on."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, sentence: str) -> Any:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.sentence = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        return with_refusal(cotangent, *ctx.saved_tensors, sentence=ctx.sentence), None


def with_refusal(cotangent: Any, *origins: Any, sentence: str) -> Any:
    """Return a cotangent; where it may be differentiated again, a derivative of it in an origin is refused."""
    if torch.is_grad_enabled():
        for x in origins:
            cotangent = cotangent + _Refused.apply(x, sentence)  # type: ignore[no-untyped-call]
    return cotangent


class _Refused(torch.autograd.Function):
    """Make a zero that depends on x and raise a sentence where a sum with it is differentiated in x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, sentence: str) -> Any:
        return x.new_zeros(())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.sentence = inputs[1]

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        raise UnsupportedError(ctx.sentence)


def _variable(x: Any) -> Any:
    """Return x where it requires a gradient, else a copy that does; no caller asks for the gradient of the copy."""
    if x.requires_grad:
        return x
    q = x.detach().requires_grad_()
    q._gfy_inner = True
    return q


def _grad(out: Any, q: Any, weights: Any, keep: bool) -> tuple[Any]:
    if not out.requires_grad:  # fn does not depend on q, or it is linear in q
        return (torch.zeros_like(q),)
    found = torch.autograd.grad(out, q, weights, create_graph=keep, allow_unused=True, materialize_grads=True)
    return (found[0],)


def _transformed() -> bool:
    """Return whether torch.func is transforming the function that is being run."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _has_other_sources(out: Any, q: Any) -> bool:
    """Return whether a tensor other than q that requires a gradient was used to compute `out`."""
    return any(variable is not q for variable in sources([out]))


def sources(outputs: Iterable[Any]) -> Iterator[Any]:
    """Return the tensors that require a gradient and that the outputs depend on, except those that were made here."""
    seen: set[Any] = set()
    stack = [out.grad_fn for out in outputs]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and not getattr(variable, "_gfy_inner", False):
            yield variable
        stack.extend(parent for parent, _ in node.next_functions)


@dataclass(frozen=True)
class Widened:
    """Represent fn with every floating tensor that it uses, captured ones too, cast to a dtype where it is narrower."""

    fn: Callable[..., Any]
    dtype: torch.dtype

    def __call__(self, *args: Any) -> Any:
        with _Widening(self.dtype):
            return self.fn(*args)


class _Widening(TorchFunctionMode):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(self._wide, (args, kwargs or {}))
        return func(*args, **kwargs)

    def _wide(self, x: Any) -> Any:
        narrow = isinstance(x, torch.Tensor) and x.is_floating_point() and x.itemsize < self.dtype.itemsize
        return x.to(self.dtype) if narrow else x


def narrows(fn: Callable[..., Any], *args: Any) -> bool:
    """Return whether an operation of fn(*args) takes float64 tensors and gives a narrower floating one."""
    with torch.no_grad(), _Watching() as watch:
        fn(*args)
    return watch.narrowed


class _Watching(TorchFunctionMode):
    narrowed = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.is_floating_point() and out.itemsize < 8:
            given = [x for x in leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            self.narrowed = self.narrowed or any(x.dtype == torch.float64 for x in given)
        return out
