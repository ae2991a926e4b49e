"""What is printed at the end of a run: the fastest certified choice on every problem, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import pandas as pd

GOOD = 1e-6  # relative certified gap at which times are compared in the summary


def fastest(frame: pd.DataFrame, good: float = GOOD) -> pd.DataFrame:
    """For every problem and place the row with the shortest steady time among those certified well enough."""
    timed = frame[(frame.status == "ok") & (frame.gap_rel <= good) & frame.steady_s.notna()]
    if timed.empty:
        return timed
    where = ["machine", "problem", "backend", "device", "dtype"]
    return timed.loc[timed.groupby(where, dropna=False).steady_s.idxmin()].sort_values(where)


def print_summary(store: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from bench.store import load
    from bench.store.media import terminal
    from reports.data.numbers import seconds

    frame = load(store)
    frame = frame[frame.kind == "compare"]
    console = Console()
    counts = frame.status.value_counts().to_dict()
    best = fastest(frame)
    if len(best):
        title = f"Fastest at a certified relative gap of {GOOD:g} or less"
        table = Table(
            "problem", "backend", "dtype", "solver", "solve", "loss and gradient", "gap", title=title
        )
        for row in best.itertuples():
            backward = (
                "-" if row.backward_s != row.backward_s else f"{seconds(row.backward_s)} ({row.gradient})"
            )
            cells = (row.problem, row.backend, row.dtype, row.solver, seconds(row.steady_s), backward)
            table.add_row(*map(terminal, cells), f"{row.gap_rel:.0e}")
        console.print(table)
    said = ", ".join(f"{number} {status}" for status, number in counts.items()) or "No rows yet."
    console.print(terminal(said))


def write_report(store: Path, out: Path) -> None:
    """Build the report; if that fails the rows are still there, and the sentence says how to try again."""
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
