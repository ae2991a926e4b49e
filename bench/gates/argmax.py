"""Compute the derivative of p* as one call of the gates, since the gradient of a loss does not show its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.measure.programs import Bench, argmax_gradient


def argmax_call(bench: Bench, solver: Any, mode: Any, tol: float, max_steps: int) -> Callable[[], Any]:
    """Return `call`, which gives (<c, p*> summed, its gradient in every leaf of v) for the bench's c; staged in JAX."""
    return staged_call(bench, argmax_gradient(bench, solver, mode, max_steps), tol)


def staged_call(bench: Bench, run: Callable[..., Any], tol: float) -> Callable[[], Any]:
    """Return a function of (v, y, p0, tol) as a call on the bench's last input that waits for its result."""
    staged = bench.backend.jit(lambda v, y: run(v, y, bench.start, tol))
    v, y = bench.inputs[-1], bench.targets
    return lambda: bench.backend.sync(staged(v, y))
