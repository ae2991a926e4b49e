"""Draw ours against others in one picture: how many times faster or slower, one bar per piece of work."""

from __future__ import annotations

from textwrap import fill

import pandas as pd

from reports.answers.bars import Race, kinds_of_work
from reports.data.numbers import seconds, significant
from reports.figures import base
from reports.figures.palette import BLUE, RED

TITLE = "How many times faster is our best solver than the fastest other one?"
ALT = (
    "How many times faster our best solver is than the fastest other one, one bar per kind of work, with both times; "
    "slower is red"
)


def draw(found: list[Race]) -> base.Drawn | None:
    """Draw one bar per kind of work, the largest ratio first; return None where there is none."""
    if not found:
        return None
    shown = sorted(kinds_of_work(found).items(), key=lambda item: -item[1].ratio)
    data = pd.DataFrame({"work": [work for work, _ in shown], "times": [race.ratio for _, race in shown]})
    figure, ax = base.new(9.0, 1.1 + 0.42 * len(data))
    figure.set_layout_engine("constrained", w_pad=0.12)  # inches; browsers set the labels a little wider
    colours = [BLUE if times >= 1 else RED for times in data["times"]]
    ax.barh(range(len(data)), data["times"] - 1.0, color=colours, left=1.0, height=0.7)
    for place, (_, race) in enumerate(shown):
        times = race.ratio
        said = f"{significant(times)} x" if times >= 1 else f"{significant(1 / times)} x slower"
        ours, other = (seconds(float(row["steady_s"])) for row in (race.ours, race.peer))
        end = max(times, 1.0) * 1.08
        ax.annotate(said, (end, place), va="center", fontsize=10.5, fontweight="bold")
        ax.annotate(
            f"{ours} instead of {other}", (end, place), xytext=(7.4 * len(said) + 8, 0), va="center",
            textcoords="offset points", fontsize=9, color=base.MUTED,
        )  # fmt: skip
    ax.set_yticks(range(len(data)), [fill(work, 36) for work in data["work"]])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(min(0.7, data["times"].min() / 1.4), max(data["times"].max(), 2.0) * 80)
    ticks = [10.0**n for n in range(4) if 10.0**n <= max(data["times"].max() * 2, 10.0)]
    ax.set_xticks(ticks, ["equally fast" if tick == 1 else f"{tick:,.0f} x faster" for tick in ticks])
    ax.axvline(1.0, color=base.INK, lw=1)
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.suptitle(TITLE, x=0.01, ha="left", fontsize=12.5, fontweight="bold")
    return base.Drawn("headline", "Ours against peers", ALT, ALT, figure, data, wide=True)
