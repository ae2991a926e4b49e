"""How tight the calibration bound is: both sides of it for many draws, and the largest ratio of each case."""

from __future__ import annotations

import json

import pandas as pd

from . import base
from .palette import COLOURS, MARKERS

TOLD = ("sigma", "M", "factor", "tight_factor", "tight_ratio", "violations", "surrogate", "risk")


def cases(frame: pd.DataFrame) -> pd.DataFrame:
    """A line a stored case: its constants and the largest ratio of the two sides."""
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


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """A panel a target: draws below the line of the bound, and the line that half the diameter gives."""
    data = cases(frame)
    if data.empty:
        return None
    targets = list(dict.fromkeys(data["target"]))
    figure, axes = base.panels(len(targets), across=min(4, len(targets)), each=3.0)
    handles: dict[str, object] = {}
    names = list(dict.fromkeys(data["energy"] + ", " + data["regularizer"]))
    for ax, target in zip(axes, targets, strict=True):
        part = data[data["target"] == target]
        for case in part.itertuples():
            name = f"{case.energy}, {case.regularizer}"
            # the sides divided by the bound's constant, so that cases of different k share one line
            x = [case.factor * s for s in case.surrogate]
            y = [r**2 for r in case.risk]
            kept = [(a, b) for a, b in zip(x, y, strict=True) if a > 0 and b > 1e-12]
            if kept:
                look = names.index(name) % len(COLOURS)
                handles[name] = ax.scatter(
                    [a for a, _ in kept], [b for _, b in kept], s=7, alpha=0.5, lw=0, color=COLOURS[look],
                    marker=MARKERS[look],
                )  # fmt: skip
        low, high = 1e-6, max(10.0, ax.get_xlim()[1])
        (handles["8 σ² M"],) = ax.plot([low, high], [low, high], color=base.INK, lw=1.2)
        tight = float((part["tight_factor"] / part["factor"]).max())
        (handles["with half the diameter for σ"],) = ax.plot(
            [low, high], [tight * low, tight * high], color=base.MUTED, ls="--", lw=1.2
        )
        ax.set(title=target.replace("_", " "), xlabel="8 σ² M (surrogate excess)")
        base.log_axes(ax)
    axes[0].set_ylabel("(target excess)²")
    base.legend_below(figure, handles, 3)
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
