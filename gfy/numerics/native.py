"""Loops compiled for the processor, where numba is installed (the extra `native`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop, compiled on first use and kept on disk; it does not hold the interpreter.

    Sums may be reordered, as in any product of matrices; NaN and infinity keep their meaning.
    """
    import numba  # takes a while: modules of compiled loops are imported where they are first used

    freedom = {"reassoc", "contract", "nsz", "arcp"}
    return numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=freedom)(loop)
