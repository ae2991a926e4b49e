"""What the engine must survive: kills at any moment, a full disk, a clock going back, two runs at once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.store import load
from bench.store.maintenance import verify

HERE = Path(__file__).parents[1]
CELLS = 30
# A run of fake cells (0.05 s each) in five groups, done like the real ones: worker processes, store, resume.
RUN = """
import signal, sys, time
from bench.plan.matrix import Cell, Group, Settings
from bench.store import RecordsError, Store
from bench.run.executor import Local
facts = {"machine": "m", "machine_info": {"cpu": "x"}, "versions": {"python": "3"}}
def cell(n):
    columns = {"kind": "compare", "problem": "p", "solver": f"quick {n}", "versions": {"python": "3"}}
    return Cell(columns, "p", f"quick {n}")
settings = Settings(timeout=20, repeat=1)
groups = [Group(f"g{i}", tuple(cell(6 * i + j) for j in range(6)), settings) for i in range(5)]
try:
    with Store(sys.argv[1]) as store:
        run = Local(store, facts, "misbehaving:job")
        signal.signal(signal.SIGINT, lambda *_: run.stop())
        tally = run(run.remaining(groups), 0)
except RecordsError as error:
    print(error)
    sys.exit(3)
print(tally.rows)
sys.exit(130 if tally.stopped else 0)
"""


def start(store: Path, *wrapper: str, code: str = RUN) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)])}
    command = [*wrapper, sys.executable, "-c", code, str(store)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sound(store: Path) -> list[str]:
    """The solvers with a row; no row is torn or double."""
    assert verify(store) == []
    frame = load(store)
    assert frame.solver.is_unique
    assert (frame.status == "ok").all()
    assert (frame.gap == 1e-9).all()
    assert frame.repeat_asked.eq(1).all()
    return frame.solver.tolist()


def end_together(store: Path, count: int) -> None:
    """Runs at once on one store all end well, and leave every row once."""
    runs = [start(store) for _ in range(count)]
    for run in runs:
        _, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
    assert len(sound(store)) == CELLS


def goes_on(store: Path, missing: int) -> None:
    """The same command, given again, does what is missing and nothing else."""
    run = start(store)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert int(out) == missing
    assert len(sound(store)) == CELLS


def wait_for_rows(store: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if store.exists() and store.stat().st_size and len(load(store)) >= count:
            return
        time.sleep(0.02)


@pytest.mark.slow
def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    store, moments = tmp_path / "r.sqlite", random.Random(5)
    seen: set[str] = set()
    for _ in range(20):
        run = start(store)
        time.sleep(moments.uniform(0.1, 1.6))
        run.send_signal(signal.SIGKILL)
        run.communicate()
        if store.exists() and store.stat().st_size:
            rows = set(sound(store))
            assert seen <= rows, "a finished row was lost"
            seen = rows
    goes_on(store, CELLS - len(seen))


def test_one_kill_then_resume(tmp_path: Path) -> None:
    store = tmp_path / "r.sqlite"
    run = start(store)
    wait_for_rows(store, 3)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    kept = sound(store)
    assert len(kept) > 2
    goes_on(store, CELLS - len(kept))


def test_two_runs_on_one_store(tmp_path: Path) -> None:
    end_together(tmp_path / "r.sqlite", 2)


@pytest.mark.slow
def test_ten_first_runs_at_once_on_one_store(tmp_path: Path) -> None:
    end_together(tmp_path / "r.sqlite", 10)


SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
ssize_t pwrite64(int fd, const void *data, size_t size, off_t place) {
    usleep(5000);
    return ((ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64"))(fd, data, size, place);
}
int fdatasync(int fd) { usleep(200000); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
int fsync(int fd) { usleep(200000); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
def test_two_first_runs_on_a_slow_disk_end_with_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write to the store takes 5 ms and every wait for the disk 0.2 s, as over a network."""
    (tmp_path / "slow.c").write_text(SLOW)
    command = ["cc", "-shared", "-fPIC", "-o", "slow.so", "slow.c", "-ldl"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "slow.so"))
    code = (
        "import sys, time; from bench.store import Store; began = time.monotonic(); store = Store(sys.argv[1])\n"
        "store.put({'kind': 'compare', 'status': 'crashed', 'problem': 'q'}); print(time.monotonic() - began)"
    )
    alone, err = start(tmp_path / "alone.sqlite", code=code).communicate(timeout=60)
    assert float(alone) > 0.02, f"the delay has no effect: {err}"
    end_together(tmp_path / "r.sqlite", 2)


def test_a_full_disk_stops_with_a_sentence_and_the_run_goes_on_later(tmp_path: Path) -> None:
    store = tmp_path / "r.sqlite"
    limited = RUN.replace(
        "facts = ",
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\nfacts = ",
        1,
    )
    run = start(store, code=limited)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 3, err
    assert "No room left" in out
    assert len(sound(store)) < CELLS
    run = start(store)
    _, err = run.communicate(timeout=120)
    notes = [line for line in err.splitlines() if not line.startswith("gfy: preparing the ")]
    assert (run.returncode, notes) == (0, [])
    assert len(sound(store)) == CELLS


def test_a_clock_that_goes_backwards_harms_nothing(tmp_path: Path) -> None:
    store = tmp_path / "r.sqlite"
    backwards = RUN.replace(
        "from bench.plan.matrix",
        "import itertools, datetime as _d\n"
        "_falling = itertools.count(2_000_000_000, -3600)\n"
        "time.time = lambda: float(next(_falling))\n"
        "import bench.store.keys as _r\n"
        "class _Back(_d.datetime):\n"
        "    @classmethod\n"
        "    def now(cls, tz=None): return _d.datetime.fromtimestamp(time.time(), tz)\n"
        "_r.datetime = _Back\n"
        "from bench.plan.matrix",
        1,
    )
    run = start(store, code=backwards)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert int(out) == CELLS
    assert len(sound(store)) == CELLS
    created = load(store).sort_values("created").created
    assert created.is_unique


def test_ctrl_c_stops_after_the_cell_in_hand(tmp_path: Path) -> None:
    store = tmp_path / "r.sqlite"
    run = start(store, code=RUN.replace("quick", "short"))
    wait_for_rows(store, 2)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert int(out) == len(load(store)) < CELLS
