"""Turn groups of cells into stored rows: a crash, a hang or a NaN becomes one row and does not end the run.

An executor has two implementations, `Local` here and `Cluster` in `bench.run.cluster`. Both follow the same rules. Each
cell becomes one row. Rows that were timed under load are measured again, and the timing under less load is kept. A
solver that misses its accuracy level is given a tighter tolerance (`Cell.tightened`). A first request to stop
finishes the running cells, and a second one ends them at once. The same command, given later, measures only what is
missing.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bench.plan.matrix import MOST_TRIES, Cell, Group
from bench.run.groups import JOB, GroupRunner, Notice
from bench.run.isolation import Quiet
from bench.store import Store, key_of
from bench.store.keys import canonical

Listener = Callable[[Group, Cell, dict[str, Any]], None]
FAILED = ("crashed", "timeout", "not finite")


@dataclass
class Tally:
    """Hold what a run did."""

    rows: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    loaded: int = 0  # rows whose last timing was taken under load
    passes: int = 0  # how many times such rows were timed at most
    stopped: bool = False


def done(row: Mapping[str, Any] | None, group: Group, retry: bool = False) -> bool:
    """Return whether a stored row answers the cell: measured as long and as often as required, and not under load."""
    if row is None:
        return False
    if row["status"] == "timeout" and (row["timeout_s"] or 0) < group.settings.timeout:
        return False
    if row["status"] in FAILED:
        return not retry
    if group.settings.accuracy_only:
        return True
    enough = (row["repeat_asked"] or 0) >= group.settings.repeat and row["steady_s"] is not None
    quiet = not row["loaded"] or (row["attempt"] or 1) > 1  # a row under load is measured again only once
    return enough and quiet


def preferred(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether a row replaces that of an earlier attempt: by its status, then its gap, then the load at
    its timing."""
    if (new["status"] == "ok") != (old["status"] == "ok"):
        return bool(new["status"] == "ok")
    if new.get("tol_given") != old.get("tol_given"):
        return bool((new.get("gap_rel") or float("inf")) < (old.get("gap_rel") or float("inf")))
    return old["load"] is None or new.get("load") is None or bool(new["load"] <= old["load"])


class Executor:
    """Measure groups into a store.

    Args:
        store: Where rows go.
        facts: What is known of this machine (`environment.row_facts`).
        job: "module:function" that measures a group in a worker.

    Example:
        >>> executor = Local(store, row_facts())  # doctest: +SKIP
        >>> tally = executor(executor.remaining(plan.groups))  # doctest: +SKIP
    """

    def __init__(self, store: Store, facts: Mapping[str, Any], job: str = JOB) -> None:
        self._store, self._facts, self._job = store, dict(facts), job
        self._listener: Listener = lambda group, cell, row: None
        self._notice: Notice = lambda group, cell, text: None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # Both are named by the label of a group and the name of a cell: the rows that were timed under load, and the
        # cells that are measured again with a tighter tolerance.
        self._loaded: set[tuple[str, str]] = set()
        self._search: dict[tuple[str, str], Cell] = {}
        self._until = float("inf")
        self.tally = Tally()

    def tell(self, listener: Listener, notice: Notice = lambda group, cell, text: None) -> None:
        """Name the functions that receive every row as it is stored, and every cell as it begins where that
        can be seen."""
        self._listener, self._notice = listener, notice

    def remaining(self, groups: Iterable[Group], retry: bool = False) -> list[Group]:
        """Return the groups with the cells that the store lacks, or whose row does not meet the present request."""
        stored = self.stored()
        todo = []
        for group in groups:
            missing = {c.name for c in group.cells if not done(stored(c), group, retry)}
            if missing:
                todo.append(group.only(missing))
        return todo

    def stored(self) -> Callable[[Cell], Mapping[str, Any] | None]:
        """Return how the row of a cell is looked up."""
        machine = self._facts["machine"]
        return lambda cell: self._store.get(cell.key(machine))

    def refuse(self, left_out: Sequence[tuple[Cell, str]]) -> int:
        """Store rows for what is left out, so that a report can say why a solver has no number; return how
        many are new."""
        new = 0
        for cell, reason in left_out:
            if cell.solver and not self._store.has(cell.key(self._facts["machine"])):
                self._store.put({**self._facts, **cell.columns, "status": "unsupported", "reason": reason})
                new += 1
        return new

    def stop(self) -> None:
        """Finish the running cells and begin no other; a second call gives up on those too. A signal may call it."""
        again = self._stopping.is_set()
        self._stopping.set()
        self._told(again)

    def __call__(
        self, groups: Iterable[Group], rerun_loaded: int = 1, within_s: float = float("inf")
    ) -> Tally:
        """Measure the groups; measure some rows again, as long as less than `within_s` seconds have passed.

        Rows that were timed under load are measured again up to `rerun_loaded` times. Rows of solvers that miss their
        level are measured again as often as the search for a tolerance needs.
        """
        waiting = list(groups)
        self._until = time.monotonic() + within_s
        self._open()
        try:
            for attempt in range(1 + max(rerun_loaded, MOST_TRIES)):
                self._search = {}
                self._pass(waiting, attempt)
                if attempt <= rerun_loaded and not self._late(attempt):
                    self.tally.passes = attempt + 1
                waiting = self._again(waiting, attempt < rerun_loaded)
                if not waiting or self._stopping.is_set() or self._late(attempt + 1):
                    break
        finally:
            self._close()
        self.tally.stopped = self._stopping.is_set()
        self.tally.loaded = len(self._loaded)
        return self.tally

    def _again(self, groups: list[Group], loaded: bool) -> list[Group]:
        """Return what the next pass measures: cells with a tighter tolerance, and on request those timed under load."""
        found = []
        for group in groups:
            same = [c for c in group.cells if loaded and (group.label, c.name) in self._loaded]
            cells = {c.name: c for c in same}
            cells |= {name: cell for (label, name), cell in self._search.items() if label == group.label}
            if cells:
                found.append(replace(group, cells=tuple(cells.values())))
        return found

    def _late(self, attempt: int) -> bool:
        """Return whether the time for measuring again is over; the first attempt has all the time it needs."""
        return attempt > 0 and time.monotonic() > self._until

    def keep(
        self, group: Group, cell: Cell, measured: dict[str, Any], attempt: int, facts: Mapping[str, Any]
    ) -> None:
        """Store the row of a cell; of two timings keep the one under less load, marked as the last attempt.

        The listener is given what is stored, which may be the earlier row.
        """
        row = cell.row(measured, facts, group.settings, attempt)
        with self._lock:
            old = self._store.get(key_of(row)) if attempt else None
            if old is not None and not preferred(row, old):
                kept = {**old, "attempt": row["attempt"], "search": row.get("search") or old["search"]}
            else:
                kept = row
            self._store.put(kept)
            place = (group.label, cell.name)
            (self._loaded.add if kept.get("loaded") else self._loaded.discard)(place)
            tighter = cell.tightened(row)
            if tighter is not None:
                self._search[place] = tighter
            if attempt == 0:
                self.tally.rows += 1
                status = str(row["status"])
                self.tally.by_status[status] = self.tally.by_status.get(status, 0) + 1
            self._listener(group, cell, kept)

    # what an implementation fills in

    def _open(self) -> None:
        """Connect to what measures."""

    def _close(self) -> None:
        """Disconnect from what measures."""

    def _pass(self, groups: list[Group], attempt: int) -> None:
        """Measure every group once and `keep` each cell."""
        raise NotImplementedError

    def _told(self, again: bool) -> None:
        """React to a request to stop, with `again` for the second request."""


class Local(Executor):
    """Measure on this machine, `jobs` groups side by side, one of them timed at a time; `env` is added to the
    workers'."""

    def __init__(
        self,
        store: Store,
        facts: Mapping[str, Any],
        job: str = JOB,
        jobs: int = 1,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(store, facts, job)
        begun = lambda group, cell, text: self._notice(group, cell, text)  # noqa: E731
        quiet = Quiet()
        self._runners = [GroupRunner(self._stopping, job, env, begun, quiet) for _ in range(max(1, jobs))]
        # A problem stays with the runner that has measured it, whose workers keep its programs and its reference.
        self._homes: dict[str, GroupRunner] = {}

    def _told(self, again: bool) -> None:
        for runner in self._runners:
            runner.kill() if again else runner.stop()

    def _close(self) -> None:
        for runner in self._runners:
            runner.close()

    def _pass(self, groups: list[Group], attempt: int) -> None:
        waiting = self._bundles(groups)
        errors: list[BaseException] = []

        def next_group(runner: GroupRunner) -> Group | None:
            with self._lock:
                if self._stopping.is_set() or self._late(attempt):
                    return None
                mine = [name for name in waiting if self._homes.get(name, runner) is runner]
                if not mine:
                    return None
                begun = [name for name in mine if name in self._homes]
                name = (begun or mine)[0]
                self._homes[name] = runner
                group = waiting[name].pop(0)
                if not waiting[name]:
                    del waiting[name]
                return group

        def keep(group: Group, cell: Cell, measured: dict[str, Any]) -> None:
            self.keep(group, cell, measured, attempt, self._facts)

        def work(runner: GroupRunner) -> None:
            try:
                while (group := next_group(runner)) is not None:
                    runner.run(group, partial(keep, group))
            except BaseException as error:  # it is raised below, in the caller's thread
                errors.append(error)
                self._stopping.set()

        threads = [threading.Thread(target=work, args=(runner,), daemon=True) for runner in self._runners]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # Ctrl-C is handled between these short waits
                thread.join(timeout=0.2)
        if errors:
            raise errors[0]

    def _bundles(self, groups: list[Group]) -> dict[str, list[Group]]:
        """Return the groups by their problem, whatever the seed and the framework, since these share programs
        and references.

        With several workers the largest bundle comes first, so that they end at about the same time.
        """
        found: dict[str, list[Group]] = {}
        for number, group in enumerate(groups):
            columns = group.cells[0].columns
            shared = "problem_params" in columns and len(self._runners) > 1
            same = canonical([columns["problem"], columns["problem_params"]]) if shared else f"{number}"
            found.setdefault(same, []).append(group)
        if len(self._runners) == 1:
            return found
        return dict(sorted(found.items(), key=lambda item: -sum(len(group.cells) for group in item[1])))


def make_executor(
    store: Store,
    facts: Mapping[str, Any],
    scheduler: str | None = None,
    jobs: int = 1,
    job: str = JOB,
    env: Mapping[str, str] | None = None,
) -> Executor:
    """Return the executor on this machine, or on the Dask cluster of a scheduler where one is named."""
    if scheduler is not None:
        from bench.run.cluster import Cluster

        return Cluster(store, facts, scheduler, job)
    return Local(store, facts, job, jobs, env)


def attended(
    executor: Executor,
    groups: list[Group],
    reruns: int,
    say: Callable[[str], None],
    within_s: float = float("inf"),
) -> Tally:
    """Run with a reaction to Ctrl-C: the first finishes the running cells, the second ends at once."""

    def interrupted(*_: object) -> None:
        say("Finishing the cells in hand; press Ctrl-C again to end at once.")
        executor.stop()

    if threading.current_thread() is not threading.main_thread():
        return executor(groups, reruns, within_s)
    before = signal.signal(signal.SIGINT, interrupted)
    try:
        return executor(groups, reruns, within_s)
    finally:
        signal.signal(signal.SIGINT, before)
