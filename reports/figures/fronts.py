"""Draw accuracy against speed: every certified row of a family, and the front that no row beats in both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reports.answers.pareto import front
from reports.figures import base
from reports.figures.curves import FLOOR, shown_problems, wrapped
from reports.figures.palette import Palette

POINTS = 400  # a panel; more cannot be told apart, and a page must stay light


def draw(frame: pd.DataFrame, palette: Palette) -> base.Drawn | None:
    """Draw one panel per family (its largest well-measured problem); return None where nothing has a time and a gap."""
    rows = frame[
        np.isfinite(frame["gap_rel"])
        & (frame["steady_s"] > 0)
        & frame["status"].isin(["ok", "not converged"])
    ]
    if rows.empty:
        return None
    problems = shown_problems(rows)
    figure, axes = base.panels(len(problems), sharey=True)
    kept, winners = [], []
    for ax, problem in zip(axes, problems, strict=True):
        part = rows[rows["instance"] == problem].copy()
        part["front"] = front(part["steady_s"].to_numpy(), part["gap_rel"].to_numpy())
        kept.append(part)
        edge = part[part["front"]].sort_values("steady_s")
        winners.append(edge["solver"].iloc[0])
        rest = part[~part["front"]]
        drawn = pd.concat([rest.sample(min(POINTS, len(rest)), random_state=0), edge])
        ax.step(
            edge["steady_s"],
            edge["gap_rel"].clip(lower=FLOOR),
            where="post",
            color=base.MUTED,
            lw=1.0,
            zorder=1,
        )
        for (solver, on), points in drawn.groupby(["solver", "front"]):
            name = str(solver)
            shape: dict[str, Any] = {"s": 34 if on else 14, "alpha": 1.0 if on else 0.45, "linewidths": 0}
            gap = points["gap_rel"].clip(lower=FLOOR)
            dots = ax.scatter(points["steady_s"], gap, color=palette.colour(name),
                              marker=palette.marker(name), zorder=3 if on else 2, **shape)  # fmt: skip
            dots.set_urls([base.link(i) for i in points["id"]])
        ax.set(title=wrapped(problem), xlabel="seconds (steady)")
        base.log_axes(ax)
    axes[0].set_ylabel("certified relative gap")
    solvers = rows[rows["instance"].isin(problems)]["solver"]
    base.legend_below(figure, base.solver_handles(palette, solvers), 5)
    columns = ["family", "instance", "solver", "backend", "dtype", "gradient", "tol", "steady_s", "gap_rel"]
    columns += ["front", "id"]
    data = pd.concat(kept)[columns]
    caption = (
        "Large points are on the front: no other row is both faster and more accurate. Small points "
        "are beaten. "
        f"At most {POINTS} beaten points a panel are drawn; all are in the CSV file."
    )
    names = ", ".join(f"{w} on {p}" for w, p in zip(winners[:4], problems[:4], strict=True))
    alt = f"Accuracy-speed fronts of {len(problems)} problems; the fastest end belongs to {names}."
    return base.Drawn("pareto", "Accuracy-speed Pareto fronts", caption, alt, figure, data, wide=True)
