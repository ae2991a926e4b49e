"""Run examples side by side in threads that compiled code starts and waits for; each takes the next few examples.

The threads end with the call, so none of them exists when the process forks or ends. Any number of Python's threads
may call at once, and the interpreter's lock is never taken.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_I64 = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
TABLE = "gfy_programs"


@intrinsic
def fetch_add(typing, address, amount):
    """Add to the integer at an address and return its value before; no two threads see the same value."""

    def write(context, build, signature, args):
        return build.atomic_rmw("add", build.inttoptr(args[0], _I64.as_pointer()), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), write


@intrinsic
def table(typing):
    """Return the address of the table of programs: the symbol TABLE, which is defined before the code is loaded."""

    def write(context, build, signature, args):
        module = build.module
        found = module.globals.get(TABLE) or ir.GlobalVariable(module, _I64, TABLE)
        return build.ptrtoint(found, _I64)

    return types.int64(), write


@intrinsic
def start_at(typing, slot, program, x):
    """Run the program at an address, a function of one integer, on x in a thread; slot is 8 bytes of memory.

    It returns 0 where a thread was started. Where such threads do not exist (not POSIX) it always fails.
    """

    def write(context, build, signature, args):
        if os.name != "posix":
            return ir.Constant(_I64, 1)
        body = ir.FunctionType(_BYTES, [_BYTES]).as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [_BYTES, _BYTES, body, _BYTES])
        slot, program, x = args
        given = [build.inttoptr(slot, _BYTES), ir.Constant(_BYTES, None)]
        given += [build.inttoptr(program, body), build.inttoptr(x, _BYTES)]
        return build.sext(build.call(_declare(build.module, "pthread_create", kind), given), _I64)

    return types.int64(types.int64, types.int64, types.int64), write


@intrinsic
def run_at(typing, program, x):
    """Run the program at an address on x in this thread."""

    def write(context, build, signature, args):
        body = ir.FunctionType(_I64, [_I64]).as_pointer()
        return build.call(build.inttoptr(args[0], body), [args[1]])

    return types.int64(types.int64, types.int64), write


@intrinsic
def wait(typing, slot):
    """Wait for the end of the thread that `start_at` wrote to a slot."""

    def write(context, build, signature, args):
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [_I64, _BYTES])
            handle = build.load(build.inttoptr(args[0], _I64.as_pointer()))
            build.call(_declare(build.module, "pthread_join", kind), [handle, ir.Constant(_BYTES, None)])
        return context.get_dummy_value()

    return types.void(types.int64), write


def _declare(module: Any, name: str, kind: Any) -> Any:
    return module.get_global(name) if name in module.globals else ir.Function(module, kind, name)
