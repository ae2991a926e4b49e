"""Run groups in watched workers: each cell has its own row, and foreign code has its own worker.

The solvers of this suite share one worker. A solver that comes from a file or from another package has a worker of its
own, which no other solver uses. Only one of a group's workers runs at any moment. Each of them prepares its cells while
the others wait; then they take turns, with one round of timed calls per turn, in an order that changes from round to
round. So every solver is timed in every part of the run, whichever process it runs in. One further process judges what
the workers return, between the rounds. Several groups may be prepared and judged side by side; while one of them has a
round of timed calls, the processes of all the others are paused.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.plan.matrix import Cell, Group
from bench.plan.registry import is_stranger
from bench.run.isolation import ONE_THREAD, Event, Quiet, Worker
from solvers.kernels.call import prepare

Notice = Callable[[Group, Cell, str], None]  # the text is empty when a cell only begins
Emit = Callable[[Cell, dict[str, Any]], None]
JOB = "bench.measure.group:measure_group"
JUDGES = {JOB: "bench.measure.certification:judge"}  # the job that judges what another job returns
JUDGING_LIMIT = 300.0  # seconds; a verdict may take this long, the reference of its group included
GAVE_UP = ("crashed", "timeout", "unsupported", "not finite")


def failure(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}


@dataclass
class Share:
    """Hold the cells of a group that share a worker."""

    group: Group
    stranger: str | None
    pending: dict[str, Cell]
    events: Iterator[Event] | None = None
    blank_deaths: int = 0


def shares(group: Group) -> list[Share]:
    """Return our cells together, and those of each foreign solver apart."""
    found: dict[str | None, dict[str, Cell]] = {}
    for cell in group.cells:
        stranger = cell.solver if cell.solver and is_stranger(cell.solver) else None
        found.setdefault(stranger, {})[cell.name] = cell
    return [Share(group, stranger, cells) for stranger, cells in found.items()]


class GroupRunner:
    """Run groups one after the other; a worker is replaced when a cell breaks it."""

    def __init__(
        self,
        stopping: threading.Event,
        job: str,
        env: Mapping[str, str] | None = None,
        notice: Notice = lambda group, cell, text: None,
        quiet: Quiet | None = None,
    ) -> None:
        self._quiet = quiet or Quiet()
        self._stopping, self._job, self._env, self._notice = stopping, job, env, notice
        self._workers: dict[str | None, Worker] = {}
        self._judge: Worker | None = None
        self._slow: list[Cell] = []  # cells that reached their limit
        self._killed = False

    def run(self, group: Group, emit: Emit) -> None:
        """Measure the group's cells; every one is emitted once, unless the run is being stopped."""
        prepare()  # the kernels are compiled here, outside the time limits of the cells
        foreign = any(cell.problem and is_stranger(cell.problem) for cell in group.cells)
        if group.settings.fresh_worker:
            self.close()
        active, order = shares(group), random.Random(group.label)
        for share in active:
            self._spare_slow(share, emit)
        while active and not self._killed:
            order.shuffle(active)
            active = [share for share in active if self._advance(share, emit)]
        for name in [name for name in self._workers if name is not None or foreign]:
            self._end_worker(name)
        if foreign:
            self._end_judge()

    def _spare_slow(self, share: Share, emit: Emit) -> None:
        """Skip what reached its limit at another seed of the same problem, where everything else is equal."""
        for slow in self._slow:
            work, tol, seed = _but_seed(slow), slow.columns.get("tol"), slow.columns.get("seed")
            for name, cell in list(share.pending.items()):
                other = cell.columns.get("seed") != seed and _but_seed(cell) == work
                if other and tol is not None and cell.columns["tol"] <= tol:
                    reason = f"not tried: with the seed {seed} it ran into its limit at the tolerance {tol:g}"
                    emit(share.pending.pop(name), failure("timeout", reason))

    def _advance(self, share: Share, emit: Emit) -> bool:
        """Let a share prepare its cells or run its round; return whether there is more to do."""
        if share.events is None:
            if not share.pending or self._stopping.is_set():
                return False
            share.events = self._begin(share)
            end = self._listen(share, share.events, lambda cell, told: self._judged(share, cell, told, emit))
        else:
            timed: list[tuple[Cell, Any]] = []  # these are judged after the round
            with self._quiet.alone(self):
                self._workers[share.stranger].go()
                end = self._listen(share, share.events, lambda cell, told: timed.append((cell, told)))
            for cell, told in timed:
                self._judged(share, cell, told, emit)
        if self._killed:
            return False  # this run killed the worker, so that its end says nothing about the cell
        if end.kind == "rest":
            return True
        share.events = None
        if end.kind != "done":
            self._end_worker(share.stranger)  # a process in which something went wrong is not used again
        return self._ended(share, end, emit)

    def _begin(self, share: Share) -> Iterator[Event]:
        worker = self._workers.get(share.stranger)
        if worker is None or not worker.alive():
            self._end_worker(share.stranger)
            worker = self._workers[share.stranger] = self._quiet.start(self, self._env)
        limit = share.group.settings.timeout
        work = share.group.only(set(share.pending))
        return worker.run(self._job, work, limit, max(120.0, limit), not share.group.settings.accuracy_only)

    def _judged(self, share: Share, cell: Cell, told: Any, emit: Emit) -> None:
        """Emit the row of a cell, unless the judge was killed with all other processes."""
        row = self._row(share.group, cell, told)
        if not self._killed:
            emit(cell, row)

    def _listen(self, share: Share, events: Iterator[Event], emit: Callable[[Cell, Any], None]) -> Event:
        """Receive messages of a worker until it rests or ends."""
        worker, told = self._workers[share.stranger], False
        for event in events:
            if event.kind == "row":
                cell = share.pending.pop(str(event.cell), None)
                if cell is not None:
                    emit(cell, event.value)
                if isinstance(event.value, dict) and "evidence" in event.value:
                    worker.go()
            elif event.kind not in ("hand", "say"):
                return event
            elif event.cell in share.pending:
                self._notice(share.group, share.pending[event.cell], str(event.value or ""))
            # The request is repeated, since the first one may have arrived before the job began.
            if self._stopping.is_set() and not told:
                worker.stop()
                told = True
        raise AssertionError("a worker's events always end with one of its ends")

    def _row(self, group: Group, cell: Cell, columns: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a row; what is judged comes from the judge, and what identifies the row from
        its cell."""
        if self._job not in JUDGES:
            return columns
        if not isinstance(columns, dict):
            return failure("crashed", "it sent a row that is none")
        evidence = columns.get("evidence")
        own = {n: x for n, x in columns.items() if n != "evidence" and n not in cell.columns}
        if evidence is not None:
            return own | self._verdict(group, cell, evidence)
        if own.get("status") in GAVE_UP:
            return failure(str(own["status"]), str(own.get("reason"))[:600])
        return failure("crashed", "it sent no solution that could be judged")

    def _verdict(self, group: Group, cell: Cell, evidence: dict[str, Any]) -> dict[str, Any]:
        if self._judge is None or not self._judge.alive():
            self._end_judge()
            self._judge = self._quiet.start(self, {**(self._env or {}), **ONE_THREAD})
        question = (cell, evidence, min(30.0, group.settings.timeout))
        found, end = None, None
        for end in self._judge.run(JUDGES[self._job], question, JUDGING_LIMIT, JUDGING_LIMIT):
            found = end.value if end.kind == "row" else found
        if found is not None and end is not None and end.kind == "done":
            return dict(found)
        self._end_judge()
        why = "the judge gave no verdict" if end is None else f"the solution could not be judged: {end.value}"
        return failure("crashed", why)

    def _ended(self, share: Share, end: Event, emit: Emit) -> bool:
        """Record what the end of a job means for the cells that are left, and return whether they are tried again."""
        pending = share.pending
        if end.kind == "done":
            if not self._stopping.is_set():
                for cell in pending.values():
                    emit(cell, failure("crashed", "the worker finished without a word about this cell"))
            return False
        reason = str(end.value)
        if end.kind == "timeout":
            reason = f"stopped at its limit of {float(end.value):g} s"
        if end.cell in pending:
            broken = pending.pop(end.cell)
            emit(broken, failure("timeout" if end.kind == "timeout" else "crashed", reason))
            if end.kind == "timeout":
                self._slow.append(broken)
                spare(broken, pending, emit)
            return bool(pending)
        # The worker died before it announced a cell. The second time, the problem itself is taken as the cause.
        share.blank_deaths += 1
        if share.blank_deaths == 2 or end.kind == "failed":
            for cell in pending.values():
                emit(cell, failure("crashed", f"the problem could not be prepared: {reason}"))
            return False
        return bool(pending)

    def _end_worker(self, name: str | None) -> None:
        worker = self._workers.pop(name, None)
        if worker is not None:
            self._quiet.end(worker)

    def _end_judge(self) -> None:
        if self._judge is not None:
            self._quiet.end(self._judge)
            self._judge = None

    def close(self) -> None:
        for name in list(self._workers):
            self._end_worker(name)
        self._end_judge()

    def stop(self) -> None:
        for worker in list(self._workers.values()):
            worker.stop()

    def kill(self) -> None:
        self._killed = True
        for worker in [*self._workers.values(), *([self._judge] if self._judge else [])]:
            worker.kill()


def spare(slow: Cell, pending: dict[str, Cell], emit: Emit) -> None:
    """Skip a solver that reached its limit in a gradient mode at tighter tolerances in that mode.

    Its cells in other gradient modes are still measured, since the gradient may have been what took too long.
    """
    tol, way = slow.columns.get("tol"), _way(slow)
    for name, cell in list(pending.items()):
        if tol is not None and _way(cell) == way and cell.columns["tol"] <= tol:
            reason = f"not tried: at the tolerance {tol:g} it already ran into its limit"
            emit(pending.pop(name), failure("timeout", reason))


def _way(cell: Cell) -> tuple[Any, ...]:
    """Return the solver and the gradient mode with its parameters."""
    return cell.solver, cell.columns.get("gradient"), repr(cell.columns.get("gradient_params"))


def _but_seed(cell: Cell) -> dict[str, Any]:
    """Return what determines a cell but the seed and the tolerance."""
    varied = ("seed", "problem_probe", "tol", "tol_given", "search")
    return {name: x for name, x in cell.columns.items() if name not in varied}
