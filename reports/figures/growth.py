"""Draw time to certified accuracy against size, log-log, with the fitted growth exponent of each solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reports.answers.choices import asked, best_rows
from reports.figures import base
from reports.figures.palette import Palette, dash


def exponents(frame: pd.DataFrame, tol: float) -> pd.DataFrame:
    """Return one line for each (family, batch, rank, solver, backend, k): time and the slope fitted over k."""
    best = best_rows(asked(frame, "solve"), tol, "solve")
    best = best[best["solved"] & (best["k"] > 0)]
    best = best[best["dtype"] == best.groupby("family")["dtype"].transform("max")]
    keys = ["family", "batch", "rank", "solver", "backend", "device"]
    best = best.assign(batch=best["batch"].fillna(0), rank=best["rank"].fillna(0))
    lines = best.groupby([*keys, "k"]).agg(time=("time", "median"), id=("id", "first")).reset_index()
    sizes = lines.groupby(keys)["k"].transform("nunique")
    lines = lines[sizes >= 2].copy()
    lines["exponent"] = np.nan
    for _, part in lines.groupby(keys):
        slope = np.polyfit(np.log(part["k"].astype(float)), np.log(part["time"].astype(float)), 1)[0]
        lines.loc[part.index, "exponent"] = slope
    return lines


def draw(frame: pd.DataFrame, palette: Palette, tol: float) -> base.Drawn | None:
    """Draw the figure; return None unless some solver was measured at two sizes or more of the same problem."""
    data = exponents(frame, tol)
    if data.empty:
        return None
    spread = (
        data.groupby(["family", "batch", "rank"])["k"].nunique().sort_values(ascending=False, kind="stable")
    )
    chosen = list(dict.fromkeys(spread.index))[: base.PANEL_LIMIT]
    figure, axes = base.panels(len(chosen), each=3.1)
    for ax, (family, batch, rank) in zip(axes, chosen, strict=True):
        part = data[(data["family"] == family) & (data["batch"] == batch) & (data["rank"] == rank)]
        for (solver, backend), line in part.groupby(["solver", "backend"]):
            name = str(solver)
            ax.plot(line["k"], line["time"], color=palette.colour(name), ls=dash(str(backend)),
                    marker=palette.marker(name))  # fmt: skip
        details = "".join(f", {n} {int(v)}" for n, v in (("rank", rank), ("batch", batch)) if v > 0)
        ax.set(title=f"{family}{details}", xlabel="k (labels)")
        base.log_axes(ax, "y")
        _sizes(ax, sorted(part["k"].unique()))
        _slopes(ax, part[part["backend"] == part["backend"].min()])
    axes[0].set_ylabel(f"seconds to a gap of {tol:.0e}")
    base.legend_below(figure, base.solver_handles(palette, data["solver"], data["backend"]), 5)
    caption = (
        f"Steady time of the fastest row certified at {tol:.0e}; the number at a line's end is its "
        "fitted growth "
        "exponent (1 = linear in the number of labels)."
    )
    flat = data.loc[data["exponent"].idxmin()]
    alt = (
        f"Time against problem size for {len(chosen)} families. The slowest growth is that of "
        f"{flat['solver']} on "
        f"{flat['family']}, exponent {flat['exponent']:.2f}."
    )
    return base.Drawn(
        "growth", "Time to certified accuracy against size", caption, alt, figure, data, wide=True
    )


def _sizes(ax: Any, sizes: list[float]) -> None:
    """Set the measured sizes as ticks, every other one where they would touch."""
    from matplotlib.ticker import NullLocator

    ax.set_xscale("log")
    ax.set_xlim(sizes[0] / 1.3, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.2)
    shown = sizes if len(sizes) <= 5 else sizes[::2]
    ax.set_xticks(shown, [f"{int(s):,}" if s < 1e5 else f"{s:.0e}" for s in shown])
    ax.xaxis.set_minor_locator(NullLocator())


def _slopes(ax: Any, part: pd.DataFrame) -> None:
    """Write each line's exponent at its end, moved apart where two would touch."""
    ends = part.sort_values("k").groupby("solver").last().sort_values("time")
    low, high = np.log10(ax.get_ylim())
    step, at = 0.065 * (high - low), -np.inf
    for line in ends.itertuples():
        at = max(float(np.log10(line.time)), at + step)
        ax.annotate(f"{line.exponent:.1f}", (line.k, 10**at), xytext=(6, 0), textcoords="offset points",
                    va="center", fontsize=8.5, color=base.INK)  # fmt: skip
