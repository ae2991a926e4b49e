"""Draw sequences and matchings solved with an oracle: the distance to listing them all, and a tagger trained
three ways.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, COLOURS, MARKERS


def solved(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one line per stored solve over a polytope."""
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
    """Return one line per stored tagger: its loss, its token accuracy."""
    rows = frame[(frame["kind"] == "structured") & (frame["problem"] == "tagging")]
    return rows[["solver", "seed", "score"]].rename(columns={"solver": "loss", "score": "accuracy"})


def draw(frame: pd.DataFrame) -> base.Drawn | None:
    """Draw certified gap and distance to the listed solution against size (left), and token accuracy by loss
    (right)."""
    from matplotlib.figure import Figure

    data, taggers = solved(frame), tagged(frame)
    parts = [name for name, part in (("solved", data), ("tagged", taggers)) if len(part)]
    if not parts:
        return None
    figure = Figure(figsize=(10.5 if len(parts) == 2 else 7.0, 4.2))
    ratios: dict[str, Any] = {"width_ratios": (3, 2)} if len(parts) == 2 else {}
    axes = dict(zip(parts, figure.subplots(1, len(parts), squeeze=False, **ratios)[0], strict=True))
    captions, alts = [], []
    if len(data):
        captions.append(_gaps(figure, axes["solved"], data))
        alts.append(f"gaps of at most {data['gap'].max():.1e} over {data['k'].nunique()} sizes")
    if len(taggers):
        words = _accuracies(axes["tagged"], taggers)
        captions.append(
            "Tagging noisy Markov sequences, trained with each position alone, with the chain's entropy, and with "
            f"SparseMAP; mean and standard deviation over seeds: {words}."
        )
        alts.append(f"token accuracy: {words}")
    alt = "Structured outputs with an oracle: " + "; ".join(alts) + "."
    shown = data if len(data) else taggers
    title = "Structured outputs with an oracle alone"
    return base.Drawn("structured", title, " ".join(captions), alt, figure, shown, wide=len(parts) == 2)


def _gaps(figure: Any, ax: Any, data: pd.DataFrame) -> str:
    """Draw per problem one line of the worst certified gap, and a dashed one of the distance to the listed solution."""
    handles: dict[str, Any] = {}
    for i, (problem, part) in enumerate(data.groupby("problem")):
        worst = part.groupby("k")[["gap", "apart"]].max().clip(lower=1e-16)
        look: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        (handles[f"{problem}: certified gap"],) = ax.plot(worst.index, worst["gap"], **look)
        listed = worst["apart"].dropna()
        if len(listed):
            (handles[f"{problem}: |p - listed|"],) = ax.plot(
                listed.index, listed, ls="--", fillstyle="none", **look
            )
    ax.set(xlabel="coordinates k", ylabel="worst over examples and seeds")
    base.log_axes(ax, "y")
    base.legend_below(figure, handles, 4)
    return (
        "Frank-Wolfe with a Viterbi, forward-backward or assignment oracle, worst of all examples and seeds; the "
        "dashed lines compare with listing every structure, where there are few enough."
    )


def _accuracies(ax: Any, taggers: pd.DataFrame) -> str:
    """Draw mean and deviation over seeds of each loss, and return them in words."""
    import seaborn as sns

    order = list(dict.fromkeys(taggers["loss"]))
    sns.pointplot(
        taggers, x="accuracy", y="loss", order=order, errorbar="sd", linestyle="none", color=BLUE, capsize=0.12,
        err_kws={"linewidth": 1.4}, ax=ax,
    )  # fmt: skip
    sns.stripplot(
        taggers, x="accuracy", y="loss", order=order, color=base.MUTED, size=3.5, jitter=False, ax=ax
    )
    ax.set(xlabel="token accuracy (%)", ylabel="")
    means = taggers.groupby("loss", sort=False)["accuracy"].mean()
    return ", ".join(f"{name} {mean:.1f}%" for name, mean in means.items())
