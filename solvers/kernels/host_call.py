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

_F32, _F64, _EXECUTE = 11, 12, 3
_PATIENCE = 2.0  # seconds of compilation after which a line says what takes so long
_LOCK = threading.Lock()

Given = tuple[int, Sequence[int]]  # an address, a shape


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
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(
        address()
    )  # releases the interpreter while it runs


def run(wide: bool, inputs: Sequence[Given], outputs: Sequence[Given]) -> None:
    """Call the handler with these arrays, which must be contiguous and stay alive; the last two outputs are int32."""
    words: list[int] = []
    places: list[int] = []
    for data, shape in (*inputs, *outputs):
        places.append(len(words))
        words += (
            48,
            0,
            _F64 if wide else _F32,
            data,
            len(shape),
            0,
            *shape,
        )  # the handler knows its integers
    lists, count = len(words), len(inputs)
    frame = lists + len(places)
    words += places
    words += (176, 0, 0, 0, _EXECUTE, 40, 0, count, 0, 0, 40, 0, len(outputs), 0, 0, 48, 0, 0, 0, 0, 0, 0)
    memory = array("q", words)
    base = memory.buffer_info()[0]
    for number, at in enumerate(places):
        memory[at + 5] = base + 8 * (at + 6)
        memory[lists + number] = base + 8 * at
    memory[frame + 9], memory[frame + 14] = base + 8 * lists, base + 8 * (lists + count)
    _call()(base + 8 * frame)


def place(x: np.ndarray) -> int:
    """The address of a NumPy array's numbers."""
    address: int = x.__array_interface__["data"][0]
    return address


def solve(u: Any, matrix: Any, start: Any, facts: np.ndarray, *_: Any) -> tuple[np.ndarray, ...]:
    """The solve of NumPy arrays."""
    inputs = [np.ascontiguousarray(x) for x in (u, matrix, start, facts)]
    count, k = inputs[0].shape
    floats = [np.empty((count, k), u.dtype), np.empty(count, u.dtype)]
    outputs = [*floats, np.empty(count, np.int32), np.empty(count, np.int32)]
    run(facts.itemsize == 8, *([(place(x), x.shape) for x in some] for some in (inputs, outputs)))
    return tuple(outputs)
