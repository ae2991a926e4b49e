"""Read stored rows as histories: the same cell measured at one commit after another, on one machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("steady_s", "backward_s", "gap_rel", "grad_error")
# A cell is the same where all of these are equal. Times of two machines never belong to one history.
CELL = (
    "kind", "machine", "problem", "problem_params", "seed", "solver", "solver_params", "gradient", "gradient_params",
    "backend", "device", "dtype", "tol", "max_steps",
)  # fmt: skip


def series(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the histories in some rows, by a name that says what was measured.

    Args:
        frame: Rows of stores; those without a commit, with changes of their own or unfinished are left out.

    Returns:
        One frame per cell, one row per commit (the newest where there are several), in the order of time.

    Example:
        >>> series(load(["results.sqlite"]))                            # doctest: +SKIP
    """
    usable = frame[
        frame.git_commit.notna()
        & (frame.git_dirty.fillna(0) == 0)
        & frame.status.isin(["ok", "not converged"])
        & frame.kind.isin(["compare", "bars", "asv", "pytest"])
    ]
    found: dict[str, Any] = {}
    for identity, part in usable.groupby(list(CELL), dropna=False, sort=True):
        ordered = part.sort_values("created", kind="stable").drop_duplicates("git_commit", keep="last")
        name = label(dict(zip(CELL, identity, strict=True)))
        while name in found:  # two cells may differ in a column that the name leaves out
            name += " (another)"
        found[name] = ordered
    return found


def label(cell: dict[str, Any]) -> str:
    """Return the name of a cell on a page: problem, solver, gradient mode, framework, dtype, tolerance, machine."""
    tol = cell["tol"]
    parts = [cell["problem"], cell["solver"], cell["gradient"], cell["backend"], cell["dtype"]]
    parts.append(None if tol is None or tol != tol else f"tol {tol:g}")
    device = cell["device"] if cell["device"] not in (None, "cpu") else None
    params = json.loads(cell["gradient_params"]) if isinstance(cell["gradient_params"], str) else {}
    told = [str(part) for part in (*parts, device, *params.values()) if isinstance(part, (str, int, float))]
    return f"{' '.join(told)} on {cell['machine']}"
