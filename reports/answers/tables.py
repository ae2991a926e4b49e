"""Tables of choices: success rate, shifted geometric mean time, mean rank with a bootstrap interval.

A `Cell` carries its text, whether it is best (bold) or ties with the best, and the rows that made it, so
that the page can link every number, and Markdown and LaTeX can mark it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from reports.answers.choices import Grid, asked, best_rows, grid, shifted_geometric_mean
from reports.data.numbers import seconds

DRAWS = 1000


@dataclass(frozen=True)
class Cell:
    """One entry: `rows` are the ids of the measured rows it was computed from."""

    text: str
    best: bool = False
    tie: bool = False
    rows: tuple[str, ...] = ()
    value: float = float("nan")


@dataclass(frozen=True)
class Table:
    """A titled table; `name` is also its file name."""

    name: str
    title: str
    columns: list[str]
    cells: list[list[Cell]]
    note: str = ""
    numeric: list[bool] = field(default_factory=list)
    limit: int | None = None

    @property
    def shown(self) -> list[list[Cell]]:
        """The lines a page prints; the file keeps them all."""
        return self.cells[: self.limit]

    def frame(self) -> pd.DataFrame:
        """All lines as text, with the ids of the rows behind each in a last column."""
        lines = [
            [*(c.text for c in line), " ".join(dict.fromkeys(r for c in line for r in c.rows))]
            for line in self.cells
        ]
        return pd.DataFrame(lines, columns=[*self.columns, "rows behind it"])


def ranks(table: Grid) -> np.ndarray:
    """Rank of each choice on each problem [choices, problems]: 1 is fastest; failures share the last."""
    times = np.where(table.solved, table.time, np.inf)
    return pd.DataFrame(times).rank(axis=0, method="average").to_numpy()


def rank_intervals(
    table: Grid, draws: int = DRAWS, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean rank over the problems and its 95% bootstrap interval (problems drawn again with replacement)."""
    per_problem = ranks(table)
    number = per_problem.shape[1]
    mean = per_problem.mean(axis=1)
    if number < 2:
        return mean, mean, mean
    picks = np.random.default_rng(seed).integers(0, number, size=(draws, number))
    weights = np.zeros((draws, number))
    np.add.at(weights, (np.arange(draws)[:, None], picks), 1.0 / number)
    low, high = np.percentile(per_problem @ weights.T, [2.5, 97.5], axis=1)
    return mean, low, high


def ranking(best: pd.DataFrame, name: str, title: str, limit: int = 12) -> Table | None:
    """Choices by shifted geometric mean; `best` as from `choices.best_rows`. None if nothing is certified."""
    table = grid(best)
    if not table.choices or not table.solved.any():
        return None
    time = shifted_geometric_mean(table.charged(table.time))
    high = shifted_geometric_mean(table.charged(table.high))
    mean, low_rank, high_rank = rank_intervals(table)
    share = table.solved.mean(axis=1)
    order = [int(i) for i in np.lexsort((mean, time)) if table.solved[i].any()]
    first = order[0]
    top_rank, top_share = min(order, key=lambda i: mean[i]), share[order].max()
    cells = []
    for i in order:
        ids = tuple(table.ids[i, table.solved[i]])
        tie = i != first and bool(high[first] >= time[i])
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
    """For each machine and device: one table over everything, and one for each family."""
    rows = asked(frame, need)
    best = best_rows(rows[rows["status"] != "unsupported"], tol)
    out = []
    for number, ((group, device), part) in enumerate(best.groupby(["group", "device"])):
        tag = f"{need}-{number + 1}"
        where = f"{device}, {group}"
        families = part.groupby("family")
        if families.ngroups > 1:
            out.append(ranking(part, f"ranking-{tag}-all", f"All families, {where}", limit))
        for i, (family, of_family) in enumerate(families):
            out.append(ranking(of_family, f"ranking-{tag}-{i + 1}", f"{family}, {where}", limit))
    return [table for table in out if table is not None]


def failures(frame: pd.DataFrame, limit: int = 30) -> Table | None:
    """What did not work and why: one line a solver and reason, with the number of rows."""
    bad = frame[frame["status"] != "ok"]
    if bad.empty:
        return None
    reason = bad["reason"].fillna("no reason stored").str.slice(0, 200)
    counted = bad.assign(reason=reason).groupby(["status", "solver", "reason"])["id"].agg(["count", list])
    counted = counted.sort_values("count", ascending=False, kind="stable").reset_index()
    cells = []
    for line in counted.head(limit).itertuples():
        ids = tuple(line.list[:50])
        cells.append([Cell(str(line.solver)), Cell(str(line.status)), Cell(str(line.reason)),
                      Cell(str(line.count), rows=ids, value=float(line.count))])  # fmt: skip
    note = f"{len(counted) - limit} further reasons are in the rows" if len(counted) > limit else ""
    columns = ["solver", "status", "reason", "rows"]
    return Table("failures", "What did not work, and why", columns, cells, note, [False, False, False, True])
