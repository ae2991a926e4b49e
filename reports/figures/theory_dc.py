"""Draw the convex-concave procedure against Adam: the objective as evaluations are spent."""

from __future__ import annotations

import json

import pandas as pd

from reports.figures import base
from reports.figures.palette import COLOURS


def curves(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the objective of every stored training after every recorded number of evaluations."""
    lines = []
    for row in frame[frame["kind"] == "dc"].itertuples():
        extra, params = json.loads(row.extra), json.loads(row.solver_params)
        plain = str(row.solver).partition("(")[0]  # a reader may have put the parameters into the name
        way = f"{plain}, " + ", ".join(f"{name} {value:g}" for name, value in params.items())
        curve = extra["curve"]
        for at, seconds, value in zip(
            curve["evaluations"], curve["seconds"], curve["objective"], strict=True
        ):
            lines.append((row.problem, row.energy, way, int(row.seed), at, seconds, value, row.score))
    columns = ["dataset", "energy", "way", "seed", "evaluations", "seconds", "objective", "test_accuracy"]
    return pd.DataFrame(lines, columns=columns)


def summary(data: pd.DataFrame) -> pd.DataFrame:
    """Return where every way of training ended, mean over seeds."""
    ended = (
        data.sort_values("evaluations", kind="stable").groupby(["dataset", "energy", "way", "seed"]).tail(1)
    )
    grouped = ended.groupby(["dataset", "energy", "way"])
    return grouped.agg(
        objective=("objective", "mean"), test_accuracy=("test_accuracy", "mean"), seeds=("seed", "size")
    ).reset_index()


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """Draw one panel per network with the mean objective over seeds, one line per way of training."""
    import seaborn as sns
    from matplotlib.lines import Line2D

    data = curves(frame)
    if data.empty:
        return None
    ways = list(dict.fromkeys(data["way"]))
    colours = {way: COLOURS[i % len(COLOURS)] for i, way in enumerate(ways)}
    dashes = {way: "" if way.startswith("ConvexConcave") else (4, 1 + i % 3) for i, way in enumerate(ways)}
    panels = list(dict.fromkeys(zip(data["dataset"], data["energy"], strict=True)))
    figure, axes = base.panels(len(panels), each=3.2)
    for ax, (dataset, energy) in zip(axes, panels, strict=True):
        part = data[(data["dataset"] == dataset) & (data["energy"] == energy)]
        # the band is the range over seeds, the line their mean
        sns.lineplot(
            part, x="evaluations", y="objective", hue="way", style="way", palette=colours, dashes=dashes,
            errorbar=("pi", 100), legend=False, ax=ax,
        )  # fmt: skip
        ax.set(title=f"{energy} on {dataset}", xlabel="gradient evaluations", ylabel="")
        if part["objective"].min() > 0 and part["objective"].max() > 30 * part["objective"].min():
            base.log_axes(ax, "y")
    axes[0].set_ylabel("training objective")
    handles = {
        way: Line2D([], [], color=colours[way], ls=(0, dashes[way]) if dashes[way] else "-", lw=1.8)
        for way in ways
    }
    base.legend_below(figure, handles, 3)
    ends = summary(data)
    best = ends.loc[ends.groupby(["dataset", "energy"])["objective"].idxmin()]
    words = "; ".join(
        f"{r.energy}: {r.way} ({r.objective:.4f}, {r.test_accuracy:.2f}% test)" for r in best.itertuples()
    )
    caption = (
        "Same first draw, all examples at every evaluation, mean and range over seeds. The procedure has no rate "
        f"to choose and never rises; Adam is shown at every rate tried. Lowest objective at the end: {words}."
    )
    alt = f"Objective against evaluations for {len(panels)} networks and {len(ways)} ways of training. Lowest: {words}."
    return base.Drawn(
        "convex-concave", "The convex-concave procedure against Adam", caption, alt, figure, data, wide=True
    )
