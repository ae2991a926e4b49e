"""Compare `Auto` with the best of our solvers, by stored rows: `python -m bench.gates.auto_choice STORE`.

With `--write` the sizes and times that `Auto` chooses by (`solvers/measured.json`) are made from the same rows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

MOST = 1.3  # `Auto` may take at most this many times as long as the best of our solvers
LEAST_S = 1e-4  # seconds; a smaller difference is the noise of a call and counts at no ratio
CANDIDATES = ("ActiveSet", "DualNewton", "ProjectedGradient")  # what `Auto` can choose for a quadratic energy
COUNTED = {"status": "ok", "gradient": "envelope", "dtype": "float64", "device": "cpu"}  # the rows that count
FORM = ("U", "omega", "total", "framework", "k", "rank")
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


def measured_sizes(rows: Any) -> list[dict[str, Any]]:
    """Return what `Auto` chooses by: for each form of a problem, framework and size how long its solvers took.

    A time is the median, over the seeds, batches and levels of one size, of the time divided by that of the fastest of
    the solvers that met the level. Rows in float64 of the loss on the processor count.

    Args:
        rows: The rows of a comparison, a frame as `bench.store.load` gives it.

    Returns:
        The entries of `solvers/measured.json`, sorted.

    Example:
        >>> measured_sizes(load("full.sqlite"))[0]["times"]
        {'ActiveSet': 1.0, 'ProjectedGradient': 2.35}
    """
    measured = rows["steady_s"].notna() & rows["solver"].isin(CANDIDATES)
    for name, wanted in COUNTED.items():
        measured &= rows[name] == wanted
    kept, entries = rows[measured], []
    forms = [_form_of(*given) for given in zip(kept["family"], kept["problem_params"], strict=True)]
    for (asked, framework), group in kept.assign(form=forms).groupby(["form", "backend"]):
        settings = group.pivot_table("steady_s", ["problem", "seed", "tol"], "solver", aggfunc="min").dropna()
        if settings.shape[1] > 1 and len(settings):
            times = settings.div(settings.min(axis=1), axis=0).median().round(2)
            entries.append({**asked._asdict(), "framework": framework, "settings": len(settings),
                            "times": times.to_dict()})  # fmt: skip
    return sorted(entries, key=lambda entry: [str(entry[name]).rjust(9) for name in FORM])


@cache
def _form_of(family: str, params: str) -> Any:
    """Return the form of a problem that was measured, or None where its energy is not quadratic."""
    from bench.plan.registry import make_problem
    from solvers.measured import form

    instance = make_problem(family, json.loads(params)).instance
    return form(instance.problem, instance.inputs[-1])


def text_of(entries: list[dict[str, Any]]) -> str:
    """Return the entries as the text of the file, one per line."""
    return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n]\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gates.auto_choice", description=__doc__)
    parser.add_argument("store", type=Path, help="Read this result file of a comparison.")
    how = "Write what Auto chooses by, from the rows of this file, and compare nothing."
    parser.add_argument("--write", action="store_true", help=how)
    asked = parser.parse_args(argv)
    from bench.store import load

    rows = load(asked.store)
    if asked.write:
        from solvers.measured import FILE

        FILE.write_text(text_of(measured_sizes(rows)), "utf-8")
        print(f"{FILE} written")
        return 0
    table = ratios(rows, own_solvers())
    if table.empty:
        print(f"{asked.store} has no setting with Auto and another solver of ours.", file=sys.stderr)
        return 2
    behind = short(table)
    shown = behind if len(behind) else table.head(10)
    print(shown.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print(f"{len(table) - len(behind)} of {len(table)} settings: Auto within {MOST} x the best of ours")
    return 1 if len(behind) else 0


if __name__ == "__main__":
    sys.exit(main())
