"""Examples side by side: threads that compiled code starts and waits for, each taking the next few examples.

They live as long as one call, so nothing is left behind for a fork or for the end of the process, any number of
Python's threads may call at once, and the interpreter's lock is never asked for.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_I64 = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


@intrinsic
def fetch_add(typing, address, amount):
    """Add to the integer at an address and return what it was before: no two threads see the same."""

    def write(context, build, signature, args):
        return build.atomic_rmw("add", build.inttoptr(args[0], _I64.as_pointer()), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), write


def starter(work: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(start, wait): start(slot, x) runs work(x), compiled code of one integer, in a thread; slot is 8 bytes of memory.

    start returns 0 where a thread was started; wait(slot) waits for its end. Where there are no such threads
    (not POSIX) start always fails.
    """

    @intrinsic
    def start(typing, slot, x):
        work.compile((types.int64,))
        made = work.overloads[(types.int64,)]

        def write(context, build, signature, args):
            if os.name != "posix":
                return ir.Constant(_I64, 1)
            context.active_code_library.add_linking_library(made.library)
            module = build.module
            name = f"gfy_thread_{made.fndesc.mangled_name}"
            if name in module.globals:
                thread = module.get_global(name)
            else:
                thread = ir.Function(module, ir.FunctionType(_BYTES, [_BYTES]), name)
                thread.linkage = "internal"
                inside = ir.IRBuilder(thread.append_basic_block())
                given = inside.ptrtoint(thread.args[0], _I64)
                context.call_internal_no_propagate(inside, made.fndesc, made.signature, [given])
                inside.ret(ir.Constant(_BYTES, None))
            kind = ir.FunctionType(ir.IntType(32), [_BYTES, _BYTES, thread.type, _BYTES])
            create = _declare(module, "pthread_create", kind)
            none = ir.Constant(_BYTES, None)
            pointers = [build.inttoptr(x, _BYTES) for x in args]
            return build.sext(build.call(create, [pointers[0], none, thread, pointers[1]]), _I64)

        return types.int64(types.int64, types.int64), write

    @intrinsic
    def wait(typing, slot):
        def write(context, build, signature, args):
            if os.name == "posix":
                kind = ir.FunctionType(ir.IntType(32), [_I64, _BYTES])
                handle = build.load(build.inttoptr(args[0], _I64.as_pointer()))
                build.call(_declare(build.module, "pthread_join", kind), [handle, ir.Constant(_BYTES, None)])
            return context.get_dummy_value()

        return types.void(types.int64), write

    return start, wait


def _declare(module: Any, name: str, kind: Any) -> Any:
    return module.get_global(name) if name in module.globals else ir.Function(module, kind, name)
