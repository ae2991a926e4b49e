"""One colour and marker for each gradient mode, as for solvers."""

from __future__ import annotations

from .palette import BLUE, GREEN, GREY, ORANGE

ORDER = ("envelope", "implicit", "unrolled")
LOOK = {"envelope": (BLUE, "o"), "implicit": (ORANGE, "s"), "unrolled": (GREEN, "D"), "none": (GREY, "v")}


def look(mode: str) -> tuple[str, str]:
    return LOOK.get(mode, (GREY, "X"))


def in_order(modes: object) -> list[str]:
    names = {str(m) for m in modes}  # type: ignore[attr-defined]
    return [m for m in ORDER if m in names] + sorted(names - set(ORDER))
