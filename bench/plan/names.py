"""Find names as people type them, in any case and with any dashes; for a misspelt one offer the nearest."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from gfy.errors import GfyValueError


def plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return "Did you mean ...?", or the known names when none is near."""
    names = list(known)
    by_plain = {plain(n): n for n in names}
    near = [by_plain[m] for m in get_close_matches(plain(name), by_plain, n=3, cutoff=0.6)]
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"There are: {', '.join(names)}." if names else ""


def resolve(name: str, known: Iterable[str], what: str) -> str:
    """Return the known name that was meant, or raise a sentence with the nearest ones when there is none."""
    names = list(known)
    for candidate in names:
        if plain(candidate) == plain(name):
            return candidate
    if name.endswith(".py"):
        raise GfyValueError(f"{name!r} is a file and names no {what} in it: write {name}:Name.")
    raise GfyValueError(f"There is no {what} called {name!r}. {suggest(name, names)}".rstrip())


def takes(cls: Any) -> str:
    """Return a sentence that lists the parameters of a class."""
    names = ", ".join(inspect.signature(cls).parameters)
    return f"It takes {names}." if names else "It takes no parameters."
