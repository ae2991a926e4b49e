"""Draw memory: compiled temporaries, peak host and peak device memory by solver and gradient mode."""

from __future__ import annotations

import pandas as pd

from reports.figures import base
from reports.figures.modes import in_order, look

MEASURES = {
    "temp_bytes": "compiled temporaries",
    "peak_host_bytes": "added to the process",
    "peak_device_bytes": "peak on the device",
}


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """Draw one panel per measure that some row has; return None where none has."""
    from matplotlib.figure import Figure

    frame = frame.assign(
        temp_bytes=frame["backward_temp_bytes"].fillna(frame["temp_bytes"]),
        peak_host_bytes=frame["backward_peak_host_bytes"].fillna(frame["peak_host_bytes"]),
    )
    present = [m for m in MEASURES if (frame[m] > 0).any()]
    if not present:
        return None
    long = frame.melt(["solver", "backend", "gradient", "id"], present, "measure", "bytes")
    long = long[long["bytes"] > 0].sort_values("bytes", kind="stable")
    grouped = long.groupby(["measure", "solver", "backend", "gradient"])["bytes"]
    data = grouped.agg(median="median", largest="max", rows="size").reset_index()
    names = data["solver"] + ", " + data["backend"]
    lines = sorted(names.unique(), reverse=True)
    figure = Figure(figsize=(10.5, 0.3 * len(lines) + 1.9))
    axes = figure.subplots(1, len(present), sharey=True, squeeze=False)[0]
    handles: dict[str, object] = {}
    for ax, measure in zip(axes, present, strict=True):
        modes = in_order(data["gradient"])
        for number, mode in enumerate(modes):
            here = (data["measure"] == measure) & (data["gradient"] == mode)
            if not here.any():
                continue
            colour, marker = look(mode)
            label = "no gradient" if mode == "none" else mode
            aside = 0.5 * (number - (len(modes) - 1) / 2) / len(modes)  # equal values stay visible
            at = [lines.index(n) - aside for n in names[here]]
            handles[label] = ax.scatter(data[here]["median"] / 2**20, at, s=30,
                                        color=colour, marker=marker, alpha=0.85, zorder=3)  # fmt: skip
        ax.set_xlabel(f"{MEASURES[measure]} (MiB)")
        base.log_axes(ax, "x")
    axes[0].set_yticks(range(len(lines)), lines)
    base.legend_below(figure, handles)
    caption = (
        "Median over the problems of the pass with a gradient, where there is one. What is added to the process "
        "is counted at its worst moment; nothing is drawn where it stayed below what was already there."
    )
    most = data.loc[data["median"].idxmax()]
    alt = (
        f"Memory of {len(lines)} solver and backend pairs by gradient mode; the most is "
        f"{most['median'] / 2**20:.3g} MiB ({MEASURES[most['measure']]}) by {most['solver']}, "
        f"{most['gradient']}."
    )
    return base.Drawn("memory", "Memory", caption, alt, figure, data, wide=True)
