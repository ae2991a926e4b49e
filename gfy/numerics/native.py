"""Compile loops for the processor where numba is installed (the extra `native`)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from typing import Any

SWITCH = "GFY_NATIVE"  # Setting this environment variable to 0 keeps every solve in its framework.

# The compiler may reorder sums, as every library does in a product of matrices. NaN and infinity keep their
# meaning.
FREEDOM = {"reassoc", "contract", "nsz", "arcp"}


@cache
def installed() -> bool:
    """Return whether compiled loops may be used: numba is installed and GFY_NATIVE is not 0."""
    return os.environ.get(SWITCH, "1") != "0" and importlib.util.find_spec("numba") is not None


def piece(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a loop that compiled code calls: it is compiled, and kept on disk, as a part of its callers.

    Its callers own all arrays, and it makes none of its own, so it counts no references to them. Each count would be an
    atomic operation; without these a solve with 14 coordinates takes a sixth to a fifth less time.
    """
    return _part(loop, _nrt=False)


def reader(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a loop that compiled code calls as `piece` does, where it makes arrays of addresses (`carray`)."""
    return _part(loop)


def _part(loop: Callable[..., Any], **options: bool) -> Callable[..., Any]:
    # The import takes half a second, so modules of compiled loops are imported at their first use.
    import numba

    # Python never calls it, so it needs no wrapper
    alone = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(nogil=True, error_model="numpy", fastmath=FREEDOM, **alone, **options)(loop)


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return the loop, compiled on first use and kept on disk; it releases the interpreter lock.

    Its file must hold all that it calls, because the copy on disk is renewed when that file changes, and only then.
    """
    import numba

    return numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=FREEDOM)(loop)


def exact(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return the loop, compiled on first use and kept on disk, with sums and differences in the order written.

    Loops of the same file may call each other, because the copy on disk is renewed when that file changes.
    """
    import numba

    return numba.njit(nogil=True, cache=True, error_model="numpy")(loop)
