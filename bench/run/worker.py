"""Measure cells in a process that takes jobs from its watcher and reports the present cell.

`bench.run.isolation.Worker` starts it, and it is never started by hand. It consists of two processes: a keeper that
runs nothing but this file, and its child, which does the jobs. When the child ends, or the watcher goes away, the
keeper ends everything that the child started, including processes that left its process group or its parent, and then
itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
import traceback
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Channel:
    """Send what a job may report to its watcher."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stopped = False
        self._process = os.getpid()

    def _say(self, kind: str, cell: str | None = None, value: Any = None) -> None:
        if os.getpid() != self._process:
            os._exit(0)  # a solver forked, and its child returned here as well
        self._connection.send((kind, cell, value, time.perf_counter()))

    def _wait(self) -> None:
        """Wait until the watcher says that it goes on."""
        while True:
            kind, _ = self._connection.recv()
            if kind == "go":
                return
            self._stopped = self._stopped or kind == "stop"

    def hand(self, cell: str | None) -> None:
        """Report that from now on the time is spent for this cell (None: for all of them, e.g. to build the
        problem)."""
        self._say("hand", cell)

    def row(self, cell: str, columns: dict[str, Any], evidence: dict[str, Any] | None = None) -> None:
        """Report the columns of a measured cell. With evidence they are judged first, and this call waits."""
        self._say("row", cell, columns if evidence is None else {**columns, "evidence": evidence})
        if evidence is not None:
            self._wait()

    def say(self, text: str) -> None:
        """Report the progress of the present cell in a few words."""
        self._say("say", None, text)

    def rest(self) -> None:
        """Let the other workers of a group run their round; return when it is this one's turn again."""
        self._say("rest")
        self._wait()

    def stopped(self) -> bool:
        """Return whether the watcher requested no further cell."""
        while not self._stopped and self._connection.poll():
            kind, _ = self._connection.recv()
            self._stopped = kind == "stop"
        return self._stopped

    def limit_memory(self, allowed: int | None) -> None:
        """Make an allocation beyond the limit (four fifths of the memory by default) fail, not the machine."""
        limit_memory(allowed)

    def finish(self, kind: str, value: Any = None) -> None:
        self._say(kind, None, value)


def limit_memory(allowed: int | None) -> None:
    """Make an allocation beyond the limit (four fifths of the memory by default) fail, not the machine."""
    import resource

    if allowed is None:
        allowed = int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    # The limit is on private memory and not on address space, of which CUDA and XLA reserve far more than they use.
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or allowed < most:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, most))


def serve(connection: Connection) -> None:
    """Do jobs until no more are requested."""
    while True:
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            return
        if kind != "job":
            continue  # this request to stop came after the last job had ended
        channel = Channel(connection)
        name, payload = content
        try:
            module, function = name.split(":")
            getattr(import_module(module), function)(payload, channel)
        except BaseException as error:
            channel.finish("failed", told(error))
        else:
            channel.finish("done")


def told(error: BaseException) -> str:
    """Return an error in one line, whatever its own text does when it is read."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    try:
        text = str(error)
    except Exception:
        text = "its message cannot be read"
    if type(error).__module__ == "gfy.errors":
        return text[:600]  # such a message is a sentence already
    return f"{type(error).__name__}: {text} ({os.path.basename(last.filename)}:{last.lineno})"[:600]


def _set(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def descendants(pid: int) -> list[int]:
    """Return the processes below one, as the kernel knows them; there are none on systems without /proc."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *descendants(child)]
    return found


def sweep(child: int) -> None:
    """End everything that a child of this process started; orphans of it have become children of this process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    for _ in range(100):  # a process that is started meanwhile is found in the next round
        below = descendants(os.getpid())
        if not below:
            return
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def keep(child: int, parent: int) -> NoReturn:
    """Wait for the child's end, the watcher's end or its message; end what is left; exit as the child did."""
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    code = None
    while code is None:
        ready, _, _ = select.select([0, heard], [], [], 1.0)
        said = os.read(heard, 64) if heard in ready else b""
        with contextlib.suppress(ChildProcessError):
            while (done := os.waitpid(-1, os.WNOHANG))[0]:  # orphans of the child are reaped as well
                code = os.waitstatus_to_exitcode(done[1]) if done[0] == child else code
        if code is None and (0 in ready or signal.SIGTERM in said or os.getppid() != parent):
            code = -int(signal.SIGKILL)
    sweep(child)
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent, fd = int(sys.argv[2]), int(sys.argv[1])
    _set(PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    child = os.fork()
    if child:
        os.close(fd)
        os.close(2)  # the error stream ends when the child ends
        keep(child, parent)
    os.setsid()  # signals that the child sends to its group do not reach the keeper
    _set(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    import faulthandler

    faulthandler.enable()
    serve(Connection(fd))


if __name__ == "__main__":
    main()
