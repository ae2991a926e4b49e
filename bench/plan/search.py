"""Search the tolerance with which a solver meets an accuracy level; its tries are stored, and are not timed.

A tolerance means something different to each solver. A solver that ends at its tolerance, says that it converged, and
misses the level by its certificate is measured again with a tighter tolerance; each row keeps what was tried before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.plan.matrix import Cell

MOST_TRIES = 4
# Relative gaps in this dtype do not get below this, so that no smaller tolerance is tried.
SMALLEST = {"float64": 1e-15, "float32": 1e-7}
USEFUL = 0.5  # part of the gap before; a try that leaves a larger gap is the last one


def tightened(cell: Cell, row: Mapping[str, Any]) -> Cell | None:
    """Return the cell with a tighter tolerance, or None where a tighter one is not needed or would not help.

    Args:
        cell: What was measured.
        row: The row that came of it.

    Returns:
        The cell that is to be measured again; its columns `tol_given` and `search` say what is tried now and what was.

    Example:
        >>> columns = {"kind": "compare", "tol": 1e-6, "dtype": "float64"}
        >>> row = columns | {"status": "not converged", "gap_rel": 1e-4, "converged": 1.0}
        >>> tightened(Cell(columns), row).columns["tol_given"]
        5e-09
    """
    level, gap = cell.columns.get("tol"), row.get("gap_rel")
    if row["status"] != "not converged" or not level or not gap or row.get("converged") != 1:
        return None
    given = float(cell.columns.get("tol_given") or level)
    before = list(cell.columns.get("search") or [])
    tried = [*before, {"tol": given, "gap_rel": gap, "converged": row["converged"]}]
    tighter = float(f"{given * min(0.1, 0.5 * level / gap):.0e}")
    stuck = bool(before) and gap > USEFUL * before[-1]["gap_rel"]
    if stuck or len(tried) >= MOST_TRIES or tighter < SMALLEST[str(cell.columns.get("dtype", "float64"))]:
        return None
    return replace(cell, columns=cell.columns | {"tol_given": tighter, "search": tried})


def preferred(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether a row replaces that of an earlier attempt: by its status, then its gap, then the load at
    its timing."""
    if (new["status"] == "ok") != (old["status"] == "ok"):
        return bool(new["status"] == "ok")
    if new.get("tol_given") != old.get("tol_given"):
        return bool((new.get("gap_rel") or float("inf")) < (old.get("gap_rel") or float("inf")))
    return old["load"] is None or new.get("load") is None or bool(new["load"] <= old["load"])
