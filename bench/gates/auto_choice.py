"""Compare `Auto` with the best of our solvers, by stored rows: `python -m bench.gates.auto_choice STORE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

MOST = 1.3  # `Auto` may take at most this many times as long as the best of our solvers
LEAST_S = 1e-4  # seconds; a smaller difference is the noise of a call and counts at no ratio
GROUP = ("problem", "seed", "backend", "device", "dtype", "gradient", "tol")


def own_solvers() -> list[str]:
    """Return the names of our solvers; peers behind adapters are not ours."""
    from bench.plan.registry import solver_classes

    return [name for name, kind in solver_classes().items() if kind.__module__.startswith("solvers.")
            and not kind.__module__.startswith("solvers.peers")]  # fmt: skip


def ratios(rows: Any, ours: Collection[str]) -> Any:
    """Return for each measured setting the time of `Auto` divided by that of the best of our solvers, the worst first.

    Args:
        rows: the rows of a comparison, a frame as `bench.store.load` gives it.
        ours: the names of the solvers that count.

    Returns:
        A frame with the columns of the setting, `best`, `best_s`, `auto_s` and `ratio`; settings without a row
        of `Auto` and one of another solver of ours that met the level are left out.

    Example:
        >>> ratios(load("compare.sqlite"), own_solvers()).head()
    """
    import pandas as pd

    done = rows[(rows["status"] == "ok") & rows["steady_s"].notna() & rows["solver"].isin(ours)]
    found = []
    for setting, group in done.groupby(list(GROUP), dropna=False):
        times = group.groupby("solver")["steady_s"].min()
        others = times.drop("Auto", errors="ignore")
        if "Auto" not in times or others.empty:
            continue
        best, auto = min(others.min(), times["Auto"]), times["Auto"]
        found.append(
            {**dict(zip(GROUP, setting, strict=True)), "best": str(times.idxmin()), "best_s": best, "auto_s": auto,
             "ratio": auto / best}
        )  # fmt: skip
    columns = [*GROUP, "best", "best_s", "auto_s", "ratio"]
    return pd.DataFrame(found, columns=columns).sort_values("ratio", ascending=False, ignore_index=True)


def short(table: Any) -> Any:
    """Return the settings in which `Auto` takes more than MOST times the best, and by more than the noise of a call."""
    return table[(table["ratio"] > MOST) & (table["auto_s"] - table["best_s"] > LEAST_S)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gates.auto_choice", description=__doc__)
    parser.add_argument("store", type=Path, help="Read this result file of a comparison.")
    asked = parser.parse_args(argv)
    from bench.store import load

    table = ratios(load(asked.store), own_solvers())
    if table.empty:
        print(f"{asked.store} has no setting with Auto and another solver of ours.", file=sys.stderr)
        return 2
    behind = short(table)
    print(table.head(max(10, len(behind))).to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print(f"{len(table) - len(behind)} of {len(table)} settings: Auto within {MOST} x the best of ours")
    return 1 if len(behind) else 0


if __name__ == "__main__":
    sys.exit(main())
