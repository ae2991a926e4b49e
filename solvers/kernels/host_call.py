"""Compiled code called from Python: a call frame as XLA would write it, from addresses and shapes."""

from __future__ import annotations

import ctypes
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

_F32, _F64, _S32 = 11, 12, 4
_KINDS = {"float32": _F32, "float64": _F64, "int32": _S32}
_BUFFER, _EXECUTE = 1, 3
_PATIENCE = 2.0  # seconds of compilation after which a line says what takes so long
_LOCK = threading.Lock()

Given = tuple[int, str, Sequence[int]]  # an address, a dtype, a shape


@cache
def _loaded() -> Any:
    """The compiled handler; kept, as its memory is XLA's to call."""
    line = "gfy: compiling the kernels for this processor; later runs find them on disk"
    notice = threading.Timer(_PATIENCE, lambda: print(line, file=sys.stderr, flush=True))
    notice.daemon = True
    notice.start()
    try:
        from solvers.kernels.entry import compiled_handler

        return compiled_handler()
    finally:
        notice.cancel()


def address() -> int:
    """Where the compiled handler begins."""
    with _LOCK:
        return int(_loaded().address)


@cache
def _call() -> Callable[[int], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address())  # releases the interpreter while it runs


def run(inputs: Sequence[Given], outputs: Sequence[Given]) -> None:
    """Call the handler with these arrays, which must be contiguous and stay alive."""
    words: list[int] = []
    places: list[int] = []
    for data, dtype, shape in (*inputs, *outputs):
        places.append(len(words))
        words += (48, 0, _KINDS[dtype], data, len(shape), 0, *shape)
    lists = len(words)
    count = len(inputs)
    words += [0] * (len(places) + 1)
    frame = len(words)
    words += (176, 0, 0, 0, _EXECUTE)
    words += (40, 0, count, 0, 0, 40, 0, len(outputs), 0, 0, 48, 0, 0, 0, 0, 0, 0)
    memory = array("q", words)
    base = memory.buffer_info()[0]
    for number, place in enumerate(places):
        memory[place + 5] = base + 8 * (place + 6)
        memory[lists + number] = base + 8 * place
    memory[frame + 9] = base + 8 * lists
    memory[frame + 14] = base + 8 * (lists + count)
    _call()(base + 8 * frame)


def solve(u: Any, matrix: Any, start: Any, facts: np.ndarray, *_: Any) -> tuple[np.ndarray, ...]:
    """The solve of NumPy arrays."""
    inputs = [np.ascontiguousarray(x) for x in (u, matrix, start, facts)]
    count, k = inputs[0].shape
    outputs = [
        np.empty((count, k), u.dtype), np.empty(count, u.dtype), np.empty(count, np.int32), np.empty(count, np.int32),
    ]  # fmt: skip
    given = [[(x.ctypes.data, x.dtype.name, x.shape) for x in some] for some in (inputs, outputs)]
    run(*given)
    return tuple(outputs)
