"""Run a worker process that may crash, hang or take all memory without harm, since it is watched from outside.

The worker announces the cell that it works on. The watcher adds up the seconds of each cell, kills the worker at the
limit, and reports every end as an event. Nothing that the worker prints reaches the terminal; the last line of its
error stream is kept as the reason of a crash.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from multiprocessing import Pipe
from typing import Any, Literal, NamedTuple

from bench.measure.clock import PAUSES, WATCHER
from bench.run.worker import descendants
from bench.store.media import visible

KEEP = 4000  # bytes; this much of the end of the worker's error stream is kept
DRIFT = 0.1  # the worker's clock may differ from the watcher's by this part of the time that has passed
STARTING = 2.0  # seconds; a new worker may take this long until it has a process that can be paused
# Workers that run side by side and are not timed have one thread each, since more would slow down all of them.
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
}
# These are the names in the pickle of a NumPy array.
NUMBERS = ("_reconstruct", "_frombuffer", "scalar", "ndarray", "dtype")


class Event(NamedTuple):
    """Say what became of a unit of work: `row`, `hand`, `say` and `rest` come many times, one of the others ends it."""

    kind: Literal["hand", "say", "row", "rest", "done", "died", "timeout", "failed"]
    cell: str | None = None
    value: Any = None


class Words(pickle.Unpickler):
    """Read numbers, texts, containers and arrays; a message that would run code here is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.split(".")[0] == "numpy" and name in NUMBERS) or (module, name) in (
            ("datetime", "datetime"), ("datetime", "date"), ("datetime", "timezone"), ("datetime", "timedelta"),
            ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "complex"), ("builtins", "bytearray"),
            ("collections", "OrderedDict"),
        ):  # fmt: skip
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"an object of {module}.{name}")


def _still(pid: int) -> bool:
    """Return whether a process is stopped or gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t", b"Z", b"X")
    except OSError:
        return True


class Worker:
    """Control one spawned interpreter of `bench.run.worker`; use `run` until an event ends it, then `run` again."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        ours, theirs = Pipe(duplex=True)
        # The worker reads in this file for how many seconds it has been paused.
        self._ledger = tempfile.TemporaryFile()  # noqa: SIM115
        self._ledger.write(struct.pack("d", 0.0))
        self._ledger.flush()
        environment = {
            **os.environ,
            **(env or {}),
            PAUSES: f"{self._ledger.fileno()}:{os.fstat(self._ledger.fileno()).st_ino}",
            WATCHER: str(os.getpid()),
            "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
        }
        command = [sys.executable, "-m", "bench.run.worker", str(theirs.fileno()), str(os.getpid())]
        self._connection = ours
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno(), self._ledger.fileno()],
            env=environment,
            stdin=subprocess.PIPE,  # it closes when the watcher ends, and the worker ends too
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches only the watcher, which ends its workers
        )
        theirs.close()
        self._still: list[int] = []  # the ids of the paused processes
        self._since, self._paused = 0.0, 0.0
        self._words = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _listen(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while chunk := os.read(stream.fileno(), 65536):
            self._words = (self._words + chunk)[-KEEP:]

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Request no further cell; the present one is finished."""
        with contextlib.suppress(OSError):  # `run` reports a worker that has died
            self._connection.send(("stop", None))

    def go(self) -> None:
        """Let a worker go on that rests or waits for a verdict."""
        with contextlib.suppress(OSError):  # `run` reports a worker that has died
            self._connection.send(("go", None))

    def pause(self) -> None:
        """Stop the worker and what it started; its keeper goes on, which ends them if we end."""
        self._since = time.monotonic()
        while self.alive() and not self._still and time.monotonic() - self._since < STARTING:
            self._still = descendants(self.pid)
            for pid in self._still:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGSTOP)
        while not all(map(_still, self._still)) and time.monotonic() - self._since < STARTING:
            time.sleep(1e-3)

    def resume(self) -> None:
        """Let it go on; the time between is not counted."""
        self._paused, self._since = self._paused + time.monotonic() - self._since, 0.0
        os.pwrite(self._ledger.fileno(), struct.pack("d", self._paused), 0)
        for pid in self._still:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)
        self._still = []

    def _clock(self) -> float:
        """Return the seconds in which the worker could work."""
        since = self._since
        return (since or time.monotonic()) - self._paused

    def _pauses(self) -> float:
        """Return for how many seconds the worker was stopped up to now."""
        since = self._since
        return self._paused + (time.monotonic() - since if since else 0.0)

    def run(
        self, job: str, payload: Any, limit: float, start_limit: float = 120.0, timed: bool = True
    ) -> Iterator[Event]:
        """Do one job ("module:function"); no cell may take more than `limit` seconds of the worker's time.

        The time between an event and the request for the next one counts to no cell. Where the job is not `timed`, the
        worker's clock is not compared with the watcher's, because the two drift apart on a machine that suspends
        processes, and rows would be lost for no reason.
        """
        spent: dict[str | None, float] = defaultdict(float)
        cell: str | None = None
        since = self._clock()
        clocks: tuple[float, float] | None = None
        earliest, listening, kept = time.monotonic(), False, False
        # A worker may be stopped between reading its clock and sending the message.
        pauses, first = self._pauses(), 0.0
        try:
            self._connection.send(("job", (job, payload)))
        except OSError:
            yield Event("died", None, self._last_words())
            return
        while True:
            left = (start_limit if cell is None else limit) - spent[cell] - (self._clock() - since)
            if left <= 0:
                self.kill()
                yield Event("timeout", cell, limit if cell is not None else start_limit)
                return
            try:
                if not listening:
                    listening, kept = True, self._connection.poll(0)
                if not self._connection.poll(min(left, 0.5)):
                    continue
                message = Words(io.BytesIO(self._connection.recv_bytes())).load()
                kind, name, value, clock = message[0], message[1], message[2], float(message[3])
            except (EOFError, OSError):
                yield Event("died", cell, self._last_words())
                return
            except Exception as error:  # the message cannot be read, and its sender is not trusted any more
                self.kill()
                yield Event("died", cell, f"sent something unreadable ({type(error).__name__}: {error})")
                return
            now = time.monotonic()
            spent[cell] += self._clock() - since
            held, pauses = self._pauses() - pauses, self._pauses()
            if clocks is None:
                clocks, first = (clock, now), held
            theirs, ours = clock - clocks[0], now - clocks[1]
            # A message that was there already was sent at some moment since the one before was, while we stored rows.
            earliest = earliest if kept else now
            slack = 0.25 + DRIFT * ours
            if timed and not earliest - held - clocks[1] - slack <= theirs <= ours + first + slack:
                self.kill()
                yield Event("failed", cell, f"its clock says {theirs:.3g} s where {ours:.3g} s have passed")
                return
            if kind == "hand":
                cell = name
            if kind in ("failed", "say"):
                name = cell
            yield Event(kind, name, value)
            if kind in ("done", "failed"):
                return
            since, listening = self._clock(), False

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
        return visible(f"the worker ended with {name}" + (f": {tail[0][:300]}" if tail else ""))

    def kill(self) -> None:
        """End the worker and whatever it started, at once."""
        if self._process.poll() is None:
            self._process.terminate()  # the worker's keeper ends all that the worker started, then itself
            try:
                self._process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def close(self) -> None:
        self._connection.close()  # an idle worker ends by itself when its connection is closed
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()
        self._listener.join(timeout=1)
        self._ledger.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.stderr is not None and not self._listener.is_alive():
            self._process.stderr.close()


class Quiet:
    """Let one group at a time be timed: the workers of all other groups are stopped meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[Worker, object] = {}

    def start(self, owner: object, env: Mapping[str, str] | None = None) -> Worker:
        """Return a new worker of an owner; it is not started while another group is timed."""
        with self._lock:
            worker = Worker(env)
            self._owners[worker] = owner
            return worker

    def end(self, worker: Worker) -> None:
        """End a worker; one that is stopped is ended when it may go on."""
        with self._lock:
            self._owners.pop(worker, None)
        worker.close()

    @contextlib.contextmanager
    def alone(self, owner: object) -> Iterator[None]:
        """Stop the workers of all other owners while the body runs."""
        with self._lock:
            others = [worker for worker, whose in list(self._owners.items()) if whose is not owner]
            for worker in others:
                worker.pause()
            try:
                yield
            finally:
                for worker in others:
                    worker.resume()
