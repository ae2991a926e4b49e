"""A thousand comparisons in one process leave memory, threads and file handles where they were."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
from collected import Collected

from bench.measure.group import measure_group
from bench.plan.matrix import plan
from bench.plan.suite import from_dict

COMPARISONS = 1_000
MOST_BYTES = 64 * 2**20


def held() -> tuple[int, int, int]:
    """Bytes in memory, threads and open files of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), threading.active_count(), len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory in use is read from /proc")
def test_a_thousand_comparisons_in_one_process() -> None:
    pytest.importorskip("torch")
    statuses: list[object] = []

    def compare(count: int) -> None:
        for number in range(count):
            problem = {"family": "pairwise-gini", "k": 3 + number % 5, "batch": 1 + number % 4}
            asked = {
                "solvers": ["CoordinateAscent", "DualNewton"], "backends": ["torch"], "tolerances": [1e-6], "repeat": 1,
                "budget": 0.001, "problems": [problem],
            }  # fmt: skip
            for group in plan(from_dict(asked)).groups:
                told = Collected()
                measure_group(group, told)
                statuses.extend(columns.get("status", "measured") for columns in told.rows.values())

    compare(100)
    before = held()
    compare(COMPARISONS)
    after = held()
    assert len(statuses) == 2 * (100 + COMPARISONS)
    assert "crashed" not in statuses
    print(f"{(after[0] - before[0]) / 2**20:.1f} MiB, {before[1:]} before, {after[1:]} after")
    assert after[0] - before[0] < MOST_BYTES, f"{(after[0] - before[0]) / 2**20:.0f} MiB more than before"
    assert after[1] <= before[1]
    assert after[2] <= before[2]
