"""Store the studies of the paper's theorems: one row per case, like every other measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench.experiments.common.fill import SETTINGS, fill
from bench.measure.clock import Stopwatch
from bench.plan.matrix import Cell, Group
from bench.store import Store, key_of
from bench.store.environment import row_facts
from gfy.errors import GfyValueError
from gfy.problem import InnerProblem

Say = Callable[[str], None]


def theory_row(
    kind: str, name: str, problem: InnerProblem, params: Mapping[str, Any], **columns: Any
) -> dict[str, Any]:
    """Return a row of the requested kind before it is measured; its columns determine its key."""
    return row_facts() | {
        "kind": kind,
        "status": "ok",
        "problem": name,
        "family": f"{problem.energy.name}-{problem.regularizer.name}".lower(),
        "energy": problem.energy.name,
        "regularizer": problem.regularizer.name,
        "domain": problem.domain.name,
        "problem_params": dict(params),
        "device": "cpu",
        "dtype": "float64",
        **columns,
    }


# A case is a row before it is measured, with the function that measures it.
Case = tuple[dict[str, Any], Callable[[], dict[str, Any]]]


def study(store: Store, cases: Sequence[Case], say: Say) -> list[dict[str, Any]]:
    """Store the rows of some cases; what was stored before is not measured again.

    Args:
        store: Where rows go.
        cases: Rows without their results, each with a function that can be pickled and returns them.
        say: Told of every row as it is measured.

    Returns:
        The rows of all cases, in their order.

    Raises:
        GfyValueError: A case could not be measured.
    """
    keys = [key_of(row) for row, _ in cases]
    groups = [
        Group(key, (Cell(row, work=partial(timed, measure)),), replace(SETTINGS, fresh_worker=False))
        for key, (row, measure) in zip(keys, cases, strict=True)
        if not good(store.get(key))
    ]

    def done(cell: Cell, row: dict[str, Any]) -> None:
        who = " ".join(str(row[name]) for name in ("problem", "energy", "solver") if row.get(name))
        what = f"{row['status']}: {row.get('reason')}"
        if row.get("score") is not None:
            what = f"{row['score']:.6g} ({row['score_name']})"
        say(f"{who}, k = {row.get('k')}, seed {row.get('seed')}: {what}")

    tally = fill(store, groups, done, say=say)
    if tally.stopped:
        raise SystemExit(130)
    found = [store.get(key) for key in keys]
    lost = [row for row in found if not good(row)]
    if lost:
        raise GfyValueError(
            f"{len(lost)} of {len(found)} cases could not be measured: {(lost[0] or {}).get('reason')}"
        )
    return [row for row in found if row is not None]


def good(row: Mapping[str, Any] | None) -> bool:
    return row is not None and row["status"] in ("ok", "not converged")


def timed(measure: Callable[[], dict[str, Any]], say: Say) -> dict[str, Any]:
    """Return what `measure` returns, with the seconds it took."""
    watch = Stopwatch()
    found = measure()
    return {"steady_s": watch.wall_s, **found}


def as_arrays(backend: str) -> Callable[[Any], Any]:
    """Return a maker of float64 arrays of a framework."""
    from gfy.backend import get_backend

    found = get_backend(backend)
    found.keep_float64()
    return lambda x: found.asarray(np.asarray(x, dtype=np.float64), dtype="float64")
