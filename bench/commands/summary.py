"""Print the end of a run: for each problem and framework the fastest certified choice, and where the report is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bench.commands.terminal import show

if TYPE_CHECKING:
    import pandas as pd

GOOD = 1e-6  # relative certified gap; the summary compares the times that reach it
COLUMNS = ("for", "problem", "with", "device", "dtype", "use", "mode", "time", "next", "gap", "error")


def print_summary(store: Path, wide: bool = False) -> None:
    """Print one table per need that was measured, with the choice for that need and its figures."""
    from bench.store import RecordsError
    from reports.answers.choices import NEEDS
    from reports.data.load import load

    try:
        frame = load([store]).compared
    except RecordsError:
        frame = None
    if frame is None or frame.empty:
        typer.echo("No rows yet.")
        return
    for need, words in NEEDS.items():
        lines = list(fastest(frame, need))
        if lines:
            title = f"Fastest for {words}, certified to {GOOD:g}"
            show(COLUMNS, lines, title, wide, drop_constant=True)
    counts = frame["status"].value_counts().to_dict()
    typer.echo(", ".join(f"{number} {status}" for status, number in counts.items()), err=True)


def fastest(frame: pd.DataFrame, need: str, good: float = GOOD) -> Iterator[Sequence[str]]:
    """Return for every problem and place the choice that answers the need fastest, the next solver, and its figures."""
    from reports.answers.choices import ERRORS, asked, best_rows, grid
    from reports.answers.standings import standings, tied
    from reports.data.numbers import seconds, small

    best = best_rows(asked(frame, need), good, need)
    for (_, problem, backend, device, dtype), part in best.groupby(
        ["group", "instance", "backend", "device", "dtype"], sort=True
    ):
        order = standings(grid(part))
        if not order:
            continue
        row = part[part["id"] == order[0].rows[0]].iloc[0]
        # Another gradient mode of the same solver is no other solver.
        second = next((s for s in order if s.choice.solver != order[0].choice.solver), None)
        after = "-"
        if second is not None:
            sure = "tie" if second in tied(order) else f"{second.time / order[0].time:.3g}x"
            after = f"{second.choice.solver} {sure}"
        mode = "-" if order[0].choice.gradient == "none" else order[0].choice.gradient
        error = small(float(row[ERRORS[need]])) if need in ERRORS else "-"
        yield (
            need, str(problem), str(backend), str(device), str(dtype), order[0].choice.solver, mode,
            seconds(order[0].time), after, small(float(row["gap_rel"])), error,
        )  # fmt: skip


def write_report(store: Path, out: Path) -> None:
    """Build the report; if that fails the rows are kept, and the sentence says how to try again."""
    try:
        from reports.pages.render import build_report

        page = build_report([store], out, ["html"])
    except Exception as error:
        typer.echo(
            f"The report could not be written ({type(error).__name__}: {error}); the rows are safe. "
            f"Try again with: gfy report --results {store} --out {out}",
            err=True,
        )
        return
    typer.echo(f"Report: {page}")
