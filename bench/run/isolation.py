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
from collections.abc import Iterator, Mapping
from multiprocessing import Pipe
from typing import Any, Literal, NamedTuple

KEEP = 4000  # bytes of the worker's last words


class Event(NamedTuple):
    """What became of a unit of work: `row` and `hand` come many times, one of the others ends it."""

    kind: Literal["hand", "row", "done", "died", "timeout", "failed"]
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
            if kind == "failed":
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
