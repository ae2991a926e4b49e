"""Draw gradient error against inner error, with Ablin's slopes: one for the envelope and two for unrolling.

Reference: Ablin, Peyré and Moreau, "Super-efficiency of automatic differentiation", 2020.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.modes import in_order, look

POINTS = 250


def points(frame: pd.DataFrame) -> pd.DataFrame:
    """Return inner error (bound on the distance, else the residual) and gradient error of each row."""
    rows = frame[(frame["gradient"] != "none") & (frame["grad_error"] > 0) & np.isfinite(frame["grad_error"])]
    distance = rows["distance"].where(np.isfinite(rows["distance"]) & (rows["distance"] > 0))
    inner = distance.where(distance.notna(), rows["residual"])
    rows = rows.assign(inner=inner)
    rows = (
        rows[(rows["inner"] > 0) & np.isfinite(rows["inner"]) & (rows["dtype"] == rows["dtype"].max())]
        if len(rows)
        else rows
    )
    return rows[
        ["gradient", "solver", "backend", "instance", "tol", "inner", "grad_error", "grad_bound", "id"]
    ]


def fitted(data: pd.DataFrame) -> float:
    """Return the log-log slope of the rows above rounding (errors over 1e-12), or nan where too few or all alike."""
    use = data[(data["grad_error"] > 1e-12) & (data["inner"] > 1e-12)]
    x, y = np.log10(use["inner"].to_numpy(float)), np.log10(use["grad_error"].to_numpy(float))
    if len(x) < 4 or np.ptp(x) < 1.0:
        return float("nan")
    return float(np.polyfit(x, y, 1)[0])


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """Draw one point per row and one colour per mode; return None where no row has both errors."""
    data = points(frame)
    if data.empty:
        return None
    figure, ax = base.new(6.4, 4.6)
    slopes = {}
    for mode in in_order(data["gradient"]):
        part = data[data["gradient"] == mode]
        slopes[mode] = fitted(part)
        shown = part.sample(min(POINTS, len(part)), random_state=0)
        colour, marker = look(mode)
        label = mode + (f" (fitted slope {slopes[mode]:.2f})" if np.isfinite(slopes[mode]) else "")
        dots = ax.scatter(shown["inner"], shown["grad_error"], s=16, color=colour, marker=marker, alpha=0.7,
                          linewidths=0, label=label, zorder=3)  # fmt: skip
        dots.set_urls([base.link(i) for i in shown["id"]])
    x = np.array([data["inner"].min(), data["inner"].max()], dtype=float)
    middle = 10 ** np.mean(np.log10(x))
    level = float(data["grad_error"].clip(lower=1e-14).median())
    ax.set(xlabel="inner error |p - p*| (bound, else residual)", ylabel="relative gradient error")
    base.log_axes(ax)
    limits = ax.get_ylim()
    for power, ls in ((1, "-"), (2, "--")):
        ax.plot(
            x,
            level * (x / middle) ** power,
            color=base.MUTED,
            lw=1.0,
            ls=ls,
            label=f"slope {power}",
            zorder=1,
        )
    ax.set_ylim(limits)
    legend = figure.legend(loc="outside lower center", ncols=2)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
    caption = (
        "Theory (Ablin et al., 2020): the envelope's error falls as the inner error, that of "
        "unrolling as its "
        f"square while the iterates converge smoothly. At most {POINTS} points a mode are drawn."
    )
    words = ", ".join(f"{m} {s:.2f}" for m, s in slopes.items() if np.isfinite(s)) or "too few points to fit"
    alt = f"Gradient error against inner error for {len(data)} rows. Fitted slopes: {words}."
    return base.Drawn("gradient-slopes", "Gradient error against inner error", caption, alt, figure, data)
