"""The paper's experiments as figures: accuracy beside the published one, and returns."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, COLOURS, MARKERS, RED


def draw_multilabel(data: pd.DataFrame) -> base.Drawn | None:
    """A panel a dataset: our accuracy with its deviation, the paper's as an open ring."""
    if data.empty:
        return None
    datasets = list(dict.fromkeys(data["dataset"]))
    label = data["energy"] + ", " + data["loss"] + ", " + data["gradient"]
    lines = list(dict.fromkeys(label))[::-1]
    figure, axes = base.panels(len(datasets), each=max(2.4, 0.26 * len(lines) + 1.0), sharey=True)
    handles: dict[str, Any] = {}
    for ax, dataset in zip(axes, datasets, strict=True):
        part = data[data["dataset"] == dataset]
        y = [lines.index(n) for n in label[part.index]]
        handles["here (± sd over seeds)"] = ax.errorbar(
            part["accuracy"], y, xerr=part["sd"].fillna(0.0), fmt="o", color=BLUE, markersize=5, zorder=3
        )
        handles["paper"] = ax.scatter(
            part["paper"], y, marker="D", s=44, facecolors="none", edgecolors=RED, zorder=2
        )
        ax.set(title=dataset, xlabel="test accuracy (%)")
    axes[0].set_yticks(range(len(lines)), lines)
    base.legend_below(figure, handles)
    both = data[data["paper"].notna()]
    apart = (both["accuracy"] - both["paper"]).abs()
    alt = f"Accuracy of {len(lines)} models on {len(datasets)} datasets beside the paper's"
    alt += f"; half of them lie within {apart.median():.2f} points of it." if len(both) else "."
    caption = "Filled: measured here. Open: the paper's published figure."
    return base.Drawn(
        "multilabel", "Multilabel accuracy beside the paper's", caption, alt, figure, data, wide=True
    )


def draw_imitation(data: pd.DataFrame) -> base.Drawn | None:
    """A panel a task: normalised return against trajectories, mean and deviation over seeds."""
    if data.empty:
        return None
    grouped = data.groupby(["task", "setting", "model", "trajectories"])["normalised"]
    summary = grouped.agg(mean="mean", sd="std", seeds="size").reset_index()
    tasks = list(dict.fromkeys(summary["task"]))
    figure, axes = base.panels(len(tasks), across=4, each=3.0, sharey=True)
    arms = list(dict.fromkeys(zip(summary["model"], summary["setting"], strict=True)))
    handles: dict[str, Any] = {}
    for ax, task in zip(axes, tasks, strict=True):
        ax.axhline(1.0, color=base.MUTED, lw=1.0, ls=":")
        ax.axhline(0.0, color=base.MUTED, lw=1.0, ls=":")
        for i, (model, setting) in enumerate(arms):
            part = summary[
                (summary["task"] == task) & (summary["model"] == model) & (summary["setting"] == setting)
            ]
            if part.empty:
                continue
            colour = COLOURS[list(dict.fromkeys(summary["model"])).index(model)]
            solid = setting == arms[0][1]
            handles[f"{model}, {setting}"] = ax.errorbar(
                part["trajectories"] * (1 + 0.03 * i), part["mean"], yerr=part["sd"].fillna(0.0),
                color=colour, marker=MARKERS[i], ls="-" if solid else "--", markersize=5, elinewidth=1.0,
                capsize=2,
            )  # fmt: skip
        ax.set(title=task, xlabel="trajectories")
        sizes = sorted(data["trajectories"].unique())
        ax.set_xscale("log")
        ax.set_xticks(sizes, [str(int(s)) for s in sizes])
        ax.set_xlim(min(sizes) / 1.25, max(sizes) * 1.4)
        ax.minorticks_off()
    axes[0].set_ylabel("normalised return")
    base.legend_below(figure, handles)
    best = summary.loc[summary["mean"].idxmax()]
    caption = (
        "Mean and standard deviation over seeds; the dotted lines are a random policy (0) and the expert (1)."
    )
    alt = (
        f"Normalised return on {len(tasks)} tasks for {len(arms)} model and setting pairs; the highest is "
        f"{best['mean']:.2f}, {best['model']} ({best['setting']}) on {best['task']}."
    )
    return base.Drawn("imitation", "Imitation learning", caption, alt, figure, summary, wide=True)
