"""Sequences and matchings solved with an oracle: how far from listing them all, and a tagger trained three
ways.
"""

from __future__ import annotations

import json

import pandas as pd

from . import base
from .palette import BLUE, COLOURS, MARKERS


def solved(frame: pd.DataFrame) -> pd.DataFrame:
    """A line a stored solve over a polytope."""
    lines = []
    for row in frame[(frame["kind"] == "structured") & (frame["problem"] != "tagging")].itertuples():
        extra = json.loads(row.extra)
        lines.append(
            (row.problem, int(row.k), int(row.seed), row.gap, extra["apart"], extra["structures"], row.steps)
        )
    columns = ["problem", "k", "seed", "gap", "apart", "structures", "steps"]
    data = pd.DataFrame(lines, columns=columns)
    return data.astype({"gap": float, "apart": float, "steps": float})


def tagged(frame: pd.DataFrame) -> pd.DataFrame:
    """A line a stored tagger: its loss, its token accuracy."""
    rows = frame[(frame["kind"] == "structured") & (frame["problem"] == "tagging")]
    return rows[["solver", "seed", "score"]].rename(columns={"solver": "loss", "score": "accuracy"})


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """Left: certified gap and distance to the listed solution against size. Right: token accuracy by loss."""
    from matplotlib.figure import Figure

    data, taggers = solved(frame), tagged(frame)
    if data.empty or taggers.empty:
        return None
    figure = Figure(figsize=(10.5, 4.0))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    handles: dict[str, object] = {}
    for i, (problem, part) in enumerate(data.groupby("problem")):
        worst = part.groupby("k")[["gap", "apart"]].max().clip(lower=1e-16)
        look = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        (handles[f"{problem}: certified gap"],) = left.plot(worst.index, worst["gap"], **look)
        (handles[f"{problem}: |p - listed|"],) = left.plot(
            worst.index, worst["apart"], ls="--", fillstyle="none", **look
        )
    left.set(xlabel="coordinates k")
    base.log_axes(left, "y")
    means = taggers.groupby("loss", sort=False)["accuracy"].agg(["mean", "std"]).fillna(0.0)
    right.barh(list(means.index), means["mean"], xerr=means["std"], color=BLUE, height=0.5)
    right.set(xlabel="token accuracy (%)")
    right.invert_yaxis()
    base.legend_below(figure, handles, 3)
    words = ", ".join(f"{name} {mean:.1f}%" for name, mean in means["mean"].items())
    caption = (
        "Left: Frank-Wolfe with a Viterbi, forward-backward or assignment oracle, worst of all examples and seeds; the "
        "dashed lines compare with listing every structure, where there are few enough. Right: tagging noisy Markov "
        f"sequences, trained with each position alone, with the chain's entropy, and with SparseMAP: {words}."
    )
    alt = (
        f"Gaps of at most {data['gap'].max():.1e} over {data['k'].nunique()} sizes; token accuracy: {words}."
    )
    return base.Drawn(
        "structured", "Structured outputs with an oracle alone", caption, alt, figure, data, wide=True
    )
