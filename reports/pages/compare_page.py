"""Write the page of a comparison: headline, what each run was, the changes, and one picture of all paired times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bench.store import RecordsError
from reports.answers.compare import Comparison, change_table, compare
from reports.data.load import Rows
from reports.data.sources import writing
from reports.figures import base
from reports.figures.palette import Palette
from reports.pages.content import Part, Picture, Report
from reports.pages.settings import limitations, places, rules

TITLES = {"html": "compare.html", "md": "compare.md", "latex": "compare.tex"}


def build_comparison(a: Path, b: Path, out: Path, formats: Sequence[str] = ("html",)) -> Path:
    """Write the comparison of two result files into the folder `out`, and return the first format's file."""
    from reports.pages.render import write_formats

    wrong = [f for f in formats if f not in TITLES]
    if wrong:
        raise RecordsError(f"format is {', '.join(wrong)}; a comparison is written as {', '.join(TITLES)}.")
    result = compare(Path(a), Path(b))
    out = Path(out)
    with writing(out):
        result.pairs.to_csv(out / "pairs.csv", index=False)
        return write_formats(_report(result, out), out, formats, TITLES)


def _report(result: Comparison, out: Path) -> Report:
    marks = [f"{mark} ({name})" for mark, name in zip("AB", result.names, strict=True)]
    frames = [
        r.frame.assign(group=mark + ", " + r.frame["group"])
        for r, mark in zip(result.rows, marks, strict=True)
    ]
    both = pd.concat(frames, ignore_index=True)
    notes = [f"{name}: {note}" for name, r in zip(result.names, result.rows, strict=True) for note in r.notes]
    rows = Rows(both, notes, [p for r in result.rows for p in r.sources])
    drawn = draw(result)
    pictures = [Picture(drawn, base.save(drawn, out / "figures"))] if drawn else []
    made = Report(
        rows=rows, tol=1e-6, made=_now(), verdicts=[], rankings={}, failures=None, honesty=None,
        experiment_tables=[change_table(result)],
        parts=[Part("All paired times", pictures)],
        places=places(both), rules=_rules(), limitations=limitations(rows),
    )  # fmt: skip
    made.said = result.headline
    made.title = "Two runs side by side"
    return made


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _rules() -> list[str]:
    return [
        "Rows are paired where problem, solver, gradient mode, backend, device, dtype and tolerance "
        "are equal.",
        "A time is faster or slower where the two intervals (minimum to median plus half the "
        "interquartile range) do "
        "not overlap and the times differ by 10% at least.",
        "A gap or a gradient error has changed where it moved by a factor of ten and lies above the "
        "tolerance asked.",
        *rules(1e-6)[-1:],
    ]


def draw(result: Comparison) -> base.Drawn | None:
    """Draw the ratio B / A against the time of A, one point per pair; grey where within noise."""
    data = result.pairs
    if data.empty:
        return None
    palette = Palette(data["solver"])
    with base.style():
        figure, ax = base.new(8.5, 4.6)
        changed = data["verdict"] != "same"
        ax.scatter(
            data[~changed]["a"], data[~changed]["ratio"], s=10, color=base.MUTED, alpha=0.4, linewidths=0
        )
        for solver, part in data[changed].groupby("solver"):
            dots = ax.scatter(part["a"], part["ratio"], s=26, color=palette.colour(str(solver)),
                              marker=palette.marker(str(solver)), label=str(solver), zorder=3)  # fmt: skip
            dots.set_urls([base.link(i) for i in part["key_b"]])
        ax.axhline(1.0, color=base.MUTED, lw=1.0)
        ax.set(xlabel="seconds in A", ylabel="time in B / time in A")
        base.log_axes(ax, "x")
        ax.set_yscale("log")
        reach = float(np.nanmax(np.abs(np.log10(data["ratio"].astype(float))))) * 1.1 + 0.05
        ax.set_ylim(10**-reach, 10**reach)
        ticks = [
            t
            for t in (0.01, 0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 100.0)
            if 10**-reach <= t <= 10**reach
        ]
        ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
        ax.minorticks_off()
        if changed.any():
            figure.legend(loc="outside lower center", ncols=4)
    alt = f"Ratios of {len(data)} paired times; {int(changed.sum())} differ beyond noise."
    caption = "Below one: B is faster. Grey: within noise. The ratios are those of the stored times."
    return base.Drawn("changes", "All paired times", caption, alt, figure, data)
