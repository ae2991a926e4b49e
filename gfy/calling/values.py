"""Check the values of arrays, where values can be read; each refusal is a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gfy.backend import backend_of, dtype_name, is_floating, leaves, tree_map
from gfy.calling.telling import DEBUG
from gfy.errors import GfyTypeError, GfyValueError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input


def refuse_complex(argument: str, x: Any) -> None:
    dtype = getattr(x, "dtype", None)
    if isinstance(x, complex) or (dtype is not None and "complex" in dtype_name(dtype)):
        raise GfyTypeError(f"{argument} must hold real numbers, got {getattr(x, 'dtype', 'complex')}")


def refuse_infinite(argument: str, x: Array) -> None:
    values = backend_of(x).to_numpy(x)
    bad = int((~np.isfinite(values.astype(np.float64, copy=False))).sum())
    if bad:
        raise GfyValueError(f"{argument} holds {bad} values that are NaN or infinite")


def with_values(check: Callable[[Any], None], tree: Any) -> None:
    """Run the check now where values can be read, later on the host while debugging, or not at all."""
    backend = backend_of(tree)
    if backend.is_concrete(tree):
        if backend.staged and backend.on_host(*leaves(tree)):
            # A framework that stages would compile each check for each shape, so NumPy does it.
            check(tree_map(backend.to_numpy, tree))
            return
        with backend.reading():
            check(tree)
    elif DEBUG.get():
        backend.later(check, tree)


def refuse_not_finite(v: Input, energy: str) -> None:
    backend = backend_of(v)
    arrays = [leaf for leaf in leaves(v) if is_floating(leaf)]
    # One sum is NaN or infinite if any number is, and takes one pass.
    if math.isfinite(sum(leaf.sum().item() for leaf in arrays)):
        return
    for field, part in zip(v._fields, v, strict=True):
        for leaf in leaves(part):
            if not is_floating(leaf) or bool(backend.xp.abs(leaf.sum()) < np.inf):
                continue
            bad = int((~np.isfinite(backend.to_numpy(leaf))).sum())
            if bad:  # Otherwise only the sum overflowed.
                raise GfyValueError(f"{energy}.Input.{field} holds {bad} values that are NaN or infinite")


def refuse_classes(y: Array, k: int) -> None:
    values = backend_of(y).to_numpy(y)
    if values.size and (values.min() < 0 or values.max() >= k):
        raise GfyValueError(
            f"y holds class {int(values.max() if values.max() >= k else values.min())}: classes run from 0 to {k - 1}"
        )


def refuse_outside(problem: InnerProblem, y: Array, tol: float) -> None:
    if _plainly_inside(problem, y, tol):
        return
    values = backend_of(y).to_numpy(y).astype(np.float64, copy=False)
    # A sum is not finite if any number is not, but it may overflow itself.
    if not (np.isfinite(values.sum()) or np.isfinite(values).all()):
        raise GfyValueError("y holds values that are NaN or infinite")
    if values.size == 0:
        return
    violation = np.atleast_1d(problem.domain.violation(values)).ravel()
    row = int(violation.argmax())
    if violation[row] > tol:
        raise GfyValueError(
            f"y lies outside {problem.domain.name}: row {row} by {violation[row]:.3g} (at most {tol:g} is accepted)"
        )


def _plainly_inside(problem: InnerProblem, y: Array, tol: float) -> bool:
    """Return whether y lies in a box by one pass, where the framework has one; False means that nothing is known."""
    domain = problem.domain
    extremes = backend_of(y).fused("extremes", y)
    if extremes is None or not domain.banded or domain.total is not None:
        return False
    low, high = domain.bounds(y)
    if not (isinstance(low, float) and isinstance(high, float)):
        return False
    least, most = extremes(y)
    return low - tol <= least and most <= high + tol and math.isfinite(most - least)
