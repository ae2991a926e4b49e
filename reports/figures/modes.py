"""Define one colour and marker for each gradient mode, as for solvers."""

from __future__ import annotations

from reports.figures.palette import BLUE, GREEN, GREY, RED

ORDER = ("envelope", "implicit", "unrolled")
LOOK = {"envelope": (BLUE, "o"), "implicit": (RED, "s"), "unrolled": (GREEN, "D"), "none": (GREY, "v")}


def look(mode: str) -> tuple[str, str]:
    return LOOK.get(mode.partition("(")[0], (GREY, "X"))


def in_order(modes: object) -> list[str]:
    names = {str(m) for m in modes}  # type: ignore[attr-defined]
    place = {mode: i for i, mode in enumerate(ORDER)}
    return sorted(names, key=lambda m: (place.get(m.partition("(")[0], len(ORDER)), m))
