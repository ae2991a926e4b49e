"""Whatever a cell does, it becomes one row, the others are measured, and a stopped run is taken up again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from bench.plan.matrix import Cell, Group, Settings
from bench.run.executor import Executor, Local
from bench.run.isolation import Quiet, Worker
from bench.run.worker import descendants
from bench.store import Store, load

FACTS = {"machine": "m", "machine_info": {"cpu": "x"}, "versions": {"python": "3"}}


def cells(*names: str) -> tuple[Cell, ...]:
    return tuple(Cell({"kind": "compare", "problem": "p", "solver": n, "seed": 0}, "p", n) for n in names)


def run(path: Path, *groups: Group, jobs: int = 1, reruns: int = 0) -> pd.DataFrame:
    with Store(path) as store:
        Local(store, FACTS, "misbehaving:job", jobs)(groups, reruns)
    return load(path).set_index("solver")


@pytest.fixture(autouse=True)
def _jobs_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def test_each_misbehaviour_is_one_row_and_the_rest_is_measured(tmp_path: Path) -> None:
    names = ("good a", "segfault", "good b", "garbage", "exit", "raises", "silent", "memory", "good c")
    settings = Settings(timeout=20, memory=2**30)
    frame = run(tmp_path / "r.sqlite", Group("g", cells(*names), settings))
    assert sorted(frame.index) == sorted(names)
    for name in ("good a", "good b", "good c", "garbage"):
        assert frame.status[name] == "ok"
    for name, words in (
        ("segfault", "SIGSEGV"), ("exit", "exit code 0"), ("raises", "ZeroDivisionError: one over nothing"),
        ("silent", "without a word"), ("memory", "MemoryError"),
    ):  # fmt: skip
        assert frame.status[name] == "crashed"
        assert words in frame.reason[name]


@pytest.mark.parametrize("name", ["forever", "spin"])
def test_a_cell_is_killed_at_its_limit(name: str) -> None:
    worker = Worker()
    group = Group("g", cells("good", name), Settings(timeout=1.5))
    began = None
    try:
        for event in worker.run("misbehaving:job", group, 1.5):
            if event.kind == "hand" and event.cell == group.cells[1].name:
                began = time.monotonic()
    finally:
        worker.close()
    assert event.kind == "timeout"
    assert event.cell == group.cells[1].name
    assert 1.4 < time.monotonic() - began < 1.5 * 1.1 + 1.0
    assert not worker.alive()


@pytest.mark.parametrize(("untimed", "status"), [(True, "ok"), (False, "crashed")])
def test_clocks_that_drift_apart_cost_no_row_where_nothing_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untimed: bool, status: str
) -> None:
    """As after a suspension, in which a message waits to be read: here no drift at all is allowed."""
    monkeypatch.setattr("bench.run.isolation.DRIFT", -1e6)
    group = Group("g", cells("good a", "good b"), Settings(timeout=20, accuracy_only=untimed))
    frame = run(tmp_path / "r.sqlite", group)
    assert frame.status["good b"] == status


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(("stopped", "end"), [(True, "done"), (False, "failed")])
def test_a_worker_that_is_stopped_between_its_clock_and_its_message_loses_no_row(
    stopped: bool, end: str
) -> None:
    """Without a stop the same message is late, and its clock is not believed."""
    quiet = Quiet()
    worker = quiet.start("others")
    group = Group("g", cells("good", "late"), Settings(timeout=20))
    kinds = []
    try:
        for event in worker.run("misbehaving:job", group, 20.0):
            kinds.append(event.kind)
            if stopped and event.kind == "hand" and event.cell == group.cells[1].name:
                time.sleep(0.2)
                with quiet.alone("me"):
                    time.sleep(1.6)
    finally:
        quiet.end(worker)
    assert kinds[-1] == end


def test_a_timeout_is_a_row_and_the_others_follow(tmp_path: Path) -> None:
    frame = run(tmp_path / "r.sqlite", Group("g", cells("a", "forever", "b"), Settings(timeout=1)))
    assert frame.status.to_dict() == {"a": "ok", "forever": "timeout", "b": "ok"}
    assert "1 s" in frame.reason["forever"]


def test_a_solver_at_its_limit_is_not_tried_at_tighter_tolerances(tmp_path: Path) -> None:
    ladder = tuple(
        Cell({"kind": "compare", "problem": "p", "solver": name, "tol": tol, "seed": 0}, "p", name)
        for name in ("forever", "good")
        for tol in (1e-3, 1e-6, 1e-9)
    )
    began = time.monotonic()
    with Store(tmp_path / "r.sqlite") as store:
        Local(store, FACTS, "misbehaving:job")([Group("g", ladder, Settings(timeout=1))], 0)
        frame = store.frame()
    assert time.monotonic() - began < 60
    slow = frame[frame.solver == "forever"].set_index("tol")
    assert set(slow.status) == {"timeout"}
    assert "its limit of 1 s" in slow.reason[1e-3]
    assert slow.reason[1e-9] == "not tried: at the tolerance 0.001 it already ran into its limit"
    assert (frame[frame.solver == "good"].status == "ok").all()


def test_a_mode_at_its_limit_does_not_spare_the_other_modes(tmp_path: Path) -> None:
    ways = [("forever", "envelope", 1e-6), ("forever", "envelope", 1e-9), ("good", "implicit", 1e-9)]
    both = tuple(
        Cell(
            {"kind": "compare", "problem": "p", "solver": name, "gradient": mode, "tol": tol, "seed": 0},
            "p",
            "s",
        )
        for name, mode, tol in ways
    )
    with Store(tmp_path / "r.sqlite") as store:
        Local(store, FACTS, "misbehaving:by_column")([Group("g", both, Settings(timeout=1))], 0)
        frame = store.frame().set_index(["gradient", "tol"])
    assert frame.status.to_dict() == {
        ("envelope", 1e-6): "timeout", ("envelope", 1e-9): "timeout", ("implicit", 1e-9): "ok",
    }  # fmt: skip
    assert frame.reason[("envelope", 1e-9)].startswith("not tried")


def test_a_solver_at_its_limit_is_not_tried_at_other_seeds_of_the_same_problem(tmp_path: Path) -> None:
    def group(seed: int, problem: str = "p") -> Group:
        found = tuple(
            Cell(
                {"kind": "compare", "problem": problem, "solver": name, "tol": tol, "seed": seed},
                problem,
                name,
            )
            for name in ("forever", "good")
            for tol in (1e-3, 1e-6)
        )
        return Group(f"{problem} {seed}", found, Settings(timeout=1))

    with Store(tmp_path / "r.sqlite") as store:
        Local(store, FACTS, "misbehaving:job")([group(0), group(1), group(1, "q")], 0)
        frame = store.frame().set_index(["problem", "seed", "solver", "tol"])
    told = "not tried: with the seed 0 it ran into its limit at the tolerance 0.001"
    assert frame.reason["p", 1, "forever", 1e-3] == frame.reason["p", 1, "forever", 1e-6] == told
    assert frame.reason["q", 1, "forever", 1e-3] == "stopped at its limit of 1 s"
    assert (frame.xs("good", level="solver").status == "ok").all()


@pytest.mark.parametrize("loads", [(2.0, 1.0), (1.0, 2.0)])
def test_the_quieter_of_two_timings_is_kept(tmp_path: Path, loads: tuple[float, float]) -> None:
    (cell,) = cells("a")
    group = Group("g", (cell,))
    with Store(tmp_path / "r.sqlite") as store:
        executor = Executor(store, FACTS)  # the rule of every executor
        told: list[float] = []
        executor.tell(lambda group, cell, row: told.append(row["load"]))
        for attempt, load in enumerate(loads):
            executor.keep(group, cell, {"status": "ok", "load": load, "loaded": 1}, attempt, FACTS)
        frame = store.frame()
    assert frame.load.tolist() == [1.0]
    assert told == [loads[0], 1.0], "the listener hears of what is stored"
    assert frame.attempt.tolist() == [2]


@pytest.mark.slow
def test_a_problem_that_cannot_be_built_fails_its_own_cells_only(tmp_path: Path) -> None:
    groups = [Group("unbuildable", cells("a", "b")), Group("fine", cells("c"))]
    frame = run(tmp_path / "r.sqlite", *groups)
    assert frame.status.to_dict() == {"a": "crashed", "b": "crashed", "c": "ok"}
    assert "could not be prepared" in frame.reason["a"]


def test_several_workers_do_all_groups_once(tmp_path: Path) -> None:
    groups = [Group(f"g{i}", cells(*(f"short {i} {j}" for j in range(3)))) for i in range(4)]
    frame = run(tmp_path / "r.sqlite", *groups, jobs=2)
    assert len(frame) == 12
    assert frame.index.is_unique


def states(worker: Worker) -> set[str]:
    """In which states the processes of a worker are, as the kernel says: T where they stand still."""
    found = [Path(f"/proc/{pid}/stat").read_text() for pid in descendants(worker.pid)]
    return {text.rsplit(")", 1)[1].split()[0] for text in found}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
def test_while_one_group_is_timed_the_workers_of_the_others_stand_still_and_their_time_does_not_count() -> (
    None
):
    quiet = Quiet()
    mine, theirs = quiet.start("me"), quiet.start("others")
    group = Group("g", cells("steps"), Settings(timeout=1.5))
    try:
        events = theirs.run("misbehaving:job", group, 1.5)
        while next(events).kind != "hand":
            pass
        with quiet.alone("me"):
            assert states(theirs) == {"T"}
            assert "T" not in states(mine)
            time.sleep(2.0)  # longer than the limit of the cell
        kinds = [event.kind for event in events]
        assert kinds[-1] == "done"
        assert "row" in kinds
    finally:
        quiet.end(mine)
        quiet.end(theirs)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
def test_a_worker_that_stands_still_ends_with_its_watcher() -> None:
    worker = Worker()
    worker.pause()
    below = descendants(worker.pid)
    assert below
    worker.kill()
    assert not any(Path(f"/proc/{pid}").exists() for pid in below)
    worker.close()


def test_stop_finishes_the_cell_in_hand_and_begins_no_other(tmp_path: Path) -> None:
    store = Store(tmp_path / "r.sqlite")
    seen: list[str] = []
    group = Group("g", cells(*(f"short {i}" for i in range(50))))
    running = Local(store, FACTS, "misbehaving:job")
    running.tell(lambda g, c, r: seen.append(c.solver))
    threading.Thread(target=lambda: (wait_for(lambda: len(seen) >= 2), running.stop()), daemon=True).start()
    tally = running([group])
    assert tally.stopped
    assert 2 <= len(store) == len(seen) < 10
    store.close()


def test_a_second_stop_ends_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "r.sqlite")
    running = Local(store, FACTS, "misbehaving:job")
    began = time.monotonic()

    def press_twice() -> None:
        time.sleep(1.5)
        running.stop()
        time.sleep(0.3)
        running.stop()

    threading.Thread(target=press_twice, daemon=True).start()
    tally = running([Group("g", cells("forever"), Settings(timeout=60))])
    assert tally.stopped
    assert time.monotonic() - began < 10
    assert len(store) == 0
    store.close()


def test_rows_under_load_are_flagged_and_measured_again(tmp_path: Path) -> None:
    seen: list[str] = []
    with Store(tmp_path / "r.sqlite") as store:
        running = Local(store, FACTS, "misbehaving:job")
        running.tell(lambda g, c, r: seen.append(c.solver))
        tally = running([Group("g", cells("quiet", "loaded"))], rerun_loaded=1)
        frame = store.frame().set_index("solver")
    assert seen == ["quiet", "loaded", "loaded"]
    assert tally.rows == 2
    assert tally.loaded == 1
    assert frame.loaded.to_dict() == {"quiet": 0, "loaded": 1}
    assert frame.attempt["loaded"] == 2
    assert tally.passes == 2


def test_the_summary_says_how_often_rows_were_timed_under_load(tmp_path: Path) -> None:
    from bench.commands.compare import under_load

    said = []
    for reruns in (0, 1, 2):
        with Store(tmp_path / f"{reruns}.sqlite") as store:
            running = Local(store, FACTS, "misbehaving:job")
            tally = running([Group("g", cells("quiet", "loaded"))], rerun_loaded=reruns)
        said.append(under_load(tally.loaded, tally.passes))
    assert said[0].startswith("1 row was timed while other programs were busy: flagged;")
    assert "both times" in said[1]
    assert "all 3 times" in said[2]
    assert under_load(2, 2).startswith("2 rows were")


def test_a_worker_dies_with_its_watcher() -> None:
    code = (
        "import time; from bench.run.isolation import Worker; print(Worker().pid, flush=True); time.sleep(60)"
    )
    watcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert watcher.stdout is not None
    pid = int(watcher.stdout.readline())
    time.sleep(0.5)
    watcher.kill()
    watcher.wait()
    watcher.stdout.close()
    assert wait_for(lambda: not running_pid(pid), 5)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux hands orphans to a keeper")
def test_what_a_cell_started_ends_with_its_worker(tmp_path: Path) -> None:
    mark, began = tmp_path / "pid", time.monotonic()
    frame = run(tmp_path / "r.sqlite", Group("g", cells(f"daemon {mark}", "good"), Settings(timeout=30)))
    assert set(frame.status) == {"ok"}
    assert time.monotonic() - began < 25, "a child of a solver held the run up"
    assert not running_pid(int(mark.read_text()))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux hands orphans to a keeper")
def test_what_a_cell_started_ends_when_the_watcher_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = (
        "import sys; from bench.run.isolation import Worker; from bench.plan.matrix import *; "
        "cell = Cell({'kind': 'compare', 'problem': 'p'}, 'p', sys.argv[1]); "
        "list(Worker().run('misbehaving:job', Group('g', (cell,)), 60))"
    )
    here = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[3])])
    command = [sys.executable, "-c", code, f"daemon {mark} wait"]
    watcher = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": here})
    assert wait_for(lambda: mark.exists() and mark.read_text(), 30)
    pid = int(mark.read_text())
    assert running_pid(pid)
    watcher.kill()
    watcher.wait()
    assert wait_for(lambda: not running_pid(pid), 5)


def running_pid(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")


def wait_for(condition: object, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False
