"""Draw ours against others in one picture: how many times faster or slower, one bar per piece of work."""

from __future__ import annotations

from textwrap import fill

import pandas as pd

from reports.answers.bars import Race
from reports.data.numbers import significant
from reports.figures import base
from reports.figures.palette import BLUE, RED

ALT = "How many times faster our best solver is than the fastest other one, one bar per piece of work; slower is red"


def draw(found: list[Race]) -> base.Drawn | None:
    """Draw one bar per race; return None where there is none."""
    if not found:
        return None
    data = pd.DataFrame({"work": [race.work for race in found], "times": [race.ratio for race in found]})
    figure, ax = base.new(8.5, 0.8 + 0.46 * len(data))
    colours = [BLUE if times >= 1 else RED for times in data["times"]]
    ax.barh(range(len(data)), data["times"] - 1.0, color=colours, left=1.0)
    for place, times in enumerate(data["times"]):
        said = f"{significant(times)} x" if times >= 1 else f"{significant(1 / times)} x slower"
        ax.text(max(times, 1.0) * 1.08, place, said, va="center", fontsize=9.5)
    ax.set_yticks(range(len(data)), [fill(work, 44) for work in data["work"]])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(min(0.5, data["times"].min() / 2), data["times"].max() * 4)
    ax.set_xlabel("times faster than the fastest other solver, at equal certified accuracy")
    ax.axvline(1.0, color=base.INK, lw=1)
    ax.grid(visible=False, axis="y")
    return base.Drawn("headline", "Ours against peers", ALT, ALT, figure, data, wide=True)
