"""Run the parts of an experiment through the one executor: isolated, watched, resumable, here or on a cluster.

A part is a `Cell` whose `work` can be pickled and is called with one argument, a function that takes a few words on how
far it has come. It returns the columns of the row that were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.measure.clock import Stopwatch
from bench.plan.matrix import Cell, Group, Settings
from bench.run.executor import Tally, attended, make_executor
from bench.run.isolation import ONE_THREAD
from bench.store import Store
from bench.store.environment import row_facts

JOB = "bench.experiments.common.fill:job"
SETTINGS = Settings(timeout=24 * 3600.0, accuracy_only=True, fresh_worker=True)
Say = Callable[[str], None]


def job(group: Group, channel: Any) -> None:
    """Do the work of every cell in a worker; an error becomes the row of its cell."""
    for cell in group.cells:
        if channel.stopped():
            return
        channel.hand(cell.name)
        watch = Stopwatch()
        found = cell.work(channel.say)
        channel.row(cell.name, {"status": "ok", **watch.columns(), **found})


def fill(
    store: Store,
    groups: Sequence[Group],
    done: Callable[[Cell, dict[str, Any]], None] = lambda cell, row: None,
    told: Callable[[Cell, str], None] = lambda cell, text: None,
    jobs: int = 1,
    scheduler: str | None = None,
    job: str = JOB,
    say: Say = print,
) -> Tally:
    """Measure groups into a store.

    Args:
        store: Where rows go as soon as they are there.
        groups: What is missing.
        done: Told of every row.
        told: Told how far a cell has come.
        jobs: Workers side by side, each with one thread where there are several.
        scheduler: The address of a Dask scheduler, where the groups are to go to a cluster.
        job: What measures a group.
        say: Told that an interrupt was heard.

    Returns:
        What was done; `stopped` where an interrupt ended it early.
    """
    executor = make_executor(store, row_facts(), scheduler, jobs, job, ONE_THREAD if jobs > 1 else None)
    executor.tell(
        lambda group, cell, row: done(cell, row), lambda group, cell, text: told(cell, text) if text else None
    )
    return attended(executor, list(groups), 0, say)
