"""Show whether the gradient modes agree: errors by mode, solver and backend against a reference.

The gradient of the loss is shown with theory's bound, and the derivative of p* with the uncertainty of its reference.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.modes import in_order, look

FLOOR = 1e-17


class Derivative(NamedTuple):
    """Describe a derivative that is shown: its columns, and the mark beside each interval."""

    name: str
    title: str
    error: str
    uncertainty: str
    mark: str
    says: str


LOSS = Derivative(
    "gradient-agreement",
    "Agreement of the gradient modes",
    "grad_error",
    "grad_uncertainty",
    "grad_bound",
    "theory's bound from the certificate",
)
ARGMAX = Derivative(
    "argmax-agreement",
    "Agreement of the derivatives of p*",
    "argmax_grad_error",
    "argmax_grad_uncertainty",
    "argmax_grad_uncertainty",
    "the uncertainty of the reference itself",
)


def errors(frame: pd.DataFrame, of: Derivative = LOSS) -> pd.DataFrame:
    """Return median, range and mark of the relative error at each mode's tightest tolerance."""
    rows = frame[(frame["gradient"] != "none") & np.isfinite(frame[of.error]) & (frame["status"] == "ok")]
    rows = rows[rows["dtype"] == rows["dtype"].max()] if len(rows) else rows
    keys = ["solver", "gradient", "backend"]
    tight = rows[rows["tol"].fillna(0) == rows.groupby([*keys, "instance"])["tol"].transform("min").fillna(0)]
    grouped = tight.sort_values(of.error, kind="stable").groupby(keys)
    data = grouped.agg(
        median=(of.error, "median"), low=(of.error, "min"), high=(of.error, "max"),
        bound=(of.mark, "median"), rows=("id", "size"), id=("id", "last"),
    )  # fmt: skip
    broken = tight[tight[of.error] > tight[of.mark] * (1 + 1e-6) + 1e-12]
    data["beyond_bound"] = broken.groupby(keys).size()
    return data.fillna({"beyond_bound": 0}).reset_index()


def draw(frame: pd.DataFrame, of: Derivative = LOSS) -> base.Drawn | None:
    """Draw a heat map beside intervals; return None where no error was measured."""
    from matplotlib.figure import Figure

    data = errors(frame, of)
    if data.empty:
        return None
    solvers = sorted(data["solver"].unique(), reverse=True)
    columns = [(m, b) for m in in_order(data["gradient"]) for b in sorted(data["backend"].unique())]
    columns = [c for c in columns if ((data["gradient"] == c[0]) & (data["backend"] == c[1])).any()]
    figure = Figure(figsize=(10.5, 0.46 * len(solvers) + 2.3))
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1.0])
    _heat(left, data, solvers, columns)
    handles = _intervals(right, data, solvers)
    base.legend_below(figure, handles)
    beyond = int(data["beyond_bound"].sum())
    caption = (
        f"Relative error at the tightest tolerance measured, {_reference(frame, of)}: the numbers on the left are "
        "powers of ten (median over problems; darker is closer). On the right the median, its range over problems, "
        f"and {of.says} (|)."
    )
    if of is LOSS:
        rows = f"{beyond or 'No'} row lies" if beyond == 1 else f"{beyond or 'No'} rows lie"
        caption += f" {rows} beyond the bound."
    worst, close = data.loc[data["median"].idxmax()], data.loc[data["median"].idxmin()]
    alt = (
        f"{of.title}: errors of {len(columns)} mode and backend pairs for {len(solvers)} solvers, from "
        f"{close['median']:.0e} ({close['solver']}, {close['gradient']}, {close['backend']}) to "
        f"{worst['median']:.0e} ({worst['solver']}, {worst['gradient']}, {worst['backend']})."
    )
    return base.Drawn(of.name, of.title, caption, alt, figure, data, wide=True)


def _reference(frame: pd.DataFrame, of: Derivative) -> str:
    """Return what the gradients are compared with, and its own uncertainty."""
    checked = frame[frame[of.error].notna()]
    named = checked["grad_reference"].dropna().mode()
    unsure, gap = checked[of.uncertainty].median(), checked["grad_reference_gap"].median()
    words = f"against {named.iloc[0]}" if len(named) else "against a float64 reference gradient"
    if gap == gap:
        words += f" at solutions certified to {gap:.0e} (median)"
    return words + (f", itself sure to {unsure:.0e} (median)" if unsure == unsure else "")


def _heat(ax: Any, data: pd.DataFrame, solvers: list[str], columns: list[tuple[str, str]]) -> None:
    """Draw powers of ten by solver and by mode and backend, with nothing where nothing was measured."""
    import seaborn as sns

    level = data.assign(level=np.log10(data["median"].clip(lower=FLOOR)))
    table = level.pivot_table(index="solver", columns=["gradient", "backend"], values="level")
    table = table.reindex(index=solvers[::-1], columns=pd.MultiIndex.from_tuples(columns))
    # Light where the error is large: the numbers keep their contrast on a light and a dark page alike.
    sns.heatmap(
        table, ax=ax, vmin=-16, vmax=0, cmap="cividis", annot=True, fmt=".0f", linewidths=1.5,
        linecolor=base.PAPER, annot_kws={"fontsize": 10}, cbar_kws={"pad": 0.02, "format": "1e%d"},
    )  # fmt: skip
    ax.set(xlabel="", ylabel="")
    ax.grid(visible=False)
    names = [re.sub(r"\(|, ", "\n", mode).rstrip(")") + f"\n{backend}" for mode, backend in columns]
    ax.set_xticks(np.arange(len(columns)) + 0.5, names, rotation=0, fontsize=9)
    ax.set_yticks(np.arange(len(solvers)) + 0.5, solvers[::-1], rotation=0)


def _intervals(ax: Any, data: pd.DataFrame, solvers: list[str]) -> dict[str, object]:
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
        drawn = ax.errorbar(x, y, xerr=np.maximum(reach, 0), fmt=marker, color=colour, markersize=4.5,
                            markerfacecolor=filled, elinewidth=1.0, zorder=3)  # fmt: skip
        ax.scatter(part["bound"], y, marker="|", s=34, color=base.INK, zorder=2)
        handles[f"{mode}, {backend}"] = drawn
    ax.set_xlabel("relative error")
    base.log_axes(ax, "x")
    ax.set_ylim(-0.5, len(solvers) - 0.5)
    ax.set_yticks(range(len(solvers)), [""] * len(solvers))  # the rows of the heat map beside it
    return handles
