"""Rows that were really measured, on two machines that differ in name, in one commit."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from bench.plan.matrix import plan
from bench.plan.suite import Entry, Suite
from bench.run.groups import JOB, GroupRunner
from bench.store import Store

SUITE = Suite(
    solvers=["DualNewton", "ProjectedGradient"],
    tolerances=[1e-3, 1e-6],
    backends=["torch"],
    repeat=3,
    budget=0.01,
    problems=[
        Entry("pairwise-gini", {"k": 6, "batch": 3}),
        Entry("quadratic-gini-simplex", {"k": 5, "batch": 2}, {"solvers": ["ProjectedGradient"]}),
        Entry("pairwise-gini", {"k": 6, "batch": 3}, {"backends": ["jax"], "dtypes": ["float32"], "tolerances": [1e-4],
                                                      "solvers": ["DualNewton"]}),
    ],
)  # fmt: skip
FACTS = {
    "machine_info": {"cpu": "one of a kind", "cores": 2},
    "versions": {"python": "3"},
    "git_commit": "c" * 40,
    "git_dirty": False,
}


@pytest.fixture(scope="session")
def measured() -> list[tuple[Any, dict[str, Any], Any]]:
    """Cells with what was measured of them."""
    for framework in ("jax", "torch"):
        pytest.importorskip(framework)
    found = []
    runner = GroupRunner(threading.Event(), JOB)
    try:
        for group in plan(SUITE).groups:
            rows: dict[str, dict[str, Any]] = {}
            runner.run(group, lambda cell, columns, rows=rows: rows.__setitem__(cell.name, columns))
            found += [(cell, rows[cell.name], group.settings) for cell in group.cells]
    finally:
        runner.close()
    return found


@pytest.fixture(scope="session")
def stores(measured: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two result files of the same cells, of two machines."""
    folder = tmp_path_factory.mktemp("stores")
    found = {}
    for machine in ("laptop", "server"):
        found[machine] = folder / f"{machine}.sqlite"
        with Store(found[machine]) as store:
            store.put_many(
                cell.row(columns, {**FACTS, "machine": machine}, settings)
                for cell, columns, settings in measured
            )
    return found
