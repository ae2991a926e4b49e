"""Draw devices side by side: for each family the best certified time on each device of one machine."""

from __future__ import annotations

import pandas as pd

from reports.answers.verdict import Verdict
from reports.figures import base
from reports.figures.palette import Palette

FILL = ("full", "none", "left", "top")


def draw(verdicts: list[Verdict], palette: Palette) -> base.Drawn | None:
    """Draw the figure; return None unless one machine was measured on two devices or more."""
    lines = [
        (
            v.family,
            v.device,
            v.need,
            v.winner.choice.solver,
            v.winner.choice.backend,
            v.winner.time,
            v.winner.high,
        )
        for v in verdicts
        if v.winner is not None and v.need == "solve"
    ]
    data = pd.DataFrame(lines, columns=["family", "device", "need", "solver", "backend", "time", "high"])
    devices = sorted(data["device"].unique())
    if len(devices) < 2:
        return None
    families = sorted(data["family"].unique())
    figure, ax = base.new(7.0, 0.5 * len(families) * len(devices) / 2 + 1.8)
    height = 0.8 / len(devices)
    for j, device in enumerate(devices):
        part = data[data["device"] == device]
        y = [families.index(f) + (j - (len(devices) - 1) / 2) * height for f in part["family"]]
        for yy, line in zip(y, part.itertuples(), strict=True):
            ax.plot([line.time], [yy], color=palette.colour(line.solver), marker=palette.marker(line.solver),
                    fillstyle=FILL[j % len(FILL)], markersize=8, ls="")  # fmt: skip
            ax.annotate(f"{device}: {line.solver}, {line.backend}", (line.time, yy), xytext=(8, 0),
                        textcoords="offset points", va="center", fontsize=8.5)  # fmt: skip
    ax.set_yticks(range(len(families)), families)
    ax.set_xlabel("seconds, best certified choice")
    base.log_axes(ax, "x")
    low, high = ax.get_xlim()
    ax.set_xlim(low, high * (high / low) ** 0.6)  # room for the names
    ax.set_ylim(-0.6, len(families) - 0.4)
    caption = "The best certified choice of each device; filled and open markers tell the devices apart."
    alt = f"Best certified time on {', '.join(devices)} for {len(families)} families."
    return base.Drawn("devices", "Devices side by side", caption, alt, figure, data)
