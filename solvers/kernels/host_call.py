"""Call compiled code from Python by a call frame as XLA would write it, from addresses and shapes."""

from __future__ import annotations

import ctypes
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from solvers.kernels import frame

_PATIENCE = 2.0  # seconds of compilation after which a line says what is being compiled
_LOCK = threading.RLock()
_LARGE, _PAGE, _HUGE = 2**23, 4096, 14  # bytes; bytes; MADV_HUGEPAGE of Linux

Shape = tuple[int, int, int, int, int]


@cache
def address() -> int:
    """Return the address of the compiled handler; XLA may call it as long as the process lives."""
    return int(_patiently("handler", lambda: _entry().handler()).address)


@cache
def need(method: int) -> None:
    """Compile the program of a method, or read it from disk, before the handler calls it."""
    program = frame.PROGRAM_OF[method]
    _patiently(f"program '{frame.PROGRAMS[program]}'", lambda: _entry().load(program))


def _entry() -> Any:
    from solvers.kernels import entry

    return entry


def _patiently(what: str, make: Callable[[], Any]) -> Any:
    """Return make(), run by one thread at a time; a line is printed where it takes long."""
    line = f"gfy: preparing the {what}: compiled once per processor (some seconds), later read from disk"
    notice = threading.Timer(_PATIENCE, lambda: print(line, file=sys.stderr, flush=True))
    notice.daemon = True
    notice.start()
    try:
        with _LOCK:
            return make()
    finally:
        notice.cancel()


@cache
def handler() -> Callable[[int], int]:
    """Return the handler as a function of the address of a frame that Python filled."""
    where = _patiently("handler", lambda: _entry().direct()).address
    # Other threads of Python can run during the call.
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(where)


def run(shape: Shape, how: tuple[int, int], inputs: Sequence[int], outputs: Sequence[int]) -> None:
    """Do the work of a method on a number of threads.

    Args:
        shape: Examples, coordinates, columns and number of the matrices, bytes of a number.
        how: The method and the threads.
        inputs: Addresses of scores, matrices, start (0 for none) and facts, contiguous and kept alive by the caller.
        outputs: Addresses of what is written: see `entry`.
    """
    method, threads = how
    need(method)
    memory = array("q", bytes(8 * frame.WORDS))
    for first, words in ((frame.COUNT, shape), (frame.SCORES, inputs), (frame.OUT, outputs)):
        memory[first : first + len(words)] = array("q", words)
    memory[frame.HOW] = method + 8 * threads
    handler()(memory.buffer_info()[0])


def large_pages(place: int, size: int) -> None:
    """Ask the system for large pages where memory that is about to be written is large: a page has 2 MiB then, not 4
    KiB."""
    if size >= _LARGE and sys.platform == "linux":
        _library().madvise(ctypes.c_void_p(place & -_PAGE), ctypes.c_size_t(size), _HUGE)


@cache
def _library() -> Any:
    return ctypes.CDLL(None)


def place(x: np.ndarray) -> int:
    """Return the address of a NumPy array's numbers."""
    address: int = x.__array_interface__["data"][0]
    return address


def solve(u: Any, matrix: Any, start: Any, facts: np.ndarray, *_: Any) -> tuple[np.ndarray, ...]:
    """Return the solution for NumPy arrays."""
    count, k = u.shape
    floats = [np.empty((count, k), u.dtype), np.empty(count, u.dtype)]
    return _run((u, matrix, start, facts), (*floats, np.empty(count, np.int32), np.empty(count, np.int32)))


def response(r: Any, matrix: Any, D: Any, facts: np.ndarray, *_: Any) -> np.ndarray:
    """Return the response of p to scores moved by r, for NumPy arrays."""
    return _run((r, matrix, D, facts), (np.empty(r.shape, r.dtype),))[0]


def _run(given: Sequence[Any], outputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    scores, matrix, start, facts = (np.ascontiguousarray(x) for x in given)
    shape = (*scores.shape, matrix.shape[2], matrix.shape[0], facts.itemsize)
    inputs = (place(scores), place(matrix), place(start) if len(start) else 0, place(facts))
    run(shape, how(facts), inputs, [place(x) for x in outputs])
    return outputs


def how(facts: np.ndarray) -> tuple[int, int]:
    """Return the method and the number of threads that the facts name."""
    return int(facts[frame.METHOD]), int(facts[frame.THREADS])
