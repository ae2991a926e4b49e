"""Draw the paper's figure of imitation learning: return against trajectories, with the expert and a random policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, RED

STYLES: dict[str, dict[str, Any]] = {
    "unary": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "pairwise": {"color": RED, "marker": "s", "linestyle": "--"},
}


def draw(seeds: pd.DataFrame) -> base.Drawn | None:
    """Draw mean and standard deviation over seeds, one row of panels per setting; return None without rows.

    Args:
        seeds: One line per seed, as from `reports.answers.imitation.seeds_frame`.
    """
    if seeds.empty:
        return None
    tasks, settings = sorted(seeds["task"].unique()), sorted(seeds["setting"].unique())
    counts = sorted(seeds["trajectories"].unique())  # one axis for all panels, whatever is still missing
    each = 2.7 if len(settings) > 1 else 3.0
    figure, axes = base.panels(
        len(settings) * len(tasks), across=len(tasks), width=2.7 * len(tasks), each=each
    )
    handles: dict[str, Any] = {}
    places = [(setting, task) for setting in settings for task in tasks]
    for ax, (setting, task) in zip(axes, places, strict=True):
        part = seeds[(seeds["setting"] == setting) & (seeds["task"] == task)]
        handles |= _panel(ax, part, counts)
        ax.set(title=f"{task} ({setting})", ylabel="return" if task == tasks[0] else "")
    base.legend_below(
        figure, {name: handles[name] for name in (*STYLES, "expert", "random") if name in handles}
    )
    grouped = seeds.groupby(["task", "setting", "model", "trajectories"])
    data = grouped.agg(
        mean=("return", "mean"), sd=("return", "std"), normalised=("normalised", "mean"), seeds=("seed", "size"),
        expert=("expert", "first"), random=("random", "first"),
    ).reset_index()  # fmt: skip
    best = data.loc[data["normalised"].idxmax()]
    caption = (
        "Mean and standard deviation over seeds, and every seed as a dot; the lines are the expert of the "
        "demonstrations and a random policy."
    )
    alt = (
        f"Return on {len(tasks)} tasks for {len(settings)} settings; the highest normalised return is "
        f"{best['normalised']:.2f}, {best['model']} ({best['setting']}) on {best['task']}."
    )
    return base.Drawn("imitation", "Imitation learning", caption, alt, figure, data, wide=True)


def _panel(ax: Any, part: pd.DataFrame, counts: list[int]) -> dict[str, Any]:
    if part.empty:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "no rows yet", ha="center", va="center", transform=ax.transAxes)
        return {}
    place = {count: index for index, count in enumerate(counts)}
    handles: dict[str, Any] = {}
    for shift, (model, style) in zip((-0.06, 0.06), STYLES.items(), strict=True):
        one = part[part["model"] == model]
        if one.empty:
            continue
        stats = one.groupby("trajectories")["return"].agg(["mean", "std"]).fillna(0.0)
        at = np.array([place[count] for count in stats.index]) + shift
        handles[model] = ax.errorbar(at, stats["mean"], yerr=stats["std"], capsize=3, markersize=5, **style)
        dots = np.array([place[count] for count in one["trajectories"]]) + shift
        ax.plot(dots, one["return"], ".", color=style["color"], alpha=0.35, markersize=4)
    handles["expert"] = ax.axhline(part["expert"].iloc[0], color=base.INK, lw=1.0, ls=":")
    handles["random"] = ax.axhline(part["random"].iloc[0], color=base.MUTED, lw=1.0, ls="-.")
    ax.set_xticks(range(len(counts)), [str(int(count)) for count in counts])
    ax.set_xlim(-0.5, len(counts) - 0.5)
    ax.set_xlabel("trajectories")
    return handles
