"""Draw the multilabel experiment: accuracy beside the paper's."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, RED


def draw(data: pd.DataFrame) -> base.Drawn | None:
    """Draw one panel per dataset: our accuracy with its deviation, the paper's as an open ring."""
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
