"""A worker process that may crash, hang or swallow the memory without harm: it is watched from outside.

The worker says which cell it has in hand; the watcher adds up each cell's seconds, kills the worker at the
limit, and reports every end as an event. Nothing the worker prints reaches the terminal: its last words are
kept as the reason of a crash.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe
from typing import Any, Literal, NamedTuple

from bench.plan.matrix import Cell, Group

Notice = Callable[[Group, Cell, str], None]  # the text is empty where a cell is only begun
Emit = Callable[[Cell, dict[str, Any]], None]
KEEP = 4000  # bytes of the worker's last words


class Event(NamedTuple):
    """What became of a unit of work: `row`, `hand` and `say` come many times, one of the others ends it."""

    kind: Literal["hand", "say", "row", "done", "died", "timeout", "failed"]
    cell: str | None = None
    value: Any = None


class Worker:
    """One spawned interpreter running `bench.run.worker`; use `run` until an event ends it, then `run` again."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        ours, theirs = Pipe(duplex=True)
        environment = {
            **os.environ,
            **(env or {}),
            "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
        }
        command = [sys.executable, "-X", "faulthandler", "-m", "bench.run.worker", str(theirs.fileno())]
        self._connection = ours
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the watcher, which ends its workers itself
        )
        theirs.close()
        self._words = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _listen(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while chunk := stream.read1(65536):  # type: ignore[attr-defined]
            self._words = (self._words + chunk)[-KEEP:]

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask for no further cell; the one in hand is finished."""
        with contextlib.suppress(OSError):  # it has died: the watcher is about to see it
            self._connection.send(("stop", None))

    def run(self, job: str, payload: Any, limit: float, start_limit: float = 120.0) -> Iterator[Event]:
        """Do one job ("module:function"); no cell may take more than `limit` seconds of the worker's time."""
        spent: dict[str | None, float] = defaultdict(float)
        cell: str | None = None
        since = time.monotonic()
        try:
            self._connection.send(("job", (job, payload)))
        except OSError:
            yield Event("died", None, self._last_words())
            return
        while True:
            left = (start_limit if cell is None else limit) - spent[cell] - (time.monotonic() - since)
            if left <= 0:
                self.kill()
                yield Event("timeout", cell, limit if cell is not None else start_limit)
                return
            try:
                if not self._connection.poll(min(left, 0.5)):
                    continue
                kind, name, value = self._connection.recv()
            except (EOFError, OSError, ValueError, TypeError, AttributeError, ImportError):
                self.kill()
                yield Event("died", cell, self._last_words())
                return
            except Exception as error:  # an unreadable message: what sent it cannot be trusted any more
                self.kill()
                yield Event("died", cell, f"sent something unreadable ({type(error).__name__})")
                return
            now = time.monotonic()
            if kind == "hand":
                spent[cell] += now - since
                cell, since = name, now
            if kind in ("failed", "say"):
                name = cell
            yield Event(kind, name, value)
            if kind in ("done", "failed"):
                return

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        self._listener.join(timeout=1)
        name = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        lines = [line for line in self._words.decode(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith(("Fatal", "MemoryError", "terminate called"))]
        tail = (fatal or lines)[-1:]
        return f"the worker ended with {name}" + (f": {tail[0][:300]}" if tail else "")

    def kill(self) -> None:
        """End the worker and whatever it started, at once."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        self._connection.close()  # an idle worker ends by itself when nobody speaks to it any more
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self._listener.join(timeout=1)
        if self._process.stderr is not None:
            self._process.stderr.close()


def failure(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}


class GroupRunner:
    """Runs groups one after the other in a worker of its own, which is replaced when a cell breaks it."""

    def __init__(
        self,
        stopping: threading.Event,
        job: str,
        env: Mapping[str, str] | None = None,
        notice: Notice = lambda group, cell, text: None,
    ) -> None:
        self._stopping, self._job, self._env, self._notice = stopping, job, env, notice
        self._worker: Worker | None = None
        self._killed = False

    def run(self, group: Group, emit: Emit) -> None:
        """Measure the group's cells; every one is emitted once, unless the run is being stopped."""
        pending = {cell.name: cell for cell in group.cells}
        blank_deaths = 0
        if group.settings.fresh_worker:
            self.close()
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
                    spare(broken, pending, emit)
                continue
            blank_deaths += 1  # no cell was in hand: once may be bad luck, twice is the problem itself
            if blank_deaths == 2 or end.kind == "failed":
                for cell in pending.values():
                    emit(cell, failure("crashed", f"the problem could not be prepared: {reason}"))
                return

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
            elif event.kind not in ("hand", "say"):
                return event
            elif event.cell in pending:
                self._notice(group, pending[event.cell], str(event.value or ""))
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


def spare(slow: Cell, pending: dict[str, Cell], emit: Emit) -> None:
    """A solver that ran into its limit in a gradient mode is not tried in that mode at a tighter tolerance.

    Another mode is: what took too long may have been the gradient.
    """
    tol, way = slow.columns.get("tol"), _way(slow)
    for name, cell in list(pending.items()):
        if tol is not None and _way(cell) == way and cell.columns["tol"] <= tol:
            reason = f"not tried: at the tolerance {tol:g} it already ran into its limit"
            emit(pending.pop(name), failure("timeout", reason))


def _way(cell: Cell) -> tuple[Any, ...]:
    """The solver and the gradient mode with its parameters."""
    return cell.solver, cell.columns.get("gradient"), repr(cell.columns.get("gradient_params"))
