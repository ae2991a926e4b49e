"""Draw how tight the calibration bound is: both sides of it for many draws, and the largest ratio of each case."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from reports.figures import base
from reports.figures.palette import COLOURS, MARKERS

LOWEST = 1e-7  # where the axes begin: an excess below is as good as none
TOLD = ("sigma", "M", "factor", "tight_factor", "tight_ratio", "violations", "surrogate", "risk")


def cases(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one line per stored case: its constants and the largest ratio of the two sides."""
    lines = []
    for row in frame[frame["kind"] == "calibration"].itertuples():
        extra = json.loads(row.extra)
        name = str(row.problem).removeprefix("calibration-")
        told = [extra[n] for n in TOLD]
        lines.append((name, row.energy, row.regularizer, int(row.k), row.batch, row.score, *told))
    columns = ["target", "energy", "regularizer", "k", "draws", "ratio", *TOLD]
    return pd.DataFrame(lines, columns=columns).sort_values(
        ["target", "k", "energy", "regularizer"], ignore_index=True
    )


def drawn_points(data: pd.DataFrame) -> pd.DataFrame:
    """Return the two sides of the bound for each draw; sides divided so that cases of different k share one line."""
    lines = [
        (case.target, f"{case.energy}, {case.regularizer}", case.factor * surrogate, risk**2)
        for case in data.itertuples()
        for surrogate, risk in zip(case.surrogate, case.risk, strict=True)
    ]
    points = pd.DataFrame(lines, columns=["target", "case", "bound", "excess"])
    return points[(points["bound"] > LOWEST) & (points["excess"] > LOWEST)]


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """Draw one panel per target: draws below the line of the bound, and the line that half the diameter gives."""
    import seaborn as sns
    from matplotlib.lines import Line2D

    data = cases(frame)
    if data.empty:
        return None
    targets = list(dict.fromkeys(data["target"]))
    figure, axes = base.panels(len(targets), across=min(4, len(targets)), each=3.0, sharex=True, sharey=True)
    names = list(dict.fromkeys(data["energy"] + ", " + data["regularizer"]))
    points = drawn_points(data)
    palette = dict(zip(names, COLOURS, strict=False))
    markers = dict(zip(names, MARKERS, strict=False))
    low, high = LOWEST, max(10.0, float(points["bound"].max()) if len(points) else 10.0)
    handles: dict[str, Any] = {}
    for ax, target in zip(axes, targets, strict=True):
        sns.scatterplot(
            points[points["target"] == target], x="bound", y="excess", hue="case", style="case", palette=palette,
            markers=markers, s=14, alpha=0.55, linewidth=0, legend=False, ax=ax,
        )  # fmt: skip
        (handles["the bound, 8 σ² M"],) = ax.plot([low, high], [low, high], color=base.INK, lw=1.4)
        part = data[data["target"] == target]
        tight = float((part["tight_factor"] / part["factor"]).max())
        (handles["with half the diameter for σ"],) = ax.plot(
            [low, high], [tight * low, tight * high], color=base.MUTED, ls="--", lw=1.4
        )
        ax.set(title=f"{target.replace('_', ' ')}\nat most {part['ratio'].max():.2f} of the bound")
        ax.set(xlabel="8 σ² M × surrogate excess", ylabel="")
        ax.set_xlim(low, high * 2)
        ax.set_ylim(low, max(10.0, float(points["excess"].max() * 3) if len(points) else 10.0))
        base.log_axes(ax)
    for name in names:
        handles[name] = Line2D([], [], color=palette[name], marker=markers[name], ls="")
    axes[0].set_ylabel("(target excess)²")
    base.legend_below(figure, handles, 4)
    draws = int(data["draws"].sum())
    broken = int(data["violations"].sum())
    caption = (
        f"{draws:,} draws of a distribution and an input, half of them adversarial; the excess risks are exact. "
        f"{broken} of them lie above the bound; the closest comes to {data['ratio'].max():.2f} of it, and to "
        f"{data['tight_ratio'].max():.2f} of the bound with half the diameter in the place of σ."
    )
    where = f"{broken} points lie above the line" if broken else "every point lies on or below the line"
    alt = f"Squared target excess risk against the bound for {len(targets)} targets; {where}."
    return base.Drawn("calibration", "How tight is the calibration bound", caption, alt, figure,
                      data.drop(columns=["surrogate", "risk"]), wide=True)  # fmt: skip
