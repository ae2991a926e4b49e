"""Explain in a sentence where a transform of a framework cannot pass through a call."""

from __future__ import annotations

import sys

_SIGNS = (
    "vmap:",
    "setup_context",
)  # of torch.func: a loop that asks for values, a backward pass without a rule


def refusal(error: RuntimeError) -> str | None:
    """Return the sentence for an error that torch.func raised inside a call of ours, or None for any other error."""
    torch = sys.modules.get("torch")
    if torch is None or not any(sign in str(error) for sign in _SIGNS):
        return None
    if torch._C._functorch.peek_interpreter_stack() is None:
        return None
    return (
        "torch.func's vmap, jacrev, jacfwd and hessian do not reach through this call, whose steps depend on values "
        "and whose derivative is a backward pass: give batch axes in v, where leading axes are batch, and take "
        "Jacobians with torch.autograd.functional.jacobian"
    )
