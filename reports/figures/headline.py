"""Ours against peers in one picture: how many times faster, one bar per piece of work."""

from __future__ import annotations

import pandas as pd

from reports.answers.bars import Race
from reports.data.numbers import significant
from reports.figures import base
from reports.figures.palette import BLUE

ALT = "How many times faster the best of ours is than the fastest certified peer, one bar for each piece of work"


def draw(found: list[Race]) -> base.Drawn | None:
    """One bar per race; None where there is none."""
    if not found:
        return None
    data = pd.DataFrame({"work": [race.work for race in found], "times": [race.ratio for race in found]})
    figure, ax = base.new(8.0, 0.8 + 0.42 * len(data))
    ax.barh(range(len(data)), data["times"] - 1.0, color=BLUE, left=1.0)
    for place, times in enumerate(data["times"]):
        ax.text(max(times, 1.0) * 1.08, place, f"{significant(times)} x", va="center", fontsize=9.5)
    ax.set_yticks(range(len(data)), data["work"].str.replace(", ", ",\n"))
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(min(0.5, data["times"].min() / 2), data["times"].max() * 4)
    ax.set_xlabel("times faster than the fastest certified peer")
    ax.axvline(1.0, color=base.INK, lw=1)
    ax.grid(visible=False, axis="y")
    return base.Drawn("headline", "Ours against peers", ALT, ALT, figure, data, wide=True)
