"""The paper's figure: return against the number of trajectories, with expert and random lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's blue and vermilion: told apart by every reader, and by marker and dash as well.
STYLES: dict[str, dict[str, Any]] = {
    "unary": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "pairwise": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
}


def draw(frame: pd.DataFrame, stem: Path) -> list[Path]:
    """Mean and standard deviation over seeds, a row of panels a setting; writes stem.svg and stem.png."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "gfy"  # the same rows give the same file
    import matplotlib.pyplot as plt

    tasks, settings = sorted(frame["task"].unique()), sorted(frame["setting"].unique())
    counts = sorted(frame["trajectories"].unique())  # one axis for all panels, whatever is still missing
    size = (3.1 * len(tasks), 2.7 * len(settings) + 0.5)
    figure, axes = plt.subplots(len(settings), len(tasks), figsize=size, squeeze=False, layout="constrained")
    for i, setting in enumerate(settings):
        for j, task in enumerate(tasks):
            part = frame[(frame["setting"] == setting) & (frame["task"] == task)]
            _panel(axes[i][j], part, counts)
            axes[i][j].set_title(f"{task} ({setting})", fontsize=10)
        axes[i][0].set_ylabel("return")
    handles: dict[str, Any] = {}
    for panel in axes.flat:  # a panel may lack a model that another has
        found, labels = panel.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    names = [name for name in (*STYLES, "expert", "random") if name in handles]
    figure.legend(
        [handles[name] for name in names], names, loc="outside lower center", ncols=4, frameon=False
    )
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".svg"), stem.with_suffix(".png")]
    figure.savefig(paths[0], metadata={"Date": None})
    figure.savefig(paths[1], dpi=150)
    plt.close(figure)
    return paths


def _panel(axis: Any, part: pd.DataFrame, counts: list[int]) -> None:
    if part.empty:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.text(0.5, 0.5, "no rows yet", ha="center", va="center", transform=axis.transAxes)
        return
    place = {count: index for index, count in enumerate(counts)}
    for shift, (model, style) in zip((-0.06, 0.06), STYLES.items(), strict=True):
        one = part[part["model"] == model]
        if one.empty:
            continue
        stats = one.groupby("trajectories")["return"].agg(["mean", "std"]).fillna(0.0)
        at = np.array([place[count] for count in stats.index]) + shift
        axis.errorbar(at, stats["mean"], yerr=stats["std"], capsize=3, label=model, markersize=5, **style)
        seeds = np.array([place[count] for count in one["trajectories"]]) + shift
        axis.plot(seeds, one["return"], ".", color=style["color"], alpha=0.35, markersize=4)
    axis.axhline(part["expert"].iloc[0], color="#333333", linewidth=1, linestyle=":", label="expert")
    axis.axhline(part["random"].iloc[0], color="#888888", linewidth=1, linestyle="-.", label="random")
    axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    axis.set_xlim(-0.5, len(counts) - 0.5)
    axis.set_xlabel("trajectories")
