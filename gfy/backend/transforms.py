"""Explain in a sentence why a call failed in a framework: by a transform around it, or by arrays of another kind."""

from __future__ import annotations

import sys
from typing import Any

# Errors of torch hold these texts: "vmap:" where a loop asks for values, "setup_context" and "jvp function" where a
# backward pass has no rule for another kind of derivative.
_SIGNS = ("vmap:", "setup_context", "jvp function")


def refusal(error: Exception) -> str | None:
    """Return the sentence for an error that a transform of torch raised inside a call, or None for any other error."""
    torch = sys.modules.get("torch")
    if torch is None or not any(sign in str(error) for sign in _SIGNS):
        return None
    forward = torch.autograd.forward_ad._current_level >= 0
    if torch._C._functorch.peek_interpreter_stack() is None and not forward:
        return None
    return (
        "torch.func's vmap, jacrev, jacfwd and hessian, and forward-mode derivatives, do not reach through this call, "
        "whose steps depend on values and whose derivative is a backward pass: give batch axes in v, where leading "
        "axes are batch, and take Jacobians with torch.autograd.functional.jacobian"
    )


def unreadable(argument: str, tree: Any) -> str | None:
    """Return the sentence for an array of a tree that is not dense or has no values, or None where there is none."""
    if isinstance(tree, tuple | list | dict):
        parts = tree.values() if isinstance(tree, dict) else tree
        return next((found for part in parts if (found := unreadable(argument, part))), None)
    kind = type(tree)
    if kind.__module__.startswith("jax.experimental.sparse"):
        return f"{argument} holds a sparse array ({kind.__name__}): give dense arrays, x.todense()"
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tree, torch.Tensor):
        return None
    if tree.is_nested:
        return f"{argument} holds a nested tensor: give dense tensors, torch.nested.to_padded_tensor(x, 0.0)"
    if tree.layout is not torch.strided:
        return f"{argument} holds a tensor with the layout {tree.layout}: give dense tensors, x.to_dense()"
    if tree.device.type == "meta":
        return f"{argument} holds a tensor on the device meta, which has no values: make it on another device"
    return None
