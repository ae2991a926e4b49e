"""Define the one clock: every call is waited for, competitors are timed in turn, and load by others is recorded.

In one comparison, single timings gave the opposite order of three timings that were taken in turn. All programs that
compete are therefore prepared first and then called round after round, in an order that changes; the minimum, the
median and the spread are kept. A `Stopwatch` measures work that is done only once, such as a training.
"""

from __future__ import annotations

import gc
import os
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Seconds; one sample repeats a shorter call, since reading the clock would otherwise be a large part of it.
SHORTEST = 2e-4
ENOUGH = 3  # samples; from this many on, a clear order is taken as settled
FAR = 30.0  # a program that is this many times as slow as its fastest rival needs few samples
LONGER_THAN_A_PAUSE_S = 1.0  # seconds; a sample of this length is no short call that the system interrupted
CLEAR = 1.25  # all samples of a program must be this factor below or above all samples of each rival
LARGEST_BUNCH = 64  # calls; one sample has at most this many
MOST = 50  # samples; one turn takes at most this many
# This environment variable identifies the open file with the seconds for which this process has been paused.
PAUSES = "GFY_PAUSES"
# This environment variable is the id of the watching process, whose work is part of the run.
WATCHER = "GFY_WATCHER"
SHORTEST_LOOK = 0.05  # seconds; in a shorter time the kernel's counters show no load
LOAD_LIMIT = 0.3  # cores; a timing is flagged where other programs keep more than this many busy


def working_seconds() -> float:
    """Return a clock that stops while this process is stopped, because another group of its run is being timed."""
    return time.perf_counter() - _paused_seconds()


def _paused_seconds() -> float:
    number, _, inode = os.environ.get(PAUSES, "").partition(":")
    if not inode:
        return 0.0
    try:
        if os.fstat(int(number)).st_ino != int(inode):
            return 0.0  # a worker has started this program, which does not inherit the worker's file
        return float(struct.unpack("d", os.pread(int(number), 8, 0))[0])
    except OSError:
        return 0.0


@dataclass
class Program:
    """Represent something to be timed: `call(*fresh())` does it, `sync(result)` waits until it is really done.

    `fresh` makes the arguments before the clock is started, and `keep` takes what a call returned right after the clock
    is stopped. `last` and `fastest` hold the arguments and the kept result of the last call and of the fastest sample.
    """

    call: Callable[..., Any]
    sync: Callable[[Any], Any]
    owner: str | None = None  # the cell to whose time limit the calls count
    solves: int = 1  # inner problems that one call solves; a sequence has several
    trace_s: float | None = None
    compile_s: float | None = None
    temp_bytes: int | None = None
    first_s: float | None = None
    samples: list[float] = field(default_factory=list)
    fresh: Callable[[], tuple[Any, ...]] = tuple
    intact: Callable[..., bool] = lambda *given: True  # says whether a call left its arguments unchanged
    keep: Callable[[Any], Any] = lambda result: result
    last: tuple[tuple[Any, ...], Any] | None = None
    fastest: tuple[tuple[Any, ...], Any] | None = None  # of the samples; the first call is none
    over: bool = False  # True when the program is timed no further
    contests: frozenset[Any] = frozenset()  # programs that share an element are ranked against each other

    def once(self) -> tuple[float, Any]:
        """Return the seconds of one call, and what it returned."""
        given = self.fresh()
        begin = working_seconds()
        result = self.sync(self.call(*given))
        seconds = working_seconds() - begin
        self.last = given, self.keep(result)
        return seconds, result

    def first(self) -> Any:
        """Run the first call, which may still allocate, load and warm up; it is timed apart."""
        seconds, result = self.once()
        self.first_s = seconds / self.solves
        return result

    def sample(self) -> float:
        """Take one steady sample in seconds per call; return the seconds it took in all."""
        guess = min(self.samples, default=self.first_s or 0.0) * self.solves
        number = min(LARGEST_BUNCH, max(1, int(np.ceil(SHORTEST / max(guess, 1e-7)))))
        bunch = [self.fresh() for _ in range(number)]
        begin = time.perf_counter()
        for given in bunch:
            result = self.sync(self.call(*given))
        total = time.perf_counter() - begin
        self.last = bunch[-1], self.keep(result)
        if total / number / self.solves < min(self.samples, default=float("inf")):
            self.fastest = self.last
        self.samples.append(total / number / self.solves)
        return total

    def turn(self, slice_s: float = 0.0) -> float:
        """Take as many samples as fit into `slice_s` seconds, at least one; return the seconds they took in all."""
        spent = self.sample()
        for _ in range(MOST - 1):
            if spent + (self.best or 0.0) * self.solves > slice_s:
                break
            spent += self.sample()
        return spent

    @property
    def best(self) -> float | None:
        return min(self.samples, default=None)

    @property
    def median(self) -> float | None:
        return float(np.median(self.samples)) if self.samples else None

    @property
    def spread(self) -> float | None:
        """Return the interquartile range."""
        if not self.samples:
            return None
        low, high = np.percentile(self.samples, [25, 75])
        return float(high - low)


def rotate(
    programs: Iterable[Program],
    repeat: int,
    budget: float,
    seed: int = 0,
    hand: Callable[[str | None], None] = lambda owner: None,
    slice_s: float = 0.0,
    rest: Callable[[], None] = lambda: None,
    finished: Callable[[Program], None] = lambda program: None,
    failed: Callable[[Program, Exception], None] | None = None,
) -> None:
    """Time all programs in turn, `repeat` rounds in shuffled order; a program that has spent its budget is
    timed no further.

    Every program gets three samples, even where these take longer than its budget, unless fewer samples take three
    times the budget. A program that takes part in a contest is also timed no further once its rank is settled: after
    three samples that differ clearly from those of every rival, or after two that are far above the fastest rival's.
    One such sample is enough where it is too long for a short call that was interrupted.

    Args:
        programs: What is timed; their samples are filled.
        repeat: Rounds.
        budget: Seconds after which a program rests.
        seed: Of the order within the rounds.
        hand: Told whose turn it is, and None at the end.
        slice_s: Seconds of a turn, which a quick program fills with several samples.
        rest: Called before each round: others may have their round meanwhile.
        finished: Told of each program right after its last sample.
        failed: Told what a program raised, which ends that program alone; without it the error is raised. A lack of
            memory is raised in any case, as it ends the process's use for the others.
    """
    rng = np.random.default_rng(seed)
    everyone = list(programs)
    waiting = list(everyone)
    spent = {id(p): 0.0 for p in waiting}
    for program in waiting:
        program.over = False  # it may be True from an earlier timing
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # the time of a garbage collection would count to the call that it interrupts
    try:
        for number in range(repeat):
            rest()
            for index in rng.permutation(len(waiting)):
                program = waiting[index]
                if program.over:
                    continue
                hand(program.owner)
                try:
                    spent[id(program)] += program.turn(slice_s)
                except Exception as error:
                    if failed is None or lacks_memory(error):
                        raise
                    program.over = True
                    failed(program, error)
                    continue
                few = len(program.samples) < 3 and spent[id(program)] < 3 * budget
                if number == repeat - 1 or (spent[id(program)] >= budget and not few):
                    program.over = True
                    finished(program)
            for program in waiting:
                if not program.over and settled(program, everyone):
                    program.over = True
                    finished(program)
            waiting = [program for program in waiting if not program.over]
            if not waiting:
                break
    finally:
        hand(None)
        if collecting:
            gc.enable()


def settled(program: Program, everyone: list[Program]) -> bool:
    """Return whether more samples would not change a program's rank among its rivals."""
    if not program.contests:
        return False
    rivals = [r for r in everyone if r is not program and r.contests & program.contests and r.samples]
    low, high = min(program.samples), max(program.samples)
    if low > FAR * min((min(r.samples) for r in rivals), default=low):
        return len(program.samples) > 1 or low > LONGER_THAN_A_PAUSE_S
    if len(program.samples) < ENOUGH:
        return False
    return all(high * CLEAR < min(r.samples) or low > CLEAR * max(r.samples) for r in rivals)


def lacks_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def break_even(staging: float | None, eager: float | None, steady: float | None) -> float | None:
    """Return after how many calls staging has paid for itself; it is infinite where the staged call is not faster."""
    if staging is None or eager is None or steady is None:
        return None
    return staging / (eager - steady) if eager > steady else float("inf")


class Stopwatch:
    """Measure wall and processor seconds since it was made, and the load by others meanwhile, for work that
    is done once.

    Example:
        >>> watch = Stopwatch()
        >>> found = watch.columns()
        >>> sorted(found)
        ['load', 'loaded']
    """

    def __init__(self) -> None:
        self._meter = LoadMeter()
        self._wall, self._processor = time.perf_counter(), time.process_time()

    @property
    def wall_s(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def processor_s(self) -> float:
        """Return the seconds of all threads of this process, which other programs hardly slow down."""
        return time.process_time() - self._processor

    def columns(self) -> dict[str, Any]:
        """Return the columns of a row that say how disturbed the work was."""
        load = self._meter.read()
        return {"load": load, "loaded": overloaded(load)}


def overloaded(load: float | None, limit: float = LOAD_LIMIT) -> int:
    """Return 1 where others kept too many cores busy to trust a timing, else 0."""
    return int(load is not None and load > limit)


class LoadMeter:
    """Measure how many cores other programs kept busy between two moments, which disturbs a timing.

    The 1-minute load average reacts late and includes this run; the kernel's busy time minus this run's own time does
    neither. Work that is done while the meter is paused does not count, because another worker of this run is then
    timed.

    Args:
        running: Whether it counts from now on, or from `resume` on.
    """

    def __init__(self, running: bool = True) -> None:
        self._running = running
        self.restart()

    def restart(self) -> None:
        self._kept: tuple[float, float | None, float] = (0.0, 0.0, 0.0)
        if self._running:
            self.resume()

    def resume(self) -> None:
        self._running = True
        self._wall, self._busy, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def pause(self) -> None:
        self._kept = self._totals()
        self._running = False

    def _totals(self) -> tuple[float, float | None, float]:
        if not self._running:
            return self._kept
        wall, busy, own = self._kept
        now = _busy_seconds()
        since = None if now is None or self._busy is None or busy is None else busy + now - self._busy
        return wall + time.perf_counter() - self._wall, since, own + _own_seconds() - self._own

    def read(self) -> float | None:
        """Return the cores busy for others since the start, or the load average where the kernel does not say."""
        wall, busy, own = self._totals()
        if busy is None:
            return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        if wall < SHORTEST_LOOK:
            return None  # the kernel's counters are too coarse for so short a time
        return max(0.0, busy - own - 2 / os.sysconf("SC_CLK_TCK")) / wall


def _busy_seconds() -> float | None:
    try:
        with open("/proc/stat") as file:
            head = file.readline().split()
    except OSError:
        return None
    if len(head) < 9 or head[0] != "cpu":
        return None
    ticks = [float(x) for x in head[1:9]]
    user, nice, system, _, _, irq, softirq, steal = ticks
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Return the processor seconds of this process, of its children, and of the watcher that it reports to."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + _watcher_seconds()


def _watcher_seconds() -> float:
    try:
        with open(f"/proc/{os.environ[WATCHER]}/stat") as file:
            ticks = file.read().rpartition(")")[2].split()[11:13]
    except (KeyError, OSError):
        return 0.0
    return sum(map(float, ticks)) / os.sysconf("SC_CLK_TCK")
