"""Compute value and gradient of a loss as one call that waits until both are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gfy
from bench.gates.argmax import staged_call
from bench.measure.programs import Bench, flat, value_and_gradient


def gradient_call(
    bench: Bench, solver: Any, mode: Any, tol: float, max_steps: int = 20_000
) -> Callable[[], Any]:
    """Return `call`, which gives (loss summed over the batch, its gradient in every leaf of v); staged in JAX."""
    return staged_call(bench, value_and_gradient(bench, solver, mode, max_steps), tol)


def relative(a: Any, b: Any) -> float:
    """Return how far one tree of arrays is from another, relative to the other's length."""
    one, two = flat(a), flat(b)
    return float(np.linalg.norm(one - two) / np.linalg.norm(two))


def modes(problem: gfy.InnerProblem, solver: Any) -> dict[str, tuple[Any, Any]]:
    """Return (solver, gradient mode) of the three modes, with another solver where this one cannot be unrolled."""
    import solvers

    unrolled = gfy.Unrolled(steps=600)
    stepper = solver if unrolled.unsupported(problem, solver) is None else solvers.ProjectedGradient()
    return {
        "envelope": (solver, gfy.Envelope()),
        "implicit": (solver, gfy.Implicit()),
        "unrolled": (stepper, unrolled),
    }
