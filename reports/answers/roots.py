"""Make the table of the multiplier of f-divergences: a Newton root against bisections, from stored rows."""

from __future__ import annotations

import json

import pandas as pd

from reports.answers.tables import Cell, Table, busy


def roots(frame: pd.DataFrame) -> Table | None:
    """Return one line per divergence, size and framework: milliseconds of each way, the fastest accurate one is marked.

    Args:
        frame: Stored rows; those of the kind "roots" are shown.

    Returns:
        The table, None where there are no such rows.

    Example:
        >>> table = roots(load([Path("results/beyond.sqlite")]).frame)
        >>> table.columns[:4]
        ['f', 'k', 'batch', 'framework']
    """
    rows = frame[frame["kind"] == "roots"]
    if rows.empty:
        return None
    rows = rows.assign(ours=rows["solver"].str.startswith("Newton"))
    best = float(rows["tol"].min())
    levels = sorted(rows.loc[~rows["ours"], "tol"].unique())
    lines, faster = [], []
    for (f, k, batch, backend), part in rows.groupby(["problem", "k", "batch", "backend"], sort=False):
        ours = part[part["ours"]].iloc[0]
        others = {tol: part[~part["ours"] & (part["tol"] == tol)].iloc[0] for tol in levels}
        equal = others[best]
        ratio = equal["steady_s"] / ours["steady_s"]
        sure = ours["status"] == equal["status"] == "ok"
        if sure:
            faster.append(ratio)
        cells = [Cell(str(f)), Cell(str(int(k))), Cell(str(int(batch))), Cell(str(backend))]
        cells.append(_timed(ours, sure and ratio >= 1))
        cells += [_timed(row, sure and ratio < 1 and tol == best) for tol, row in others.items()]
        lines.append([*cells, Cell(f"{ratio:.2f}", value=ratio)])
    columns = ["f", "k", "batch", "framework", "Newton root (ms)"]
    columns += [f"bisection to {tol:.0e} (ms)" for tol in levels] + ["times faster"]
    wins = sum(ratio >= 1 for ratio in faster)
    note = (
        "Milliseconds of one call for the whole batch, the fastest of several interleaved turns; in brackets the "
        "halvings, which are the fewest that certify on every example: a relative gap and a distance of the sum from 1 "
        f"of at most the accuracy. The last column compares at {best:.0e}, where bold is the faster one; the Newton "
        f"root always goes to the rounding of float64. It is the faster one in {wins} of {len(faster)} lines"
        + (f"; the ratios lie between {min(faster):.2f} and {max(faster):.2f}." if faster else ".")
    )
    note += busy(rows)
    numeric = [False, True, True, False] + [True] * (len(levels) + 2)
    return Table("roots", "The multiplier of f-divergences", columns, lines, note, numeric)


def _timed(row: pd.Series, best: bool) -> Cell:
    text = f"{1e3 * row['steady_s']:.3g}"
    halvings = json.loads(row["extra"] or "{}").get("halvings")
    text += f" ({halvings})" if halvings else ""
    if row["status"] != "ok":
        text = f"not certified ({row['gap_rel']:.0e})"
    return Cell(text, best, rows=(str(row.get("id", row["key"])),), value=float(row["steady_s"]))
