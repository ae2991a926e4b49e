"""Define one colour and one marker for each solver, the same in every figure of every report.

The thirteen colours were searched for together: each has a contrast of 3:1 at least on white and on the dark
page, and any two of them are ten units of CIEDE2000 apart or nearly so, also as simulated for readers who see
no red or no green. Each solver has a marker of its own, of another shape where colours are near.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

BLUE, RED, GREEN, VIOLET = "#0096ff", "#cb2210", "#00735c", "#8714ff"
GOLD, CRIMSON, PLUM, SLATE = "#9f900b", "#ca004e", "#805682", "#8a88a0"
PINK, MAGENTA, ORCHID, JADE, GREY = "#f5547e", "#bb2baf", "#ec4dd4", "#36946d", "#919492"
COLOURS = (BLUE, RED, GREEN, VIOLET, GOLD, PLUM, PINK, JADE, MAGENTA, SLATE, CRIMSON, ORCHID, GREY)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "p", "h", "*", "d")

KNOWN: dict[str, tuple[str, str]] = {
    "dualnewton": (BLUE, "o"),
    "coordinateascent": (GOLD, "s"),
    "projectedgradient": (GREEN, "D"),
    "frankwolfe": (CRIMSON, "^"),
    "mirrorascent": (SLATE, "h"),
    "projectednewton": (PLUM, ">"),
    "closedform": (VIOLET, "v"),
    "auto": (RED, "*"),
    "cvxpyreference": (GREY, "X"),
    "jaxoptboxcdqp": (PINK, "<"),
    "jaxoptprojectedgradient": (MAGENTA, "d"),
    "jaxoptboxosqp": (ORCHID, "P"),
    "scipylbfgsb": (JADE, "p"),
}
DASHES = {"jax": "-", "torch": (0, (4, 1.5)), "numpy": (0, (1, 1.2)), "scipy": (0, (1, 1.2))}


class Palette:
    """Give the solvers their colours and markers; no two of them look the same."""

    def __init__(self, solvers: Iterable[str]) -> None:
        self._look: dict[str, tuple[str, str]] = {}
        used: set[tuple[str, str]] = set()
        for name in sorted(set(solvers), key=lambda s: (_base(s) not in KNOWN, s)):
            wanted = KNOWN.get(_base(name)) or self._free(name, used)
            offset = MARKERS.index(wanted[1])
            tries = ((wanted[0], MARKERS[(offset + i) % len(MARKERS)]) for i in range(len(MARKERS)))
            look = next((t for t in tries if t not in used), wanted)
            used.add(look)
            self._look[name] = look

    @staticmethod
    def _free(name: str, used: set[tuple[str, str]]) -> tuple[str, str]:
        """Return a look for an unknown solver: from its name, without the colours that others have."""
        code = zlib.crc32(name.encode())
        taken = {colour for colour, _ in used}
        tries = [COLOURS[(code + i) % len(COLOURS)] for i in range(len(COLOURS))]
        return next((c for c in tries if c not in taken), tries[0]), MARKERS[code // 31 % len(MARKERS)]

    def colour(self, solver: str) -> str:
        return self._look[solver][0]

    def marker(self, solver: str) -> str:
        return self._look[solver][1]


def dash(backend: str) -> object:
    return DASHES.get(backend, (0, (3, 1, 1, 1)))


def _base(name: str) -> str:
    """Return the solver itself, where a name also contains its parameters."""
    return re.sub(r"[^a-z0-9]", "", name.partition("(")[0].lower())
