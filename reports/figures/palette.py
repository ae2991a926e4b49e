"""One colour and one marker for each solver, the same in every figure of every report.

The colours are of middle lightness, so that they stand out on white and on a dark page alike (3:1 at
least), and differ in lightness where they do not differ in hue for a colour-blind reader; markers tell the
rest apart.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

BLUE, ORANGE, GREEN, PURPLE = "#2a7fd0", "#d1600a", "#0f9670", "#c05fa0"
GOLD, CYAN, RED, GREY = "#a97c00", "#1f93b8", "#c8484f", "#78818f"
VIOLET, OLIVE, BROWN, SLATE = "#7d6bd6", "#7a8c1e", "#a0694a", "#64849e"
PINK = "#e0459b"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GOLD, CYAN, RED, VIOLET, OLIVE, BROWN, SLATE, GREY, PINK)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "p", "h", "*", "d")

KNOWN: dict[str, tuple[str, str]] = {
    "dualnewton": (BLUE, "o"),
    "coordinateascent": (ORANGE, "s"),
    "projectedgradient": (GREEN, "D"),
    "frankwolfe": (PURPLE, "^"),
    "mirrorascent": (GOLD, "v"),
    "projectednewton": (CYAN, "P"),
    "closedform": (VIOLET, "h"),
    "auto": (RED, "*"),
    "cvxpyreference": (GREY, "X"),
    "jaxoptboxcdqp": (BROWN, "<"),
    "jaxoptprojectedgradient": (OLIVE, ">"),
    "jaxoptboxosqp": (SLATE, "p"),
    "scipylbfgsb": (PINK, "d"),
}
DASHES = {"jax": "-", "torch": (0, (4, 1.5)), "numpy": (0, (1, 1.2)), "scipy": (0, (1, 1.2))}


class Palette:
    """Colour and marker of the solvers at hand; no two of them look the same."""

    def __init__(self, solvers: Iterable[str]) -> None:
        self._look: dict[str, tuple[str, str]] = {}
        used: set[tuple[str, str]] = set()
        for name in sorted(set(solvers), key=lambda s: (_plain(s) not in KNOWN, s)):
            wanted = KNOWN.get(_plain(name)) or self._derived(name)
            offset = MARKERS.index(wanted[1])
            tries = ((wanted[0], MARKERS[(offset + i) % len(MARKERS)]) for i in range(len(MARKERS)))
            look = next((t for t in tries if t not in used), wanted)
            used.add(look)
            self._look[name] = look

    @staticmethod
    def _derived(name: str) -> tuple[str, str]:
        base = KNOWN.get(_plain(name.split("(")[0]))
        code = zlib.crc32(name.encode())
        return base or (COLOURS[code % len(COLOURS)], MARKERS[code // 31 % len(MARKERS)])

    def colour(self, solver: str) -> str:
        return self._look[solver][0]

    def marker(self, solver: str) -> str:
        return self._look[solver][1]


def dash(backend: str) -> object:
    return DASHES.get(backend, (0, (3, 1, 1, 1)))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
