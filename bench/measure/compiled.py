"""Compile programs of JAX apart from their calls, and keep them on disk, so that a machine compiles each once.

The programs of each machine have a folder of their own in the user's cache folder (`GFY_CACHE`). It holds at most one
gigabyte where the package `filelock` is installed; JAX cannot limit it without. `compile_s` of a row is the time that
the compilation itself took, whenever it was done. This time is written beside the programs, since JAX keeps it in whole
seconds only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bench.datasets.locate import cache_dir
from bench.measure.clock import working_seconds
from bench.store.environment import machine
from bench.store.keys import content_hash

SAVED = "/jax/compilation_cache/compile_time_saved_sec"
FOLDER = "JAX_COMPILATION_CACHE_DIR"
LARGEST = 2**30  # bytes


def compilation_cache() -> dict[str, str]:
    """Return the environment of workers that keep JAX's compiled programs; it is empty where the user has
    chosen a folder."""
    if FOLDER in os.environ:
        return {}
    return {
        FOLDER: str(cache_dir() / "compiled" / machine()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(LARGEST if find_spec("filelock") else -1),
    }


def compile_seconds(title: object, took: float, saved: Sequence[float]) -> float:
    """Return the seconds that a compilation takes: now, or where JAX found it on disk, when it was compiled.

    Args:
        title: What tells the program from others.
        took: Seconds of this call.
        saved: Seconds that JAX says it saved, none where it compiled.

    Returns:
        The seconds of the compilation itself.
    """
    folder = os.environ.get(FOLDER)
    note = Path(folder) / "seconds" / content_hash(repr(title)) if folder and title is not None else None
    # Where the file with the seconds cannot be read or written, the seconds that JAX reports are taken.
    with contextlib.suppress(OSError, ValueError):
        if note is not None and saved:
            return float(note.read_text())
        if note is not None:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(f"{took:.6g}")
    return max(took, took + sum(saved))


@cache
def savings() -> list[float]:
    """Return the seconds of compilation that each kept program has saved this process; JAX appends to the list."""
    import jax

    found: list[float] = []

    def listen(event: str, seconds: float, **_: object) -> None:
        if event == SAVED:
            found.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return found


class Traced(NamedTuple):
    """Hold a jitted function, its trace for given arguments, and the seconds that tracing took."""

    function: Callable[..., Any]
    program: Any
    seconds: float


def trace_jax(function: Callable[..., Any], args: tuple[Any, ...]) -> Traced:
    """Return a function as `jax.jit` gives it to a user, traced for these arguments."""
    import jax

    begin = working_seconds()
    jitted = jax.jit(function)
    return Traced(jitted, jitted.trace(*args), working_seconds() - begin)


def calls_host(traced: Any) -> bool:
    """Return whether a traced program calls back to Python on the host."""
    waiting, seen = [traced.jaxpr], set()
    while waiting:
        part = waiting.pop()
        inner = getattr(part, "jaxpr", part)  # a closed jaxpr holds its equations in its attribute `jaxpr`
        if isinstance(part, list | tuple):
            waiting += part
        elif hasattr(inner, "eqns") and id(inner) not in seen:
            seen.add(id(inner))
            if any(equation.primitive.name == "pure_callback" for equation in inner.eqns):
                return True
            waiting += [value for equation in inner.eqns for value in equation.params.values()]
    return False


def compile_jax(traced: Traced, title: object = None) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Compile a traced function, apart from its calls.

    Args:
        traced: The function and its trace.
        title: What tells the program from others, where its compilation time is to be kept.

    Returns:
        The jitted function, which finds its program compiled, and the seconds of lowering and compiling with the memory
        that XLA reports. The object that `compile` returns is not called: where a program can call the host, JAX
        dispatches it 40 to 200 us more slowly than the jitted function that a user calls.
    """
    begin = working_seconds()
    lowered = traced.program.lower()
    done, found = working_seconds(), len(savings())
    compiled = lowered.compile()
    compiling = compile_seconds(title, working_seconds() - done, savings()[found:])
    facts: dict[str, Any] = {"trace_s": traced.seconds + done - begin, "compile_s": compiling}
    memory = compiled.memory_analysis()
    if memory is not None:
        facts["temp_bytes"] = int(memory.temp_size_in_bytes)
    return traced.function, facts
