"""Draw compile time against steady time, and after how many calls compiling has paid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.palette import Palette


def costs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the median over problems of compile (with tracing) and steady time, and the break-even count's range."""
    rows = frame[(frame["compile_s"] > 0) & (frame["steady_s"] > 0)]
    rows = rows.assign(setup=rows["compile_s"] + rows["trace_s"].fillna(0.0))
    grouped = rows.groupby(["solver", "backend"])
    data = grouped.agg(
        setup=("setup", "median"), steady=("steady_s", "median"), calls=("break_even", "median"),
        calls_low=("break_even", lambda s: s.quantile(0.25)),
        calls_high=("break_even", lambda s: s.quantile(0.75)),
        rows=("id", "size"), id=("id", "first"),
    )  # fmt: skip
    data = data.reset_index().sort_values("steady", kind="stable")
    return data.assign(cost_in_calls=data["setup"] / data["steady"])


def draw(frame: pd.DataFrame, palette: Palette) -> base.Drawn | None:
    """Draw the figure; return None where nothing was compiled."""
    from matplotlib.figure import Figure

    data = costs(frame)
    if data.empty:
        return None
    figure = Figure(figsize=(10.5, max(3.9, 0.34 * len(data) + 1.6)))
    left, right = figure.subplots(1, 2)
    x = np.array([data["steady"].min() / 2, data["steady"].max() * 2])
    for times in (1, 10, 100, 1000, 10_000):
        left.plot(x, times * x, color=base.RULE, lw=1.0, zorder=1)
    for line in data.itertuples():
        left.scatter(line.steady, line.setup, s=42, color=palette.colour(line.solver),
                     marker=palette.marker(line.solver), zorder=3).set_urls([base.link(line.id)])  # fmt: skip
    left.set(xlabel="steady call (s)", ylabel="trace and compile (s)")
    left.set_xlim(*x)
    left.set_ylim(data["setup"].min() / 3, data["setup"].max() * 3)
    base.log_axes(left)
    low, high = left.get_ylim()
    for times in (1, 10, 100, 1000, 10_000):
        top = min(high * 0.9, times * x[1])
        if top > low:
            left.text(top / times, top, f" {times:,}", fontsize=8.5, color=base.MUTED, va="top", ha="left")
    _calls(right, data, palette)
    caption = (
        "Left: the grey lines are how many steady calls a compilation costs. Right: stored break-even counts, "
        "median and quartiles over the problems; open markers, where no uncompiled run was stored to break "
        "even with, are the steady calls that one compilation takes as long as."
    )
    heavy = data.loc[data["setup"].idxmax()]
    alt = (
        f"Compile against steady time of {len(data)} solver and backend pairs; the longest to compile is "
        f"{heavy['solver']} on {heavy['backend']} with {heavy['setup']:.2g} s."
    )
    return base.Drawn("compile", "Compile against steady time", caption, alt, figure, data, wide=True)


def _calls(ax: Any, data: pd.DataFrame, palette: Palette) -> None:
    """Return the break-even count of each line, else what its compilation costs in calls."""
    for i, line in enumerate(data.itertuples()):
        colour, marker = palette.colour(line.solver), palette.marker(line.solver)
        known = np.isfinite(line.calls) and line.calls > 0
        if known:
            ax.plot([line.calls_low, line.calls_high], [i, i], color=colour, lw=1.4)
        ax.scatter(line.calls if known else line.cost_in_calls, i, marker=marker, s=42, zorder=3,
                   edgecolors=colour, facecolors=colour if known else "none")  # fmt: skip
    ax.set_yticks(
        range(len(data)), [f"{s}, {b}" for s, b in zip(data["solver"], data["backend"], strict=True)]
    )
    ax.set_ylim(len(data) - 0.4, -0.6)
    ax.set_xlabel("calls until compiling has paid")
    base.log_axes(ax, "x")
