"""The one function that the outside calls: XLA's handler of a foreign function, which torch and NumPy call alike.

Its arguments are u [B, k], a matrix [B or 1, k, n] (U, or A where the method is one of low rank), a start [B or 0, k]
and `facts` (see `FACTS`, then the bounds low [k] and high [k]), all of one dtype; it writes p [B, k] and the error [B]
in that dtype, steps and result [B] as int32. Work is done in float64. The layout of the call is `XLA_FFI_CallFrame` of
`xla/ffi/api/c_api.h`, read as 8-byte words.
"""

# mypy: disable-error-code="no-untyped-def,misc,operator"
from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numba import carray, cfunc, types

from gfy.numerics.native import FREEDOM, piece
from solvers.kernels.box import box
from solvers.kernels.dense import dense, settle
from solvers.kernels.dual import settle_dual
from solvers.kernels.ends import NOT_FINITE, STEP_LIMIT
from solvers.kernels.low_rank import low_rank
from solvers.kernels.scalar import scalar
from solvers.kernels.threads import fetch_add, starter
from solvers.kernels.vectors import address, doubles, floats, ints, longs

BOX, DENSE, SCALAR, LOW_RANK = 0.0, 1.0, 2.0, 3.0
FACTS = ("method", "kind", "c", "tilt", "total", "tol", "max_steps", "threads")
_API_VERSION = 1 << 32  # of XLA's foreign functions, major 0 and minor 1: the oldest with what is used here
# the extension by which XLA asks for that version; the stage at which arguments are there
_METADATA, _EXECUTE = 1, 3
_F64 = 12
_HALF = 0xFFFFFFFF  # an enum has four bytes, of eight
_WORDS = 16
_MOST_THREADS = 64
_HARD = 24  # steps on a box after which bounds are still not found: the dual's search is surer
_CHUNKS = 8  # per thread: enough that all end at about the same time


@piece
def widen(source, wide, count, out):
    """count numbers of either dtype, as float64."""
    if wide:
        double = carray(doubles(source), count)
        for i in range(count):
            out[i] = double[i]
    else:
        single = carray(floats(source), count)
        for i in range(count):
            out[i] = single[i]


@piece
def narrow(x, wide, target):
    """Write numbers out in either dtype; x becomes what was written."""
    count = x.shape[0]
    if wide:
        double = carray(doubles(target), count)
        for i in range(count):
            double[i] = x[i]
    else:
        single = carray(floats(target), count)
        for i in range(count):
            single[i] = x[i]
            x[i] = single[i]


@piece
def somewhere(low, high, total, p):
    """A point of the set."""
    for j in range(p.shape[0]):
        a, b = low[j], high[j]
        if total == total:
            p[j] = total / p.shape[0]
        elif a > -np.inf and b < np.inf:
            p[j] = a + 0.5 * (b - a)
        else:
            p[j] = a if a > -np.inf else (b if b < np.inf else 0.0)


@piece
def turned(A, T):
    """T = A^T."""
    for j in range(A.shape[0]):
        for i in range(A.shape[1]):
            T[i, j] = A[j, i]


@piece
def work(frame):
    """Take the next examples of a frame until none are left. The frame's words: see `handler`."""
    F = carray(longs(frame), _WORDS)
    count, k, n, matrices, size = F[0], F[1], F[2], F[3], F[4]
    wide = size == 8
    facts = np.empty(8 + 2 * k)
    widen(F[8], wide, 8 + 2 * k, facts)
    method, kind, c, tilt, total, tol, max_steps = (
        facts[0], facts[1], facts[2], facts[3], facts[4], facts[5], np.int64(facts[6]),
    )  # fmt: skip
    low, high = facts[8 : 8 + k], facts[8 + k :]
    thin = method >= SCALAR  # the matrix is A, and U = -A A^T is never formed
    rows = 0 if thin else k + -k % 4
    panels = 0 if thin else (rows + 9) // 8
    T, C, V = np.empty((panels, rows, 8)), np.empty(10), np.empty((3, 8 * panels))
    W, which = np.empty((10, k)), np.empty(max(8 * panels, k + 8), np.int64)
    m = n if thin else 0
    many = m if m > 1 else 0
    R, H, G, L = np.empty((8, m)), np.empty((m, m)), np.empty((m, m)), np.empty((m, m))
    flat, changed = np.empty((many, k)), np.empty((many + 2 if many else 0, max(k, many)))
    free = np.empty(k if many else 0, np.uint8)
    own, loaded, room = np.empty((0 if wide else k, n)), -1, np.empty(0 if wide else k)
    steps_out, result_out, error_now = carray(ints(F[11]), count), carray(ints(F[12]), count), np.empty(1)
    while True:
        begin = fetch_add(frame + 8 * 13, F[14])
        if begin >= count:
            return
        for example in range(begin, min(begin + F[14], count)):
            which_matrix = example % matrices
            M, p, b = own, room, W[9]
            if wide:
                M = carray(doubles(F[6] + 8 * k * n * which_matrix), (k, n))
                p = carray(doubles(F[9] + 8 * k * example), k)
            elif loaded != which_matrix:
                widen(F[6] + 4 * k * n * which_matrix, wide, k * n, own.reshape(k * n))
            if thin and wide:
                b = carray(doubles(F[5] + 8 * k * example), k)
            else:
                widen(F[5] + size * k * example, wide, k, b)
            warm = F[7] != 0
            if warm:
                widen(F[7] + size * k * example, wide, k, p)
            for j in range(k):
                p[j] = min(max(p[j] if warm else 0.0, low[j]), high[j])
            error, steps, result = np.inf, 0, STEP_LIMIT
            if thin:
                A = M.reshape(1, k) if n == 1 else flat
                if n > 1 and loaded != which_matrix:
                    turned(M, flat)
                if n == 1:
                    error, steps, result = scalar(
                        b, tilt, A, low, high, kind, c, total, tol, max_steps, warm, p, W, R, H, L
                    )
                else:
                    error, steps, result = low_rank(
                        b, tilt, A, low, high, kind, c, total, tol, max_steps, warm, p, W, R, H, G, L, changed,
                        which, free,
                    )  # fmt: skip
                loaded = which_matrix
                if result == NOT_FINITE:
                    somewhere(low, high, total, p)
                if not wide:
                    narrow(p, wide, F[9] + size * k * example)
                    if result != NOT_FINITE:
                        error, result = settle_dual(
                            b, tilt, A, low, high, kind, c, total, tol, p, result, W, R
                        )
            else:
                loaded = which_matrix
                for j in range(k):
                    b[j] += tilt
                if method == BOX:
                    few = min(max_steps, _HARD)
                    error, steps, result = box(
                        b, M, c, low, high, tol, few, warm, p, W[0], which, T, C, V[0], V[1], W[1], W[2]
                    )
                    warm = True
                if result == STEP_LIMIT and steps < max_steps:
                    error, more, result = dense(
                        b, M, low, high, kind, c, total, tol, max_steps - steps, warm, p, W, which, T, C, V[0],
                        V[1], V[2],
                    )  # fmt: skip
                    steps += more
                if result == NOT_FINITE:
                    somewhere(low, high, total, p)
                if not wide:
                    narrow(p, wide, F[9] + size * k * example)
                    if result != NOT_FINITE:
                        error, result = settle(b, M, low, high, kind, c, total, tol, p, result, W)
            error_now[0] = error
            narrow(error_now, wide, F[10] + size * example)
            steps_out[example], result_out[example] = steps, result


_start, _wait = starter(work)


@piece
def solve(call):
    """Answer a call frame of XLA; see its header for the words."""
    words = carray(longs(call), 21)
    if words[1] != 0:
        extension = carray(longs(words[1]), 4)
        if extension[1] & _HALF == _METADATA:
            carray(longs(extension[3]), 4)[3] = _API_VERSION
            return 0
    if words[4] & _HALF != _EXECUTE:
        return 0
    inputs, outputs = carray(longs(words[9]), 4), carray(longs(words[14]), 4)
    F, slots = np.zeros(_WORDS, np.int64), np.zeros(_MOST_THREADS, np.int64)
    u, matrix = carray(longs(inputs[0]), 6), carray(longs(inputs[1]), 6)
    start, facts = carray(longs(inputs[2]), 6), carray(longs(inputs[3]), 6)
    shape, dims = carray(longs(u[5]), 2), carray(longs(matrix[5]), 3)
    F[0], F[1], F[2], F[3] = shape[0], shape[1], dims[2], dims[0]
    F[4] = 8 if u[2] & _HALF == _F64 else 4
    F[5], F[6], F[8] = u[3], matrix[3], facts[3]
    F[7] = start[3] if carray(longs(start[5]), 2)[0] > 0 else 0
    for i in range(4):
        F[9 + i] = carray(longs(outputs[i]), 6)[3]
    seven = np.empty(8)
    widen(F[8], F[4] == 8, 8, seven)
    threads = min(max(np.int64(seven[7]), 1), _MOST_THREADS)
    F[14] = max(1, F[0] // (_CHUNKS * threads)) if threads > 1 else F[0]
    frame, started = address(F), 0
    while started < threads - 1:
        if _start(address(slots) + 8 * started, frame) != 0:
            break  # the system has no more threads: those that run do the rest
        started += 1
    if F[0] > 0:
        work(frame)
    for i in range(started):
        _wait(address(slots) + 8 * i)
    return F[0] + slots[0]  # both are in use until here: an array is given back after its last mention


def stamp() -> int:
    """A number of the kernels' own text: what is kept on disk is used only for the text it was compiled from."""
    files = sorted(file for file in Path(__file__).parent.glob("*.py") if not file.name.endswith("call.py"))
    return zlib.crc32(b"".join(file.read_bytes() for file in files))


def compiled_handler() -> Any:
    """The handler as compiled code (`.address`), from disk where it was compiled before."""
    text = stamp()

    def handler(call):
        if text:  # a part of the key under which it is kept
            solve(call)
        return 0

    return cfunc(types.int64(types.int64), cache=True, error_model="numpy", fastmath=FREEDOM)(handler)
