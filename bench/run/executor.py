"""Turn groups of cells into stored rows: a crash, a hang or a NaN is one row of them, never the end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.plan.cells import Cell, Group
from bench.run.isolation import Worker
from bench.store.records import Store, key_of

JOB = "bench.measure.group:measure_group"
Emit = Callable[[Cell, dict[str, Any]], None]


def failure(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}


def row_of(
    group: Group, cell: Cell, columns: dict[str, Any], facts: Mapping[str, Any], attempt: int
) -> dict[str, Any]:
    """What is stored of a cell: what determines it, where it was measured, what was measured, and how."""
    return {
        "kind": "compare",
        **facts,
        **cell.columns,
        **columns,
        "machine": facts["machine"],
        "attempt": attempt + 1,
        "timeout_s": group.settings.timeout,
        "repeat_asked": group.settings.repeat,
    }


class GroupRunner:
    """Runs groups one after the other in a worker of its own, which is replaced when a cell breaks it."""

    def __init__(
        self,
        stopping: threading.Event,
        job: str = JOB,
        env: Mapping[str, str] | None = None,
        notice: Callable[[Group, Cell], None] = lambda group, cell: None,
    ) -> None:
        self._stopping, self._job, self._env, self._notice = stopping, job, env, notice
        self._worker: Worker | None = None
        self._killed = False

    def run(self, group: Group, emit: Emit) -> None:
        """Measure the group's cells; every one is emitted once, unless the run is being stopped."""
        pending = {cell.name: cell for cell in group.cells}
        blank_deaths = 0
        while pending and not self._stopping.is_set():
            end = self._attempt(group.only(set(pending)), pending, emit)
            if self._killed:
                return  # by us, not by the cell: nothing is known of it
            if end.kind == "done":
                if not self._stopping.is_set():
                    for cell in pending.values():
                        emit(cell, failure("crashed", "the worker finished without a word about this cell"))
                return
            reason = str(end.value)
            if end.kind == "timeout":
                reason = f"stopped at its limit of {float(end.value):g} s"
            if end.cell in pending:
                broken = pending.pop(end.cell)
                emit(broken, failure("timeout" if end.kind == "timeout" else "crashed", reason))
                if end.kind == "timeout":
                    self._spare(broken, pending, emit)
                continue
            blank_deaths += 1  # no cell was in hand: once may be bad luck, twice is the problem itself
            if blank_deaths == 2 or end.kind == "failed":
                for cell in pending.values():
                    emit(cell, failure("crashed", f"the problem could not be prepared: {reason}"))
                return

    def _spare(self, slow: Cell, pending: dict[str, Cell], emit: Emit) -> None:
        """A solver that ran into its limit is not tried again at the same or a tighter tolerance."""
        tol = slow.columns.get("tol")
        for name, cell in list(pending.items()):
            if tol is not None and cell.solver == slow.solver and cell.columns["tol"] <= tol:
                reason = f"not tried: at the tolerance {tol:g} it already ran into its limit"
                emit(pending.pop(name), failure("timeout", reason))

    def _attempt(self, group: Group, pending: dict[str, Cell], emit: Emit) -> Any:
        if self._worker is None or not self._worker.alive():
            self.close()
            self._worker = Worker(self._env)
        start_limit, told = max(120.0, group.settings.timeout), False
        for event in self._worker.run(self._job, group, group.settings.timeout, start_limit):
            if event.kind == "row":
                cell = pending.pop(str(event.cell), None)
                if cell is not None:
                    emit(cell, event.value)
            elif event.kind != "hand":
                return event
            elif event.cell in pending:
                self._notice(group, pending[event.cell])
            if self._stopping.is_set() and not told:  # said again: the first word may have come too early
                self._worker.stop()
                told = True
        raise AssertionError("a worker's events always end with one of its ends")

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()

    def kill(self) -> None:
        self._killed = True
        if self._worker is not None:
            self._worker.kill()


@dataclass
class Tally:
    """What a run did."""

    rows: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    loaded: int = 0  # rows whose last timing was taken under load
    passes: int = 0  # how often those rows were timed
    stopped: bool = False


class Run:
    """Measure groups into a store, with `jobs` workers side by side; `stop()` may be called from a signal."""

    def __init__(
        self,
        store: Store,
        facts: Mapping[str, Any],
        jobs: int = 1,
        job: str = JOB,
        env: Mapping[str, str] | None = None,
        listener: Callable[[Group, Cell, dict[str, Any]], None] | None = None,
        notice: Callable[[Group, Cell], None] = lambda group, cell: None,
    ) -> None:
        self._store, self._facts, self._jobs = store, dict(facts), max(1, jobs)
        self._stopping = threading.Event()
        self._runners = [GroupRunner(self._stopping, job, env, notice) for _ in range(self._jobs)]
        self._listener = listener
        self._lock = threading.Lock()
        self.tally = Tally()
        self._loaded: dict[str, set[str]] = {}

    def stop(self) -> None:
        """Finish the cells in hand, begin no other; a second call ends the workers at once."""
        again = self._stopping.is_set()
        self._stopping.set()
        for runner in self._runners:
            runner.kill() if again else runner.stop()

    def __call__(self, groups: Iterable[Group], rerun_loaded: int = 1) -> Tally:
        try:
            waiting = list(groups)
            for attempt in range(rerun_loaded + 1):
                self._loaded = {}
                self._pass(waiting, attempt)
                self.tally.passes = attempt + 1
                waiting = [g.only(self._loaded[g.label]) for g in waiting if g.label in self._loaded]
                if not waiting or self._stopping.is_set():
                    break
        finally:
            for runner in self._runners:
                runner.close()
        self.tally.stopped = self._stopping.is_set()
        self.tally.loaded = sum(len(names) for names in self._loaded.values())
        return self.tally

    def _pass(self, groups: list[Group], attempt: int) -> None:
        todo: queue.SimpleQueue[Group] = queue.SimpleQueue()
        for group in groups:
            todo.put(group)
        errors: list[BaseException] = []

        def work(runner: GroupRunner) -> None:
            try:
                while not self._stopping.is_set():
                    try:
                        group = todo.get_nowait()
                    except queue.Empty:
                        return
                    runner.run(group, lambda cell, columns, g=group: self._keep(g, cell, columns, attempt))  # type: ignore[misc]
            except BaseException as error:  # handed to the caller below
                errors.append(error)
                self._stopping.set()

        threads = [threading.Thread(target=work, args=(runner,), daemon=True) for runner in self._runners]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # short joins, so that Ctrl-C is heard
                thread.join(timeout=0.2)
        if errors:
            raise errors[0]

    def _keep(self, group: Group, cell: Cell, columns: dict[str, Any], attempt: int) -> None:
        row = row_of(group, cell, columns, self._facts, attempt)
        with self._lock:
            self._store.put(row if attempt == 0 else self._quieter(row))
            if row.get("loaded"):
                self._loaded.setdefault(group.label, set()).add(cell.name)
            if attempt == 0:
                self.tally.rows += 1
                status = str(row["status"])
                self.tally.by_status[status] = self.tally.by_status.get(status, 0) + 1
            if self._listener is not None:
                self._listener(group, cell, row)

    def _quieter(self, row: dict[str, Any]) -> dict[str, Any]:
        """Of two timings of one cell the one taken under less load, told to be the last attempt."""
        old = self._store.get(key_of(row))
        if old is None or old["load"] is None or row.get("load") is None or row["load"] <= old["load"]:
            return row
        return {**old, "attempt": row["attempt"]}
