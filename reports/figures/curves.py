"""Draw certified gap against time and against steps: several tolerances on one problem per family."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.palette import Palette, dash

MEASURES = {
    "gap-time": ("steady_s", "seconds (steady)", "Certified gap against time"),
    "gap-steps": ("steps", "steps (mean over the batch)", "Certified gap against steps"),
}
FLOOR = 1e-16  # a gap of exactly zero is drawn here: a logarithm has no place for it


def shown_problems(frame: pd.DataFrame, limit: int = base.PANEL_LIMIT) -> list[str]:
    """Return one problem per family: of those measured by most solvers, the largest."""
    counted = frame.groupby(["family", "instance"]).agg(n=("solver", "nunique"), k=("k", "max")).reset_index()
    ordered = counted.sort_values(["family", "n", "k"], ascending=[True, False, False], kind="stable")
    first = ordered.drop_duplicates("family").sort_values("n", ascending=False, kind="stable").head(limit)
    return sorted(first["instance"])


def ladder(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the fastest row at each tolerance in the widest dtype; steps below zero mean not iterative."""
    rows = frame[
        np.isfinite(frame["gap_rel"]) & (frame[column] > 0) & frame["status"].isin(["ok", "not converged"])
    ]
    # Unrolling takes a number of steps, not a tolerance: it has no place on the ladder where another mode has.
    asked = rows[rows["mode"] != "unrolled"]
    rows = asked if len(asked) else rows
    wide = rows.groupby("instance")["dtype"].transform("max")  # "float64" > "float32" as text too
    rows = rows[rows["dtype"] == wide].sort_values("steady_s", kind="stable")
    rows = rows.drop_duplicates(["instance", "solver", "backend", "tol"])
    columns = [
        "family",
        "instance",
        "k",
        "solver",
        "backend",
        "device",
        "dtype",
        "tol",
        column,
        "gap_rel",
        "id",
    ]
    return rows[columns].sort_values(
        ["instance", "solver", "backend", "tol"], ascending=[True, True, True, False]
    )


def draw(frame: pd.DataFrame, palette: Palette, name: str) -> base.Drawn | None:
    """Draw `name`, one of `MEASURES`; return None where no row has both numbers."""
    column, label, title = MEASURES[name]
    data = ladder(frame, column)
    if data.empty:
        return None
    problems = shown_problems(data)
    figure, axes = base.panels(len(problems), sharey=True)
    for ax, problem in zip(axes, problems, strict=True):
        part = data[data["instance"] == problem]
        for (solver, backend), line in part.groupby(["solver", "backend"]):
            gap = line["gap_rel"].clip(lower=FLOOR)
            colour = palette.colour(str(solver))
            ax.plot(line[column], gap, color=colour, ls=dash(str(backend)), zorder=2)
            points = ax.scatter(
                line[column], gap, s=20, color=colour, marker=palette.marker(str(solver)), zorder=3
            )
            points.set_urls([base.link(i) for i in line["id"]])
        ax.set(title=wrapped(problem), xlabel=label)
        base.log_axes(ax)
    axes[0].set_ylabel("certified relative gap")
    shown = data[data["instance"].isin(problems)]
    base.legend_below(figure, base.solver_handles(palette, shown["solver"], shown["backend"]), 5)
    families = data["family"].nunique()
    left = (
        f" {families - len(problems)} further families are in the CSV file."
        if families > len(problems)
        else ""
    )
    caption = (
        "Each point is one row: the solver was asked for that tolerance, the gap was certified in "
        "float64 outside "
        f"the clock. Down and to the left is better.{left}"
    )
    return base.Drawn(name, title, caption, _alt(data, column, title), figure, data, wide=True)


def wrapped(text: str, width: int = 34) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width)[:2])


def _alt(data: pd.DataFrame, column: str, title: str) -> str:
    reached = data[data["gap_rel"] <= 1e-6]
    words = [f"{title} for {data['instance'].nunique()} problems and {data['solver'].nunique()} solvers."]
    if not reached.empty:
        first = reached.loc[reached[column].idxmin()]
        unit = "s" if column == "steady_s" else "steps"
        words.append(
            f"Soonest below 1e-6: {first['solver']} on {first['instance']}, {first[column]:.3g} {unit}."
        )
    return " ".join(words)
