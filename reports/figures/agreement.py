"""Do the gradient modes agree? Errors by mode, solver and backend against a reference, with its bound."""

from __future__ import annotations

import numpy as np
import pandas as pd

from . import base
from .modes import in_order, look

FLOOR = 1e-17


def errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Median, range and bound of the relative gradient error at each mode's tightest tolerance."""
    rows = frame[(frame["gradient"] != "none") & np.isfinite(frame["grad_error"]) & (frame["status"] == "ok")]
    rows = rows[rows["dtype"] == rows["dtype"].max()] if len(rows) else rows
    keys = ["solver", "gradient", "backend"]
    tight = rows[rows["tol"].fillna(0) == rows.groupby([*keys, "instance"])["tol"].transform("min").fillna(0)]
    grouped = tight.sort_values("grad_error", kind="stable").groupby(keys)
    data = grouped.agg(
        median=("grad_error", "median"), low=("grad_error", "min"), high=("grad_error", "max"),
        bound=("grad_bound", "median"), rows=("id", "size"), id=("id", "last"),
    )  # fmt: skip
    broken = tight[tight["grad_error"] > tight["grad_bound"] * (1 + 1e-6) + 1e-12]
    data["beyond_bound"] = broken.groupby(keys).size()
    return data.fillna({"beyond_bound": 0}).reset_index()


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """A heat map beside intervals; None where no gradient error was measured."""
    from matplotlib.figure import Figure

    data = errors(frame)
    if data.empty:
        return None
    solvers = sorted(data["solver"].unique(), reverse=True)
    columns = [(m, b) for m in in_order(data["gradient"]) for b in sorted(data["backend"].unique())]
    columns = [c for c in columns if ((data["gradient"] == c[0]) & (data["backend"] == c[1])).any()]
    figure = Figure(figsize=(10.5, 0.46 * len(solvers) + 2.3))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.0, 1.15])
    _heat(figure, left, data, solvers, columns)
    handles = _intervals(right, data, solvers)
    base.legend_below(figure, handles)
    beyond = int(data["beyond_bound"].sum())
    caption = (
        "Relative error against a float64 reference gradient at the tightest tolerance measured: the "
        "numbers on "
        "the left are powers of ten (median over problems; darker is closer). On the right the "
        "median, its range "
        f"over problems, and theory's bound from the certificate (|). {beyond or 'No'} row"
        f"{'' if beyond == 1 else 's'} lie{'s' if beyond == 1 else ''} beyond the bound."
    )
    worst, close = data.loc[data["median"].idxmax()], data.loc[data["median"].idxmin()]
    alt = (
        f"Gradient error of {len(columns)} mode and backend pairs for {len(solvers)} solvers, from "
        f"{close['median']:.0e} ({close['solver']}, {close['gradient']}, {close['backend']}) to "
        f"{worst['median']:.0e} ({worst['solver']}, {worst['gradient']}, {worst['backend']})."
    )
    return base.Drawn(
        "gradient-agreement", "Agreement of the gradient modes", caption, alt, figure, data, wide=True
    )


def _heat(
    figure: object, ax: object, data: pd.DataFrame, solvers: list[str], columns: list[tuple[str, str]]
) -> None:
    table = np.full((len(solvers), len(columns)), np.nan)
    for line in data.itertuples():
        i, j = solvers.index(line.solver), columns.index((line.gradient, line.backend))
        table[i, j] = np.log10(max(line.median, FLOOR))
    image = ax.imshow(table, aspect="auto", cmap="cividis", vmin=-16, vmax=0)  # type: ignore[attr-defined]
    for (i, j), value in np.ndenumerate(table):
        if np.isfinite(value):
            # Text in fixed colours: the cell behind it is the same on a light and a dark page.
            tone = "#ffffff" if value < -7 else "#101010"
            ax.text(j, i, f"{value:.0f}", ha="center", va="center", color=tone, fontsize=9.5)  # type: ignore[attr-defined]
    names = [f"{mode}\n{backend}" for mode, backend in columns]
    ax.set_xticks(range(len(columns)), names, fontsize=8.5)  # type: ignore[attr-defined]
    ax.set_yticks(range(len(solvers)), solvers)  # type: ignore[attr-defined]
    ax.grid(False)  # type: ignore[attr-defined]
    figure.colorbar(image, ax=ax, pad=0.02, format="1e%d")  # type: ignore[attr-defined]


def _intervals(ax: object, data: pd.DataFrame, solvers: list[str]) -> dict[str, object]:
    handles: dict[str, object] = {}
    pairs = [(m, b) for m in in_order(data["gradient"]) for b in sorted(data["backend"].unique())]
    for n, (mode, backend) in enumerate(pairs):
        part = data[(data["gradient"] == mode) & (data["backend"] == backend)]
        if part.empty:
            continue
        y = [solvers.index(s) + (n - (len(pairs) - 1) / 2) * 0.8 / len(pairs) for s in part["solver"]]
        x = part["median"].clip(lower=FLOOR)
        reach = [x - part["low"].clip(lower=FLOOR), part["high"].clip(lower=FLOOR) - x]
        colour, marker = look(mode)
        filled = colour if backend == min(data["backend"]) else base.PAPER
        drawn = ax.errorbar(x, y, xerr=np.maximum(reach, 0), fmt=marker, color=colour, markersize=4.5,  # type: ignore[attr-defined]
                            markerfacecolor=filled, elinewidth=1.0, zorder=3)  # fmt: skip
        ax.scatter(part["bound"], y, marker="|", s=34, color=base.INK, zorder=2)  # type: ignore[attr-defined]
        handles[f"{mode}, {backend}"] = drawn
    ax.set_xlabel("relative gradient error")  # type: ignore[attr-defined]
    base.log_axes(ax, "x")  # type: ignore[arg-type]
    ax.set_ylim(-0.6, len(solvers) - 0.4)  # type: ignore[attr-defined]
    return handles
