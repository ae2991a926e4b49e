"""The clock: programs take turns, slow ones rest, staging is told apart, load by others is seen."""

from __future__ import annotations

import multiprocessing
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.measure import clock
from bench.measure.clock import (
    ENOUGH,
    FAR,
    LONGER_THAN_A_PAUSE_S,
    PAUSES,
    LoadMeter,
    Program,
    Stopwatch,
    break_even,
    rotate,
    working_seconds,
)
from bench.measure.compiled import (
    FOLDER,
    calls_host,
    compilation_cache,
    compile_jax,
    compile_seconds,
    trace_jax,
)
from bench.store.environment import cores, fingerprint, machine, row_facts
from gfy.backend import get_backend


class Told:
    """A program that notes when it was called and waited for."""

    def __init__(self, name: str, log: list[str], seconds: float = 0.001) -> None:
        self.name, self.log, self.seconds = name, log, seconds
        self.program = Program(self.call, self.sync, owner=name)
        self.program.first_s = seconds

    def call(self) -> str:
        self.log.append(self.name)
        return self.name

    def sync(self, result: str) -> str:
        time.sleep(self.seconds)
        self.log.append(f"waited for {result}")
        return result


def test_competitors_take_turns_and_every_call_is_waited_for() -> None:
    log: list[str] = []
    told = [Told(name, log) for name in "abc"]
    handed: list[str | None] = []
    rotate([t.program for t in told], repeat=4, budget=1.0, seed=1, hand=handed.append)
    calls = [entry for entry in log if len(entry) == 1]
    rounds = [calls[i : i + 3] for i in range(0, 12, 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len({tuple(r) for r in rounds}) > 1, "the order is shuffled"
    assert log[1::2] == [f"waited for {name}" for name in log[::2]]
    assert handed == [*calls, None]
    for t in told:
        assert len(t.program.samples) == 4
        assert t.program.best is not None
        assert t.program.median is not None
        assert t.seconds <= t.program.best <= t.program.median


def test_a_slow_program_rests_when_its_budget_is_spent() -> None:
    log: list[str] = []
    slow, quick = Told("s", log, 0.05), Told("q", log, 0.0005)
    rotate([slow.program, quick.program], repeat=5, budget=0.1, seed=0)
    assert 2 <= len(slow.program.samples) <= 3
    assert len(quick.program.samples) == 5
    very = Told("v", log, 0.2)
    rotate([very.program], repeat=10, budget=0.05)
    assert len(very.program.samples) == 1


class Scripted(Program):
    """A program whose samples are given."""

    def __init__(self, seconds: float, *contests: str) -> None:
        super().__init__(lambda: None, lambda x: x, contests=frozenset(contests))
        self.seconds = seconds

    def sample(self) -> float:
        self.samples.append(self.seconds * (1 + 0.01 * len(self.samples)))
        return self.samples[-1]


def test_a_program_whose_place_is_settled_rests_and_rivals_that_are_close_go_on() -> None:
    quick, slow, slower = (Scripted(s, "solve") for s in (0.001, 0.02, 0.021))
    rotate([quick, slow, slower], repeat=8, budget=10.0)
    assert len(quick.samples) == 3
    assert len(slow.samples) == len(slower.samples) == 8


def test_a_program_that_is_far_behind_is_called_twice_and_once_where_a_call_is_long() -> None:
    fast, far, long = (Scripted(s, "a") for s in (0.001, 0.0011 * FAR, 1.1 * LONGER_THAN_A_PAUSE_S))
    rotate([fast, far, long], repeat=5, budget=10.0)
    assert len(far.samples) == 2
    assert len(long.samples) == 1
    assert len(fast.samples) == ENOUGH


class Interrupted(Scripted):
    """A program whose first call the system interrupted."""

    def sample(self) -> float:
        self.samples.append(self.seconds * (1 if self.samples else 2 * FAR))
        return self.samples[-1]


def test_a_call_that_was_interrupted_is_not_taken_for_a_slow_program() -> None:
    fast, hit = Scripted(0.001, "a"), Interrupted(0.001, "a")
    rotate([fast, hit], repeat=5, budget=10.0)
    assert hit.best == 0.001
    assert len(hit.samples) >= ENOUGH


def test_who_takes_part_in_no_contest_or_in_another_has_no_rival_here() -> None:
    free, other, one = Scripted(0.001), Scripted(0.001, "gradient"), Scripted(0.001, "solve")
    rotate([free, other, one], repeat=5, budget=10.0)
    assert [len(p.samples) for p in (free, other, one)] == [5, 3, 3]


def test_short_calls_are_timed_in_bunches() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1

    program = Program(call, lambda x: x)
    program.first()
    program.sample()
    assert count > 10
    assert program.best is not None
    assert program.best < 1e-4


def test_break_even() -> None:
    assert break_even(1.0, 0.6, 0.1) == 2.0
    assert break_even(1.0, 0.1, 0.1) == float("inf")
    assert break_even(None, 0.1, 0.1) is None


def test_staging_is_timed_apart() -> None:
    jax = pytest.importorskip("jax")

    def slow_to_trace(x: Any) -> Any:
        time.sleep(0.2)
        return x + 1

    compiled, facts = compile_jax(trace_jax(slow_to_trace, (jax.numpy.zeros(3),)))
    assert facts["trace_s"] > 0.2
    assert facts["compile_s"] > 0
    assert facts["temp_bytes"] >= 0
    begin = time.perf_counter()
    assert compiled(jax.numpy.zeros(3)).tolist() == [1, 1, 1]
    assert time.perf_counter() - begin < 0.2


def test_a_program_that_may_call_the_host_is_timed_as_a_user_calls_it() -> None:
    jax = pytest.importorskip("jax")

    def twice_on_host(x: Any, tol: float) -> Any:
        return jax.pure_callback(lambda z: np.asarray(z) * 2, x, x) + tol

    def rarely_on_host(x: Any, tol: float) -> Any:
        return jax.lax.cond(tol > 1, twice_on_host, lambda x, tol: 2 * x + tol, x, tol)

    def seconds(function: Any) -> float:
        program = Program(lambda: function(x, 1e-3), jax.block_until_ready)
        rotate([program], 5, 1.0)
        assert program.best is not None
        return program.best

    x = jax.numpy.arange(3.0)
    mine, _ = compile_jax(trace_jax(rarely_on_host, (x, 1e-3)))
    compilations: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, _, **__: compilations.append(event))
    assert mine(x, 1e-3).tolist() == pytest.approx([1e-3, 2.001, 4.001])
    assert not [event for event in compilations if "backend_compile" in event]
    assert seconds(mine) < 1.5 * seconds(jax.jit(rarely_on_host))


def test_seconds_in_which_a_process_stood_still_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pauses"
    path.write_bytes(struct.pack("d", 5.0))
    with path.open("rb") as file:
        monkeypatch.setenv(PAUSES, f"{file.fileno()}:{path.stat().st_ino}")
        assert time.perf_counter() - working_seconds() == pytest.approx(5.0, abs=0.5)
        monkeypatch.setenv(PAUSES, f"{file.fileno()}:1")  # another file, in a program that a worker started
        assert time.perf_counter() - working_seconds() == pytest.approx(0.0, abs=0.5)
    monkeypatch.setenv(PAUSES, "999:1")
    assert time.perf_counter() - working_seconds() == pytest.approx(0.0, abs=0.5)


def test_what_a_compilation_took_is_kept_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert compile_seconds("a program", 2.345, []) == 2.345
    assert compile_seconds("a program", 0.01, [1.99]) == 2.345  # found on disk: what it took then
    assert compile_seconds("another", 0.01, [1.99]) == pytest.approx(
        2.0
    )  # nothing was noted: JAX's whole seconds
    assert compile_seconds("a short one", 0.02, [-0.02]) == 0.02
    monkeypatch.delenv(FOLDER)
    assert compile_seconds("a program", 0.5, []) == 0.5


def test_compiled_programs_have_a_folder_per_machine_unless_the_user_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GFY_CACHE", str(tmp_path))
    monkeypatch.delenv(FOLDER, raising=False)
    assert compilation_cache()[FOLDER] == str(tmp_path / "compiled" / machine())
    monkeypatch.setenv(FOLDER, "elsewhere")
    assert compilation_cache() == {}


def test_a_program_that_calls_the_host_is_told_apart() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros(3)

    def on_host(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, y: jax.pure_callback(lambda z: z, x, y), x)

    assert calls_host(trace_jax(on_host, (x,)).program)
    assert not calls_host(trace_jax(lambda x: x + 1, (x,)).program)


def test_a_quick_program_fills_its_turn() -> None:
    log: list[str] = []
    quick, slow = Told("q", log, 0.002), Told("s", log, 0.05)
    rotate([quick.program, slow.program], repeat=2, budget=10.0, slice_s=0.03)
    assert len(slow.program.samples) == 2
    assert 4 <= len(quick.program.samples) <= 60


def test_a_stopwatch_counts_waiting_as_wall_time_only() -> None:
    watch = Stopwatch()
    time.sleep(0.1)
    assert watch.wall_s >= 0.1
    assert watch.processor_s < 0.1
    assert set(watch.columns()) == {"load", "loaded"}


def _burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems tell their load average only")
def test_the_load_by_others_is_seen_and_our_own_is_not() -> None:
    meter = LoadMeter()
    time.sleep(0.5)
    quiet = meter.read()
    meter.restart()
    other = multiprocessing.get_context("spawn").Process(target=_burn, args=(3.0,))
    other.start()
    time.sleep(1.5)
    busy = meter.read()
    other.kill()
    other.join()
    assert quiet is not None
    assert busy is not None
    if quiet < cores() - 1.2:  # else the machine is full already and nothing more can be seen
        assert busy > 0.3


def test_a_meter_that_is_paused_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter([10.0, 10.9])
    monkeypatch.setattr(clock, "_busy_seconds", lambda: next(busy))
    monkeypatch.setattr(clock, "_own_seconds", lambda: 0.0)
    meter = LoadMeter(running=False)
    assert meter.read() is None  # nothing was asked of the kernel
    meter.resume()
    time.sleep(0.1)
    meter.pause()
    time.sleep(0.1)
    load = meter.read()
    assert load is not None
    assert load > 4.0  # 0.88 s of others in about 0.1 s


def test_torch_has_one_thread_while_cells_are_prepared_and_its_own_afterwards() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with get_backend("torch").one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_facts_of_a_row_are_the_same_twice() -> None:
    facts = row_facts()
    assert facts["machine"] == machine()
    script = "from bench.store.environment import machine; print(machine())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == machine()
    assert len(facts["git_commit"] or "0" * 40) == 40


def test_a_changed_source_is_another_fingerprint(tmp_path: Any) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1")
    first = fingerprint(tmp_path)
    file.write_text("x = 2")
    assert fingerprint(tmp_path) != first


def test_what_the_fastest_and_the_last_call_returned_is_kept_as_it_was_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A solver that fills its answer in later, or is fast because it is rough, is judged by what it had returned."""
    now, seconds, answers = [0.0], iter([5.0, 2.0, 3.0]), [[1.0], [2.0], [3.0]]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    returned = iter(answers)

    def call() -> list[float]:
        now[0] += next(seconds)
        return next(returned)

    program = Program(call, lambda x: x, keep=list, first_s=1.0)
    for _ in range(3):
        program.sample()
    for answer in answers:
        answer[0] = 9.0
    assert program.samples == [5.0, 2.0, 3.0]
    assert program.fastest is not None
    assert program.last is not None
    assert (program.fastest[1], program.last[1]) == ([2.0], [3.0])
