"""Make the tables of the experiments beyond the paper: amortised inner solves, joint learning, rankings."""

from __future__ import annotations

import json

import pandas as pd

from reports.answers.ranking import ranking
from reports.answers.roots import roots
from reports.answers.tables import Cell, Table, busy

LOSSES = {
    "likelihood": "exact likelihood",
    "minmin": "joint (min-min)",
    "persistent": "persistent chains",
    "contrastive": "contrastive divergence",
    "gfy": "Fenchel-Young",
    "cross_entropy": "cross-entropy of p*",
    "perceptron": "perceptron",
}
WAYS = ("cold", "warm", "amortised", "proposed", "perfect")


def tables(frame: pd.DataFrame) -> list[Table]:
    """Return the tables that the rows at hand allow; every cell names the rows behind it."""
    found = (amortised(frame), minmin(frame), ranking(frame), roots(frame))
    return [table for table in found if table is not None]


def text(frame: pd.DataFrame, kind: str) -> str:
    """Return the table of one kind in Markdown, with the sentence that reads it; a sentence where there are no rows."""
    found = [table for table in tables(frame) if table.name == kind]
    if not found:
        return f"There are no rows of kind {kind!r} yet."
    head = "| " + " | ".join(found[0].columns) + " |"
    rule = "|" + "|".join("---:" if number else "---" for number in found[0].numeric) + "|"
    lines = [
        "| " + " | ".join(f"**{c.text}**" if c.best else c.text for c in line) + " |"
        for line in found[0].cells
    ]
    return "\n".join([head, rule, *lines, "", found[0].note])


def amortised(frame: pd.DataFrame) -> Table | None:
    """Return microseconds per example of each way, where all answers are certified; the fastest is marked."""
    rows = frame[frame["kind"] == "amortised"]
    if rows.empty:
        return None
    # a reader may have put the parameters into the name
    rows = rows.assign(method=[str(name).partition("(")[0] for name in rows["solver"]])
    keys = ["problem", "rank", "regularizer", "method", "backend"]
    lines, wins, slower, most = [], dict.fromkeys(WAYS, 0), [], []
    for (problem, rank, regularizer, method, backend), part in rows.groupby(keys, sort=False):
        by_way = {json.loads(row["solver_params"])["start"]: row for _, row in part.iterrows()}
        sure = {way: row for way, row in by_way.items() if row["status"] == "ok"}
        ways = [way for way in sure if way != "perfect"]  # which nobody has
        best = min(ways, key=lambda way: sure[way]["score"]) if ways else None
        if best is not None:
            wins[best] += 1
        if {"cold", "perfect"} <= sure.keys():
            most.append(sure["cold"]["score"] - sure["perfect"]["score"])
        cells = [Cell(str(problem)), Cell(str(int(rank))), Cell(str(regularizer)), Cell(str(method)),
                 Cell(str(backend))]  # fmt: skip
        for way in WAYS:
            row = by_way.get(way)
            if row is None:
                cells.append(Cell("-"))
                continue
            said = f"{row['score']:.2f}" if way in sure else f"not certified ({row['gap_rel']:.0e})"
            cells.append(
                Cell(
                    f"{said}, {row['steps']:.1f} steps",
                    way == best,
                    rows=(str(row.get("id", row["key"])),),
                    value=row["score"],
                )
            )
        learned = by_way.get("amortised")
        if {"cold", "amortised"} <= sure.keys():
            slower.append(sure["amortised"]["score"] / sure["cold"]["score"])
        extra = {} if learned is None else json.loads(learned["extra"])
        cells.append(Cell(f"{100 * extra['accepted']:.1f} %" if extra else "-"))
        cells.append(Cell(f"{extra['fit_us']:.2f}" if extra else "-"))
        lines.append(cells)
    told = ", ".join(f"{way} on {number}" for way, number in wins.items() if number)
    note = (
        "Microseconds per example and mean steps for every inner problem of a training run, in its order, in batches "
        "of 32 on a processor. Every answer of a way that is not marked otherwise is certified to a relative gap of "
        "1e-8, outside the clock. warm starts at the example's solution of an epoch ago. amortised takes at most 3 (30 "
        "for ProjectedGradient) steps from a learned proposal and asks the full solver where the certificate does not "
        "accept; accepted is the share of examples that needed no fallback. proposed starts the full solver there. fit "
        f"are the microseconds per example of fitting the proposals, which come on top. Fastest: {told}."
    )
    if slower:
        note += f" amortised takes {min(slower):.2f} to {max(slower):.2f} times as long as cold, without the fits."
    if most:
        note += (
            " perfect starts at the solution itself: cold less perfect, the most that a proposal may cost before it "
            f"loses, is {min(most):.2f} to {max(most):.2f} microseconds per example."
        )
    note += busy(rows)
    columns = ["training", "rank", "regularizer", "solver", "framework", *WAYS, "accepted", "fit"]
    return Table("amortised", "Amortised inner solves along a training run", columns, lines, note,
                 [False, True, False, False, False, *[True] * (len(WAYS) + 2)])  # fmt: skip


def _solved_less_joint(means: dict[tuple[str, str], pd.Series]) -> str:
    """Return what solving gains over the joint loss, in points of accuracy, per dataset and energy."""
    told = [
        f"{dataset} {energy} {found['gfy'] - found['minmin']:+.2f}"
        for (dataset, energy), found in means.items()
        if {"gfy", "minmin"} <= set(found.index)
    ]
    return f" Fenchel-Young less joint, in points: {', '.join(told)}." if told else ""


def minmin(frame: pd.DataFrame) -> Table | None:
    """Return accuracy, likelihood and training time of every way; the best accuracy without listing outputs
    is marked."""
    rows = frame[frame["kind"] == "minmin"]
    if rows.empty:
        return None
    lines, each = [], {}
    for (dataset, energy), part in rows.groupby(["problem", "energy"], sort=False):
        means = part.groupby("loss")["score"].mean()
        each[str(dataset), str(energy)] = means
        best = means.drop("likelihood", errors="ignore").idxmax()
        for loss, said in LOSSES.items():
            group = part[part["loss"] == loss]
            if group.empty:
                continue
            extra = [json.loads(text) for text in group["extra"]]
            ids = tuple(str(key) for key in group.get("id", group["key"]))

            def mean(name: str, extra: list[dict[str, float]] = extra) -> float:
                found = [
                    float(one[name]) for one in extra if name in one
                ]  # a training that diverged says "inf"
                return sum(found) / len(found) if found else float("nan")

            spread = float(group["score"].std()) if len(group) > 1 else 0.0
            off = mean("tau_error")
            lines.append([
                Cell(str(dataset)), Cell(str(energy)), Cell(said),
                Cell(f"{group['score'].mean():.2f} ± {spread:.2f}", loss == best, rows=ids, value=float(means[loss])),
                Cell(f"{mean('marginal_accuracy'):.2f}"), Cell(f"{mean('nll'):.3f}"),
                Cell(f"{off:.3f}" if off == off else "-"), Cell(f"{group['steady_s'].mean():.2f}"),
            ])  # fmt: skip
    seeds = int(rows.groupby(["problem", "energy", "loss"]).size().min())
    note = (
        f"Test label accuracy in per cent by p* (mean and standard deviation over {seeds} first draws), accuracy by "
        "exact marginals, -log p of the test outputs (exact, by listing all of {0, 1}^k), the mean distance of the "
        "learned tau from the exact log Z, and processor seconds per training, compilation apart. Rate and penalty "
        "were chosen on held-out examples. The exact likelihood is there where 2^k outputs can be listed; bold "
        "is the best accuracy of the others. For a loss that is not probabilistic, -log p is that of the model whose "
        "energy it learned."
    )
    note += _solved_less_joint(each)
    columns = [
        "dataset",
        "energy",
        "trained by",
        "accuracy",
        "by marginals",
        "-log p",
        "tau off by",
        "seconds",
    ]
    return Table("minmin", "Learning with and without solving", columns, lines, note,
                 [False, False, False, True, True, True, True, True])  # fmt: skip
