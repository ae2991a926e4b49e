"""What the studies of the paper's theorems store: a row a case, like every other measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.measure.environment import LOAD_LIMIT, LoadMeter, row_facts
from bench.store import Store, key_of
from gfy.problem import InnerProblem

Say = Callable[[str], None]


def theory_row(
    kind: str, name: str, problem: InnerProblem, params: Mapping[str, Any], **columns: Any
) -> dict[str, Any]:
    """A row of the asked kind before it is measured; its columns decide its key."""
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


def measured(
    store: Store, row: dict[str, Any], measure: Callable[[], dict[str, Any]], say: Say
) -> dict[str, Any]:
    """The row with what `measure` returned, stored; what was stored before is not measured again."""
    key = key_of(row)
    stored = store.get(key)
    if stored is not None:
        return stored
    meter, began = LoadMeter(), time.perf_counter()
    found = measure()
    load = meter.read()
    timing = {
        "steady_s": time.perf_counter() - began,
        "load": load,
        "loaded": None if load is None else load > LOAD_LIMIT,
    }
    store.put(row | timing | found)
    who = " ".join(str(part) for part in (row["problem"], row["energy"], row.get("solver")) if part)
    say(f"{who}, k = {row.get('k')}, seed {row.get('seed')}: {found['score']:.6g} ({row['score_name']})")
    stored = store.get(key)
    assert stored is not None
    return stored


def as_arrays(backend: str) -> Callable[[Any], Any]:
    """A maker of float64 arrays of a framework."""
    if backend == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    from gfy.backend import get_backend

    found = get_backend(backend)
    return lambda x: found.asarray(np.asarray(x, dtype=np.float64), dtype="float64")
