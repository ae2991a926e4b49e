"""How many modules of `bench` one cell of `gfy compare` passes through, from the plan to the stored row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bench.measure.certification import judge
from bench.measure.group import measure_group
from bench.plan.matrix import plan
from bench.plan.suite import from_dict
from bench.run import worker
from bench.run.executor import Local
from bench.store import Store, environment

MOST = 14


class Collected(worker.Channel):
    """A channel without a process at its other end: the rows of a group are kept here."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.evidence: dict[str, Any] | None = None

    def hand(self, cell: str | None) -> None:
        pass

    def row(self, cell: str, columns: dict[str, Any], evidence: dict[str, Any] | None = None) -> None:
        self.rows[cell] = columns
        self.evidence = evidence or self.evidence

    def rest(self) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def stopped(self) -> bool:
        return False

    def limit_memory(self, allowed: int | None) -> None:
        pass


def passed(work: Any) -> set[str]:
    """The modules of `bench` whose functions run while work() does; what runs when they are imported is not counted."""
    found: set[str] = set()

    def look(frame: Any, event: str, arg: Any) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if (
            event == "call"
            and name.startswith("bench.")
            and frame.f_code.co_name not in ("<module>", "<lambda>")
        ):
            found.add(name)

    work()  # everything is imported and remembered now, as it is for all cells but the first
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.slow
def test_one_cell_passes_few_modules(tmp_path: Path) -> None:
    """What measures it in the worker, and what hands its row to the store in the process that waits for it."""
    pytest.importorskip("torch")
    asked = from_dict(
        {
            "solvers": ["DualNewton"], "gradients": ["implicit"], "backends": ["torch"], "tolerances": [1e-9],
            "repeat": 3, "timeout": 60.0, "budget": 0.1, "problems": [{"family": "pairwise-gini", "k": 4, "batch": 2}],
        }
    )  # fmt: skip
    (group,) = plan(asked).groups
    channel = Collected()
    inside = passed(lambda: measure_group(group, channel))
    inside |= passed(lambda: judge((group.cells[0], channel.evidence, 30.0), channel))
    (columns,) = channel.rows.values()
    assert columns["status"] == "ok"

    with Store(tmp_path / "r.sqlite") as store:  # opened once for all cells
        local = Local(store, environment.row_facts())
        outside = passed(lambda: local([group], 0))
    modules = (
        inside | outside | {worker.__name__}
    )  # which takes the job from the other process and sends its rows back
    assert len(modules) <= MOST, f"{len(modules)} modules: {', '.join(sorted(modules))}"
