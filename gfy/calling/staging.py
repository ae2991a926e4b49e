"""Decide when functions of torch tensors are staged: run as a compiled program of XLA instead of operation by
operation.

The code of this library runs in either framework. Where JAX is installed too, the program that JAX compiles from a
loss of torch tensors on the processor can compute that loss. Compiling takes about a second for every new shape. A
loss is therefore staged only after eager torch has spent some seconds on that shape, and only the faster of the two
is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gfy.backend import compiler_imported
from gfy.errors import GfyValueError

# Seconds of eager work on one shape after which it is staged; this is about as long as compiling takes.
PATIENCE_S = 1.0
VARIABLE = "GFY_STAGE_AFTER"
_ASKED: ContextVar[float | None | str] = ContextVar("gfy_staging", default="default")
_HELD: list[bool] = []  # it is not empty where nothing may be staged
_PLAIN = (int, float, str, bool, type(None), np.ndarray, np.generic)


@contextmanager
def staging(after: float | None = PATIENCE_S) -> Iterator[None]:
    """Within this context losses of torch tensors are staged by XLA after so many seconds of eager work per shape.

    Outside of it they are staged after one second where the program has imported JAX itself, and never elsewhere. The
    environment variable GFY_STAGE_AFTER (seconds, or "never") sets another time for a whole process. Staging needs
    JAX, tensors on the processor and parts of this library; a function that a user wrote is always run eagerly.

    Args:
        after: seconds of eager work on one shape before it is compiled; 0 stages after the first call, None never. 1.0
            by default.

    Returns:
        A context manager.

    Raises:
        GfyValueError: for a number that is negative or NaN.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> with gfy.staging(after=None):  # torch stays eager
        ...     loss = gfy.FenchelYoungLoss(problem)(
        ...         gfy.Bilinear.Input(array([[1.0, 2.0, 3.0]])), array([[0.0, 0.0, 1.0]])
        ...     )
        >>> loss.tolist()
        [0.408]
    """
    token = _ASKED.set(_checked(after, "staging(after=...)"))
    try:
        yield
    finally:
        _ASKED.reset(token)


def patience() -> float | None:
    """Return the seconds of eager work after which a shape is staged, or None where nothing is staged."""
    if _HELD:
        return None
    asked = _ASKED.get()
    if not isinstance(asked, str):
        return asked
    given = os.environ.get(VARIABLE)
    if given is None:
        return PATIENCE_S if compiler_imported() else None
    if given == "never":
        return None
    try:
        return _checked(float(given), VARIABLE)
    except ValueError:
        raise GfyValueError(f'{VARIABLE} must be a number of seconds or "never", got {given!r}') from None


def _hold() -> None:
    """Hold staging back in a forked process: the compiler's threads do not exist there, and a call would wait
    for ever."""
    if compiler_imported():
        _HELD.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hold)


def _checked(after: float | None, name: str) -> float | None:
    if after is not None and not (isinstance(after, int | float) and after >= 0):
        raise GfyValueError(f"{name} must be a number of seconds >= 0, got {after!r}")
    return after


def portable(*parts: Any) -> bool:
    """Return whether all parts of a problem are this library's own and hold plain numbers, so that any
    framework runs them."""
    return all(_portable(part) for part in parts)


def _portable(part: Any) -> bool:
    if isinstance(part, _PLAIN):
        return True
    if isinstance(part, tuple):
        return all(_portable(item) for item in part)
    if not (is_dataclass(part) and _declared(type(part))):
        return False
    return all(_portable(getattr(part, field.name)) for field in fields(part))


def _declared(kind: type) -> bool:
    """Return whether it is a class of gfy, or a solver whose own class says that any framework runs its text."""
    return kind.__module__.partition(".")[0] == "gfy" or bool(vars(kind).get("any_framework", False))
