"""Compiled programs of JAX kept on disk: a row that is measured again, or with another seed, is not compiled again.

`compile_s` of such a row is still the time that its compilation took: JAX keeps it beside the program.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

SAVED = "/jax/compilation_cache/compile_time_saved_sec"


def compilation_cache(folder: Path) -> dict[str, str]:
    """The environment of workers that keep JAX's compiled programs in a folder."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str((folder / "compiled").resolve()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def saved_seconds() -> float:
    """Seconds of compilation that kept programs have saved this process so far."""
    return sum(_listened())


@cache
def _listened() -> list[float]:
    """The list to which JAX appends what each kept program saves."""
    import jax

    found: list[float] = []

    def listen(event: str, seconds: float, **_: object) -> None:
        if event == SAVED:
            found.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return found
