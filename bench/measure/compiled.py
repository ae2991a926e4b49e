"""Keep compiled programs of JAX on disk, so that a machine compiles each of them once.

The programs of each machine have a folder of their own in the user's cache folder (`GFY_CACHE`). It holds at most one
gigabyte where the package `filelock` is installed; JAX cannot limit it without. `compile_s` of a row is the time that
the compilation itself took, whenever it was done. This time is written beside the programs, since JAX keeps it in whole
seconds only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bench.datasets.locate import cache_dir
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
