"""The process in which cells are measured: it takes jobs from its watcher and says which cell it has in hand.

Started by `bench.run.isolation.Worker`, never by hand.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any


class Channel:
    """What a job may say to its watcher."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stopped = False

    def hand(self, cell: str | None) -> None:
        """From now on the time is spent for this cell (None: for all of them, e.g. to build the problem)."""
        self._connection.send(("hand", cell, None))

    def row(self, cell: str, columns: dict[str, Any]) -> None:
        """A cell is measured: these are its columns."""
        self._connection.send(("row", cell, columns))

    def say(self, text: str) -> None:
        """How far the cell in hand has come, in a few words."""
        self._connection.send(("say", None, text))

    def stopped(self) -> bool:
        """Whether the watcher asked for no further cell."""
        while not self._stopped and self._connection.poll():
            kind, _ = self._connection.recv()
            self._stopped = kind == "stop"
        return self._stopped

    def limit_memory(self, allowed: int | None) -> None:
        """Make an allocation beyond the limit (four fifths of the memory if not told) fail, not the machine."""
        limit_memory(allowed)

    def finish(self, kind: str, value: Any = None) -> None:
        self._connection.send((kind, None, value))


def limit_memory(allowed: int | None) -> None:
    """Make an allocation beyond the limit (four fifths of the memory if not told) fail, not the machine."""
    import resource

    if allowed is None:
        allowed = int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    # Private memory in use, not address space: CUDA and XLA reserve far more of the latter than they touch.
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or allowed < most:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, most))


def die_with_parent() -> None:
    """No orphans: when the watcher is killed, so is this process, whatever it is doing."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def serve(connection: Connection) -> None:
    """Do jobs until nobody asks for more."""
    while True:
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            return
        if kind != "job":
            continue  # a stop that came after the last job had ended
        channel = Channel(connection)
        name, payload = content
        try:
            module, function = name.split(":")
            getattr(import_module(module), function)(payload, channel)
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f" ({os.path.basename(last.filename)}:{last.lineno})"
            channel.finish("failed", f"{type(error).__name__}: {error}{where}"[:600])
        else:
            channel.finish("done")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
