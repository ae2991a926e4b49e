"""How many modules of `bench` one cell of `gfy compare` passes through, from the plan to the stored row."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collected import Collected

from bench.measure.certification import judge
from bench.measure.group import measure_group
from bench.plan.matrix import Group, plan
from bench.plan.suite import from_dict
from bench.run import worker
from bench.run.executor import Local
from bench.store import Store, environment

MOST = 14


def calls(work: Callable[[], object]) -> Counter[str]:
    """How often functions of each module of `bench` are called while work() runs, in all threads of this process."""
    found: Counter[str] = Counter()

    def look(frame: Any, event: str, arg: Any) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if (
            event == "call"
            and name.startswith("bench.")
            and frame.f_code.co_name not in ("<module>", "<lambda>")
        ):
            found[name] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def passed(work: Callable[[Group], object], group: Group) -> set[str]:
    """The modules that work on a group calls more often where the group has one cell more."""
    work(group)  # everything is imported and remembered now, as it is for all groups but the first
    one, all_of_them = (calls(lambda g=g: work(g)) for g in (group.only({group.cells[0].name}), group))
    return {name for name, count in all_of_them.items() if count > one[name]}


@pytest.mark.slow
def test_one_cell_passes_few_modules(tmp_path: Path) -> None:
    """What measures and judges it in other processes, and what hands its row to the store in the one that waits."""
    pytest.importorskip("torch")
    asked = from_dict(
        {
            "solvers": ["DualNewton", "CoordinateAscent"], "gradients": ["implicit"], "backends": ["torch"],
            "tolerances": [1e-9], "repeat": 3, "timeout": 60.0, "budget": 0.1,
            "problems": [{"family": "pairwise-gini", "k": 4, "batch": 2}],
        }
    )  # fmt: skip
    (group,) = plan(asked).groups

    def inside(group: Group) -> None:
        channel = Collected()
        measure_group(group, channel)
        for cell in group.cells:
            judge((cell, channel.evidence[cell.name], 30.0), channel)
            assert channel.rows[cell.name]["status"] == "ok"

    modules = {worker.__name__}  # which takes the job from the other process and sends its rows back
    modules |= passed(inside, group)
    with Store(tmp_path / "r.sqlite") as store:
        local = Local(store, environment.row_facts())
        modules |= passed(lambda group: local([group], 0), group)
    assert len(modules) <= MOST, f"{len(modules)} modules: {', '.join(sorted(modules))}"
