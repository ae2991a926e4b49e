"""Write the history as one page: time, certified gap and gradient error per commit, with the changes marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from bench.store import RecordsError
from bench.store import load as load_stores
from bench.store.history import series
from reports.answers.history import DOUBT, LEAST, Change, changes
from reports.answers.tables import Cell, Table
from reports.data.load import tidy
from reports.data.numbers import seconds, small
from reports.data.sources import writing
from reports.figures import base
from reports.figures.history import TITLES, draw
from reports.pages.content import Part, Picture, Report
from reports.pages.render import write_formats
from reports.pages.settings import limitations, places

NAMES = {"html": "history.html", "md": "history.md", "latex": "history.tex"}
DRAWN = 12  # histories that get a figure: those that changed last, then the longest


def build_history(
    results: Sequence[Path], out: Path, formats: Sequence[str] = ("html",), otava: Path | None = None
) -> Path:
    """Write the page of the histories in some stores into a folder.

    Args:
        results: Result files whose rows were measured at several commits.
        out: The folder.
        formats: html, md, latex.
        otava: The verdict.json of `gfy export otava --run`, to show beside our own changes.

    Returns:
        The file of the first format.

    Raises:
        RecordsError: There is no history in the rows, or the folder cannot be written.
    """
    wrong = [name for name in formats if name not in NAMES]
    if wrong or not formats:
        raise RecordsError(
            f"format is {', '.join(wrong) or 'empty'}; a history is written as {', '.join(NAMES)}."
        )
    frame = load_stores(results)
    found = {cell: part for cell, part in series(frame).items() if len(part) > 1}
    if not found:
        raise RecordsError(
            "No cell of these rows was measured at two commits or more: there is no history yet."
        )
    with writing(out):
        report = _report(frame, found, changes(frame), out, _verdict(otava))
        report.rows.sources.extend(Path(result) for result in results)
        return write_formats(report, out, formats, NAMES)


def _report(
    frame: pd.DataFrame, found: dict[str, Any], moved: list[Change], out: Path, verdict: Table | None
) -> Report:
    rows = tidy(frame)
    last = {change.cell: change.created for change in reversed(moved)}
    order = sorted(found, key=lambda cell: (last.get(cell, ""), len(found[cell])), reverse=True)
    pictures = []
    for number, cell in enumerate(order[:DRAWN]):
        drawn = draw(cell, found[cell], [c for c in moved if c.cell == cell], number + 1)
        if drawn is not None:
            pictures.append(Picture(drawn, base.save(drawn, out / "figures")))
    ids = dict(zip(rows.frame["key"], rows.frame["id"], strict=True))
    tables = [_table(moved, ids), *([verdict] if verdict is not None else [])]
    made = Report(
        rows=rows, tol=1e-6, made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), verdicts=[], rankings={},
        failures=None, honesty=None, experiment_tables=tables, parts=[Part("Histories", pictures)],
        places=places(rows.frame),
        rules=_rules(), limitations=limitations(rows),
    )  # fmt: skip
    worse = sum(change.worse for change in moved)
    commits = len({commit for part in found.values() for commit in part.git_commit})
    made.said = (
        f"{len(found):,} cells over {commits} commits: {len(moved)} changes, {worse} of them for the worse. "
        f"{min(len(order), DRAWN)} histories are drawn."
    )
    made.title = "What changed, and when"
    return made


def _table(moved: list[Change], ids: dict[str, str]) -> Table:
    def line(change: Change) -> list[Cell]:
        told = seconds if change.metric.endswith("_s") else small
        behind = (ids[change.row],) if change.row in ids else ()
        verdict = "worse" if change.worse else "better"
        texts = (change.created[:10], change.commit[:10], change.cell, TITLES[change.metric], told(change.before),
                 told(change.after), f"{change.factor:.3g}", verdict)  # fmt: skip
        return [Cell(text, rows=behind if number == 1 else ()) for number, text in enumerate(texts)]

    columns = ["day", "commit", "cell", "metric", "before", "after", "factor", "verdict"]
    numeric = [False] * 4 + [True] * 3 + [False]
    note = "Each level is the median of its commits."
    return Table("changes", "Changes, the newest first", columns, [line(c) for c in moved], note, numeric)


def _verdict(path: Path | None) -> Table | None:
    """Return what Otava found, as a table."""
    if path is None:
        return None
    try:
        told = json.loads(path.read_text("utf-8"))
        lines = [
            [
                str(name),
                str(point["time"]),
                str(change["metric"]),
                f"{float(change['forward_change_percent']):+.1f} %",
            ]
            for name, points in told.items()
            for point in points
            for change in point["changes"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordsError(
            f"{path} is no verdict of Otava ({error}): `gfy export otava --run` makes one."
        ) from error
    cells = [[Cell(text) for text in line] for line in lines]
    return Table("otava", "What Apache Otava finds", ["series", "time", "metric", "change"], cells)


def _rules() -> list[str]:
    least = ", ".join(f"{TITLES[metric]} {factor:g}" for metric, factor in LEAST.items())
    return [
        "A history is one cell (problem, solver, gradient mode, framework, dtype, tolerance) on one machine, one point "
        "per clean commit; machines are never mixed.",
        f"A change is a split whose two sides differ by Student's test of their logarithms at {DOUBT:g}, corrected for "
        f"the places that were tried, and by a factor of at least: {least}.",
        "Times that were taken under load are left out.",
    ]
