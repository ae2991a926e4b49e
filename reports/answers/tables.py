"""Make tables of choices: success rate, shifted geometric mean time, mean rank with a bootstrap interval.

A `Cell` carries its text, whether it is best (bold) or ties with the best, and the rows that made it, so
that the page can link every number, and Markdown and LaTeX can mark it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from reports.answers.choices import ERRORS, NEEDS, UNCHECKED, WRONG, Grid, asked, best_rows, grid
from reports.answers.standings import ties
from reports.data.numbers import seconds

DRAWS = 1000
GROSS = 0.1  # relative error of a derivative; a reference that is less certain than this is not used


@dataclass(frozen=True)
class Cell:
    """Hold one entry: `rows` are the ids of the measured rows it was computed from."""

    text: str
    best: bool = False
    tie: bool = False
    rows: tuple[str, ...] = ()
    value: float = float("nan")


@dataclass(frozen=True)
class Table:
    """Hold a titled table; `name` is also its file name."""

    name: str
    title: str
    columns: list[str]
    cells: list[list[Cell]]
    note: str = ""
    numeric: list[bool] = field(default_factory=list)
    limit: int | None = None

    @property
    def shown(self) -> list[list[Cell]]:
        """Return the lines that a page prints; the file keeps them all."""
        return self.cells[: self.limit]

    def frame(self) -> pd.DataFrame:
        """Return all lines as text, with the ids of the rows behind each in a last column."""
        lines = [
            [*(c.text for c in line), " ".join(dict.fromkeys(r for c in line for r in c.rows))]
            for line in self.cells
        ]
        return pd.DataFrame(lines, columns=[*self.columns, "rows behind it"])


def ranks(table: Grid) -> np.ndarray:
    """Return the rank of each choice on each problem [choices, problems]: 1 is fastest; failures share the last.

    A choice has no rank (nan) on a problem to which it does not apply.
    """
    times = np.where(table.solved, table.time, np.where(table.applies, np.inf, np.nan))
    return pd.DataFrame(times).rank(axis=0, method="average").to_numpy()


def rank_intervals(
    table: Grid, draws: int = DRAWS, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean rank over the problems and its 95% bootstrap interval (problems drawn again with replacement)."""
    per_problem = ranks(table)
    known = np.isfinite(per_problem)
    filled, number = np.where(known, per_problem, 0.0), per_problem.shape[1]
    mean = filled.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    if number < 2:
        return mean, mean, mean
    picks = np.random.default_rng(seed).integers(0, number, size=(draws, number))
    weights = np.zeros((draws, number))
    np.add.at(weights, (np.arange(draws)[:, None], picks), 1.0 / number)
    drawn = known @ weights.T  # the weight of the problems to which the choice applies, in each draw
    means = np.where(drawn > 0, filled @ weights.T / np.where(drawn > 0, drawn, 1.0), mean[:, None])
    low, high = np.percentile(means, [2.5, 97.5], axis=1)
    return mean, low, high


def ranking(best: pd.DataFrame, name: str, title: str, limit: int = 12) -> Table | None:
    """Return choices by shifted geometric mean; `best` is from `choices.best_rows`. None if nothing is certified."""
    table = grid(best)
    if not table.choices or not table.solved.any():
        return None
    time, high = table.means(table.time), table.means(table.high)
    mean, low_rank, high_rank = rank_intervals(table)
    share = table.solved.sum(axis=1) / np.maximum(table.applies.sum(axis=1), 1)
    order = [int(i) for i in np.lexsort((mean, time)) if table.solved[i].any()]
    first = order[0]
    top_rank, top_share = min(order, key=lambda i: mean[i]), share[order].max()
    cells = []
    for i in order:
        ids = tuple(table.ids[i, table.solved[i]])
        tie = i != first and ties(float(high[first]), float(time[first]), float(time[i]), float(time[i]))
        rank_tie = i != top_rank and low_rank[i] <= high_rank[top_rank]
        interval = f"{mean[i]:.1f}"
        if len(table.instances) > 1:
            interval += f" [{low_rank[i]:.1f}, {high_rank[i]:.1f}]"
        cells.append(
            [
                Cell(table.choices[i].label()),
                Cell(f"{100 * share[i]:.0f}%", bool(share[i] == top_share), rows=ids, value=float(share[i])),
                Cell(seconds(float(time[i])), i == first, tie, ids, float(time[i])),
                Cell(f"{time[i] / time[first]:.3g}", i == first, tie, ids, float(time[i] / time[first])),
                Cell(interval, i == top_rank, bool(rank_tie), ids, float(mean[i])),
            ]
        )
    columns = ["choice", "certified", "time (SGM)", "relative", "mean rank [95%]"]
    left = len(order) - limit
    note = f"{len(table.instances)} problem{'s' if len(table.instances) != 1 else ''}" + (
        f"; {left} slower choices are in the CSV file" if left > 0 else ""
    )
    return Table(name, title, columns, cells, note, [False, True, True, True, True], limit)


def rankings(frame: pd.DataFrame, tol: float, need: str, limit: int = 12) -> list[Table]:
    """Return for each machine, device and framework one table over everything, and one for each family."""
    best = best_rows(asked(frame, need), tol, need)
    out = []
    for number, ((group, device, backend), part) in enumerate(best.groupby(["group", "device", "backend"])):
        tag = f"{need}-{number + 1}"
        where = f"{backend} on {device}, {group}"
        families = part.groupby("family")
        if families.ngroups > 1:
            out.append(ranking(part, f"ranking-{tag}-all", f"All families, {where}", limit))
        for i, (family, of_family) in enumerate(families):
            out.append(ranking(of_family, f"ranking-{tag}-{i + 1}", f"{family}, {where}", limit))
    return [table for table in out if table is not None]


def failures(frame: pd.DataFrame, limit: int = 30) -> Table | None:
    """Return what failed and why, with gradients that are wrong or unchecked: one line per solver and reason."""
    status = frame["status"].where(frame["status"] != "ok", "")
    reason = frame["reason"].fillna("no reason stored").str.slice(0, 200)
    for need, error in ERRORS.items():
        rows = asked(frame, need)
        unchecked = rows[(rows["time"] > 0) & rows[error].isna() & (rows["status"] == "ok")]
        status = status.where(~status.index.isin(unchecked.index), UNCHECKED)
        why = unchecked["grad_reference"].fillna("no reference was stored").str.slice(0, 160)
        reason.loc[unchecked.index] = f"{NEEDS[need]}: " + why
        wrong = rows[(rows[error] > GROSS) & (rows["status"] == "ok")]
        status = status.where(~status.index.isin(wrong.index), WRONG)
        reason.loc[wrong.index] = [
            f"{NEEDS[need]}: off by {x:.0%} (relative error against the reference)" for x in wrong[error]
        ]
    bad = status != ""
    if not bad.any():
        return None
    named = frame[bad].assign(status=status[bad], reason=reason[bad])
    counted = named.groupby(["status", "solver", "reason"])["id"].agg(["count", list])
    counted = counted.sort_values("count", ascending=False, kind="stable").reset_index()
    cells = []
    for line in counted.head(limit).itertuples():
        ids = tuple(line.list[:50])
        cells.append([Cell(str(line.solver)), Cell(str(line.status)), Cell(str(line.reason)),
                      Cell(str(line.count), rows=ids, value=float(line.count))])  # fmt: skip
    note = f"{len(counted) - limit} further reasons are in the rows" if len(counted) > limit else ""
    columns = ["solver", "status", "reason", "rows"]
    return Table("failures", "What did not work, and why", columns, cells, note, [False, False, False, True])


def honesty(frame: pd.DataFrame) -> Table | None:
    """Return how often "converged" is true: rows that a solver calls converged, and those certified at the level."""
    said = frame[(frame["converged"] == 1) & frame["gap_rel"].notna() & frame["tol"].notna()]
    if said.empty:
        return None
    # A tolerance is asked of a residual; a gap of ten times that, or of the rounding of the precision, keeps the word.
    floor = said["dtype"].map({"float32": 1e-5}).fillna(1e-13)
    kept = said["gap_rel"] <= np.maximum(10 * said["tol"], floor)
    cells = []
    for (solver, backend), part in kept.groupby([said["solver"], said["backend"]]):
        true, number = int(part.sum()), len(part)
        worst = said.loc[part.index, "gap_rel"] / said.loc[part.index, "tol"]
        broken = tuple(said.loc[part.index[~part], "id"].head(50))
        ids = broken or tuple(said.loc[part.index, "id"].head(50))
        cells.append([
            Cell(str(solver)), Cell(str(backend)), Cell(f"{number}"),
            Cell(f"{100 * true / number:.0f}%", true == number, rows=ids, value=true / number),
            Cell(f"{worst.max():.0e}", value=float(worst.max())),
        ])  # fmt: skip
    cells.sort(key=lambda line: (line[3].value, -line[4].value))
    note = "true where the certified relative gap is at most ten times the tolerance, or rounding"
    columns = ["solver", "framework", "says converged", "true", "largest gap / tolerance"]
    return Table(
        "converged",
        'How often is "converged" true?',
        columns,
        cells,
        note,
        [False, False, True, True, True],
        40,
    )


def busy(rows: pd.DataFrame) -> str:
    """Return a sentence on rows that were timed beside other programs; it is empty where there are none."""
    loaded = int((rows["loaded"].fillna(0) != 0).sum())
    if not loaded:
        return ""
    return (
        f" {loaded} of {len(rows)} rows were timed while other programs kept the machine busy: their times are too "
        "long, those of slow ways most."
    )
