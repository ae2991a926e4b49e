"""A job for the workers in which each cell does what the name of its solver says."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from typing import Any

from bench.plan.matrix import Group
from bench.run.worker import Channel


def job(group: Group, channel: Channel) -> None:
    channel.limit_memory(group.settings.memory)
    if group.label == "unbuildable":
        os._exit(5)
    for cell in group.cells:
        if channel.stopped():
            return
        channel.hand(cell.name)
        columns = act(cell.solver)
        channel.hand(None)
        if columns is not None:
            channel.row(cell.name, columns)


def by_column(group: Group, channel: Channel) -> None:
    """The same, where several cells share one text of a solver: the column says what each does."""
    for cell in group.cells:
        channel.hand(cell.name)
        columns = act(str(cell.columns["solver"]))
        channel.hand(None)
        if columns is not None:
            channel.row(cell.name, columns)


def act(name: str) -> dict[str, Any] | None:
    if name.startswith("segfault"):
        ctypes.string_at(0)
    elif name.startswith("forever"):
        while True:
            time.sleep(60)
    elif name.startswith("spin"):
        while True:
            pass
    elif name.startswith("memory"):
        hoard = []
        while True:
            hoard.append(bytearray(2**24))
    elif name.startswith("garbage"):
        for _ in range(200):
            os.write(1, os.urandom(10_000))
            os.write(2, os.urandom(10_000))
        print("\x1b[2J\x00 nonsense", file=sys.stderr)
    elif name.startswith("daemon"):  # a grandchild that has left its parent, its group and its session
        where, sleep = name.split()[1], "import time; time.sleep(90)"
        code = (
            "import os, subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
            "start_new_session=True); open(sys.argv[2], 'w').write(str(child.pid))"
        )
        subprocess.run([sys.executable, "-c", code, sleep, where], check=True, start_new_session=True)
        if name.endswith("wait"):
            time.sleep(60)
    elif name.startswith("exit"):
        os._exit(0)
    elif name.startswith("raises"):
        raise ZeroDivisionError("one over nothing")
    elif name.startswith("silent"):
        return None
    elif name.startswith("quick"):
        time.sleep(0.02)
    elif name.startswith("short"):
        time.sleep(0.1)
    elif name.startswith("steps"):
        for _ in range(20):
            time.sleep(0.03)
    elif name.startswith("late"):
        wait_after_the_next_look_at_the_clock(1.5)
    load = 0.0
    if name.startswith("loaded"):
        load = 2.0
    return {"status": "ok", "gap": 1e-9, "steady_s": 0.1, "load": load, "loaded": int(load > 0)}


def wait_after_the_next_look_at_the_clock(seconds: float) -> None:
    look = time.perf_counter

    def once() -> float:
        time.perf_counter = look
        now = look()
        time.sleep(seconds)
        return now

    time.perf_counter = once
