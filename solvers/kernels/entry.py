"""Define the one function that is called from outside: XLA's handler of a foreign function, for torch and NumPy too.

Its arguments are scores [B, k], a matrix [B or 1, k, n] (U, or A where the method is one of low rank), a start [B or 0,
k] and `facts` (see `frame`), all of one dtype. What it writes depends on the method: a solve gives p [B, k] and the
error [B] in that dtype, steps and result [B] as int32; a response gives z [B, k]. The layout of the call is
`XLA_FFI_CallFrame` of `xla/ffi/api/c_api.h`, read as 8-byte words.

Programs do the work. Each is compiled alone, where it is first needed: `load` puts its address into a table, in which
the handler finds it.
"""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
from numba import carray, cfunc, types

from gfy.numerics import native
from gfy.numerics.native import FREEDOM, reader
from gfy.protocols import Result
from solvers.kernels import frame as f
from solvers.kernels.memory import read_one, write_one
from solvers.kernels.threads import TABLE, run_at, start_at, table, wait
from solvers.kernels.vectors import address, doubles, floats, longs

# The version of XLA's foreign functions, major 0 and minor 1, which is the oldest that has all that is used
# here.
_API_VERSION = 1 << 32
# _METADATA is the extension by which XLA asks for that version. At the stage _EXECUTE the arguments are
# present.
_METADATA, _EXECUTE = 1, 3
_F64 = 12
_HALF = 0xFFFFFFFF  # selects the four bytes of an enum in a word of eight
_MOST_THREADS = 64
_CHUNKS = 8  # chunks per thread, so that all threads end at about the same time
# The addresses of the programs that are loaded. The array lives as long as the process.
_TABLE = np.zeros(len(f.PROGRAMS), np.int64)
_OF = np.array(f.PROGRAM_OF)
# No compiled code is made of these files. A file that is not named here counts as a part of it.
_OUTSIDE = {
    "__init__.py", "at_once.py", "call.py", "entry.py", "host_call.py", "jax_call.py", "jax_response.py", "merge.py",
    "response.py", "scalar_dual.py", "torch_call.py", "torch_direct.py", "torch_loss.py",
}  # fmt: skip


@reader
def launch(F, slots, method, wanted):
    """Fill in what is left of a frame and do its work on as many threads as are wanted."""
    count = F[f.COUNT]
    if count == 0:
        return
    program = carray(longs(table()), _TABLE.shape[0])[_OF[method]]
    threads = min(max(wanted, 1), _MOST_THREADS)
    F[f.NEXT] = 0
    F[f.CHUNK] = max(1, count // (_CHUNKS * threads)) if threads > 1 else count
    frame, started = address(F), 0
    while started < threads - 1:
        if start_at(address(slots) + 8 * started, program, frame) != 0:
            break  # The system has no more threads, so those that run do the rest.
        started += 1
    run_at(program, frame)
    for i in range(started):
        wait(address(slots) + 8 * i)


@reader
def add_losses(F):
    """Write the sum of the losses divided by SHARE."""
    total, wide = 0.0, F[f.SIZE] == 8
    for example in range(F[f.COUNT]):
        total += read_one(wide, F[f.LOSS] + F[f.SIZE] * example)
    write_one(total / F[f.SHARE], wide, F[f.SUM])


def _handler(text):
    def handler(call):
        """Answer a call frame of XLA; see its header for the words."""
        words = carray(longs(call), 21)
        if words[1] != 0:
            extension = carray(longs(words[1]), 4)
            if extension[1] & _HALF == _METADATA:
                carray(longs(extension[3]), 4)[3] = _API_VERSION
                return 0
        if words[4] & _HALF != _EXECUTE or not text:
            return 0
        inputs, outputs = carray(longs(words[9]), 4), carray(longs(words[14]), 4)
        F, slots = np.zeros(f.WORDS, np.int64), np.zeros(_MOST_THREADS, np.int64)
        scores, matrix = carray(longs(inputs[0]), 6), carray(longs(inputs[1]), 6)
        start, facts = carray(longs(inputs[2]), 6), carray(longs(inputs[3]), 6)
        shape, dims = carray(longs(scores[5]), 2), carray(longs(matrix[5]), 3)
        F[f.COUNT], F[f.K], F[f.N], F[f.MATRICES] = shape[0], shape[1], dims[2], dims[0]
        wide = scores[2] & _HALF == _F64
        F[f.SIZE] = 8 if wide else 4
        F[f.SCORES], F[f.MATRIX], F[f.FACTS] = scores[3], matrix[3], facts[3]
        F[f.START] = start[3] if carray(longs(start[5]), 2)[0] > 0 else 0
        for i in range(min(words[12], 4)):
            F[f.OUT + i] = carray(longs(outputs[i]), 6)[3]
        if wide:
            head = carray(doubles(facts[3]), f.HEAD)
            launch(F, slots, np.int64(head[f.METHOD]), np.int64(head[f.THREADS]))
        else:
            short = carray(floats(facts[3]), f.HEAD)
            launch(F, slots, np.int64(short[f.METHOD]), np.int64(short[f.THREADS]))
        return 0

    return handler


def _direct(text):
    def direct(frame):
        """Do the work of a frame that Python filled; its last word is the method plus 8 times the threads."""
        if text:
            F, slots = carray(longs(frame), f.WORDS), np.zeros(_MOST_THREADS, np.int64)
            launch(F, slots, F[f.HOW] % 8, F[f.HOW] // 8)
            if F[f.SUM] != 0:
                add_losses(F)
        return 0

    return direct


def stamp() -> int:
    """Return a number of all that the kernels are compiled from: code kept on disk is used for nothing else.

    That is their text, how loops are compiled, and the numbers of the results that they write.
    """
    files = sorted(file for file in Path(__file__).parent.glob("*.py") if file.name not in _OUTSIDE)
    results = repr([(result.name, int(result)) for result in Result]).encode()
    return zlib.crc32(b"".join(file.read_bytes() for file in (*files, Path(native.__file__))) + results)


def _compiled(function: Any) -> Any:
    return cfunc(types.int64(types.int64), cache=True, error_model="numpy", fastmath=FREEDOM)(function)


@cache
def handler() -> Any:
    """Return the handler as compiled code (`.address`), read from disk where it was compiled before."""
    llvmlite.binding.add_symbol(TABLE, _TABLE.ctypes.data)
    return _compiled(_handler(stamp()))


@cache
def direct() -> Any:
    """Return the handler, as compiled code, for callers that fill a frame themselves."""
    llvmlite.binding.add_symbol(TABLE, _TABLE.ctypes.data)
    return _compiled(_direct(stamp()))


@cache
def load(program: int) -> Any:
    """Compile a program, or read it from disk, and write its address into the handler's table."""
    made = _compiled(import_module(f"solvers.kernels.work_{f.PROGRAMS[program]}").worker(stamp()))
    _TABLE[program] = made.address
    return made
