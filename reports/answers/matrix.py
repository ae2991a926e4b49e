"""Say of the suite `full` how many problems each solver certified, at each accuracy, and how often its word held."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.answers.tables import honesty

LEVELS = (1e-3, 1e-6, 1e-10)


def matrix_table(frame: pd.DataFrame) -> str:
    """Return a Markdown table with one line per solver, those that certify most problems first.

    Args:
        frame: the rows of comparisons, as `reports.data.load.load` gives them.

    Returns:
        The table. A problem counts once per seed and framework in which a solver was tried in float64, in any gradient
        mode, and is certified at a level where one of these rows has a relative gap of at most that level.

    Example:
        >>> print(matrix_table(load([path]).compared))
    """
    kept = frame[(frame["dtype"] == "float64") & (frame["status"] != "unsupported")]
    problem = kept["problem"].astype(str) + " " + kept["seed"].astype(str) + " " + kept["backend"].astype(str)
    told = honesty(kept.assign(backend="any"))
    words = {line[0].text: line[3].text for line in told.cells} if told is not None else {}
    lines = []
    for solver, part in kept.groupby("solver"):
        best = part["gap_rel"].fillna(np.inf).groupby(problem[part.index]).min()
        shares = [float((best <= level).mean()) for level in LEVELS]
        lines.append((shares, str(solver), len(best), words.get(str(solver), "-")))
    lines.sort(key=lambda line: (-line[2] * line[0][1], line[1]))
    head = "| solver | problems tried | " + " | ".join(f"certified to {_short(x)}" for x in LEVELS)
    rows = [head + ' | "converged" is true |', "|---|---:|" + "---:|" * (len(LEVELS) + 1)]
    for shares, solver, tried, word in lines:
        share = " | ".join(f"{100 * x:.0f}%" for x in shares)
        rows.append(f"| {solver} | {tried} | {share} | {word} |")
    return "\n".join(rows)


def counts(frame: pd.DataFrame) -> str:
    """Return a sentence with the number of rows, of problems, of solvers, and of rows by the way they ended.

    Args:
        frame: the rows of comparisons.

    Example:
        >>> counts(load([path]).compared)
        '2,040 rows of 41 families, 120 problems and 26 solvers: 1,985 ok, 40 not converged, 15 timeout.'
    """
    ended = ", ".join(f"{number:,} {status}" for status, number in frame["status"].value_counts().items())
    return (
        f"{len(frame):,} rows of {frame['family'].nunique()} families, {frame['problem'].nunique()} problems and "
        f"{frame['solver'].nunique()} solvers: {ended}."
    )


def _short(level: float) -> str:
    return f"{level:.0e}".replace("e-0", "e-")
