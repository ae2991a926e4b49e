"""Draw training curves: held-out score against training time, one colour per solver and one dash per gradient mode."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.data.labels import parsed
from reports.figures import base
from reports.figures.modes import in_order
from reports.figures.palette import Palette

COLUMNS = ["problem", "energy", "solver", "gradient", "unit", "at", "score", "target", "id"]
DASHES: dict[str, Any] = {
    "envelope": "",
    "implicit": (4, 1.5),
    "unrolled": (1, 1.2),
    "none": (6, 1.5, 1, 1.5),
}


def training(frame: pd.DataFrame) -> pd.DataFrame:
    """Return curves of trainings: `extra` may hold {"curve": {"seconds" or "epoch": [...], "score": [...]}}."""
    lines = []
    for row in frame[frame["kind"].isin(["multilabel", "training"])].itertuples():
        extra = parsed(row.extra)
        curve = extra.get("curve")
        if not isinstance(curve, dict) or not isinstance(curve.get("score"), list):
            continue
        at = curve.get("seconds") or curve.get("epoch") or list(range(1, len(curve["score"]) + 1))
        unit = "seconds" if curve.get("seconds") else "epoch"
        about = (row.problem, row.energy, row.solver, row.gradient, unit)
        told = zip(at, curve["score"], strict=False)
        lines += [
            (*about, x, y, extra.get("target"), row.id) for x, y in told if x is not None and y is not None
        ]
    return pd.DataFrame(lines, columns=COLUMNS).astype({"at": float, "score": float, "target": float})


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """Draw one panel per dataset and one line per stored training; return None where no training stored its curve."""
    import seaborn as sns

    data = training(frame)
    if data.empty:
        return None
    problems = list(dict.fromkeys(data["problem"]))[: base.PANEL_LIMIT]
    palette = Palette(data["solver"])
    modes = in_order(data["gradient"])
    dashes = {mode: DASHES.get(mode.partition("(")[0], (3, 1, 1, 1)) for mode in modes}
    percent = bool(data["score"].max() > 1.5)
    figure, axes = base.panels(len(problems), each=3.4)
    for ax, problem in zip(axes, problems, strict=True):
        part = data[data["problem"] == problem]
        spread = part["at"].max() / part.groupby("id")["at"].max().min()
        shown = part[part["at"] > 0] if spread > 8 else part
        sns.lineplot(
            shown, x="at", y="score", hue="solver", style="gradient", units="id", estimator=None, sort=False,
            palette={name: palette.colour(name) for name in data["solver"].unique()}, dashes=dashes,
            style_order=modes, legend=False, ax=ax,
        )  # fmt: skip
        for _, run in shown.groupby("id"):
            name = str(run["solver"].iloc[0])
            (end,) = ax.plot(run["at"].iloc[-1:], run["score"].iloc[-1:], color=palette.colour(name),
                             marker=palette.marker(name), ls="")  # fmt: skip
            end.set_url(base.link(str(run["id"].iloc[0])))
        for target in part["target"].dropna().unique():
            ax.axhline(target, color=base.MUTED, lw=1.0, ls=":")
        ax.set(title=problem, xlabel=str(part["unit"].iloc[0]), ylabel="")
        if spread > 8:
            base.log_axes(ax, "x")
    axes[0].set_ylabel("held-out accuracy (%)" if percent else "held-out score")
    base.legend_below(figure, _handles(palette, data["solver"].unique(), modes, dashes), 5)
    top = data.loc[data["score"].idxmax()]
    dotted = (
        " The dotted line is the score that the times in the tables are taken to."
        if data["target"].notna().any()
        else ""
    )
    caption = f"Held-out score along training, one line per stored run, its marker at the end.{dotted}"
    alt = (
        f"Training curves of {data['id'].nunique()} runs on {len(problems)} datasets; the highest score is "
        f"{top['score']:.4g}, by {top['solver']} with {top['gradient']} on {top['problem']}."
    )
    return base.Drawn("training", "Training curves", caption, alt, figure, data, wide=True)


def _handles(palette: Palette, solvers: Any, modes: list[str], dashes: dict[str, Any]) -> dict[str, Any]:
    from matplotlib.lines import Line2D

    out: dict[str, Any] = base.solver_handles(palette, solvers)
    for mode in modes:
        out[mode] = Line2D([], [], color=base.MUTED, ls=(0, dashes[mode]) if dashes[mode] else "-")
    return out
