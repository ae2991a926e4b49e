"""Draw the answers in one picture: for each problem the fastest certified choice, frameworks beside each other."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from reports.answers.choices import NEEDS
from reports.answers.evidence import Evidence
from reports.answers.question import Question, answer
from reports.data.numbers import seconds
from reports.data.words import BACKENDS
from reports.figures import base
from reports.figures.palette import Palette

POINTS = 0.42  # of a panel's width that the points may take
LINES = 14  # problems that a newcomer reads; those with most rivals come first


def draw(evidence: Evidence, question: Question, palette: Palette) -> base.Drawn | None:
    """Draw one panel per framework and one line per problem: the name of the choice, its time and its lead."""
    places = sorted(
        p for p in evidence.counts if p._replace(backend="") == question.place._replace(backend="")
    )
    found = {p.backend: answer(evidence, replace(question, place=p)) for p in places}
    rows = [
        (
            line.name,
            backend,
            line.best.solver,
            line.best.time,
            line.best.high,
            line.margin,
            line.sure,
            len(line.order),
        )
        for backend, lines in found.items()
        for line in lines
        if line.best is not None
    ]
    if not rows:
        return None
    data = pd.DataFrame(
        rows, columns=["problem", "framework", "solver", "time", "high", "lead", "sure", "certified"]
    )
    rivals = (
        data.groupby("problem", sort=False)["certified"].sum().sort_values(ascending=False, kind="stable")
    )
    names = list(rivals.index[:LINES])
    shown = data[data["problem"].isin(names)]
    backends = list(dict.fromkeys(shown["framework"]))
    figure, axes = base.panels(
        len(backends), across=len(backends), width=13.0, each=0.42 * len(names) + 0.5, sharey=True
    )
    low, high = shown["time"].min(), shown["time"].max()
    for ax, backend in zip(axes, backends, strict=True):
        for line in shown[shown["framework"] == backend].itertuples():
            at = names.index(line.problem)
            ax.plot(
                [line.time],
                [at],
                color=palette.colour(line.solver),
                marker=palette.marker(line.solver),
                ls="",
                ms=7,
            )
            lead = (
                ", tie"
                if line.sure == "tie"
                else f", {line.lead:.2g} x ahead"
                if line.lead == line.lead
                else ""
            )
            ax.annotate(f"{line.solver}: {seconds(line.time)}{lead}", (line.time, at), xytext=(7, 0),
                        textcoords="offset points", va="center", fontsize=8.5)  # fmt: skip
        ax.set_title(BACKENDS.get(backend, backend), loc="left")
        ax.set_yticks(range(len(names)), [_folded(n) for n in names])
        ax.set_ylim(len(names) - 0.4, -0.6)
        base.log_axes(ax, "x")
        # The names stand right of the points, so the points keep to the left part of the panel.
        span = max(1.0, math.log10(high / low))
        ax.set_xlim(low / 2, low / 2 * 10 ** ((span + 0.3) / POINTS))
        ax.set_xticks(
            [10.0**e for e in range(math.ceil(math.log10(low / 2)), math.floor(math.log10(high)) + 2)]
        )
        ax.grid(visible=False, axis="y")
        ax.tick_params(axis="y", labelsize=8.5)
        ax.set_xlabel("seconds per call")
    caption = (
        f"The fastest choice for {NEEDS[question.need]} that is certified to {question.accuracy:.0e}, with its lead "
        "over the next. Frameworks are answered apart; their times may be compared along a line."
    )
    told = " and in ".join(BACKENDS.get(b, b) for b in backends)
    alt = f"For each problem the fastest certified choice and its time, in {told}"
    return base.Drawn("answers", "What to use", caption, alt, figure, data, wide=True)


def _folded(name: str) -> str:
    """Return a long name on two lines, broken at the comma nearest to its middle."""
    breaks = [i for i, c in enumerate(name) if c == ","]
    if len(name) < 44 or not breaks:
        return name
    at = min(breaks, key=lambda i: abs(i - len(name) / 2))
    return f"{name[: at + 1]}\n{name[at + 2 :]}"
