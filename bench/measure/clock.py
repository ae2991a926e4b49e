"""An honest clock: staging apart from running, every call waited for, competitors timed in turn.

One timing alone showed the opposite of three interleaved ones: so all programs of a group are prepared first,
then called round after round in a changing order, and the minimum, median and spread are kept.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHORTEST = 2e-4  # seconds: a shorter call is repeated within one sample, or the clock's own cost would show


@dataclass
class Program:
    """Something to be timed: `call()` does it, `sync(result)` waits until it is really done."""

    call: Callable[[], Any]
    sync: Callable[[Any], Any]
    owner: str | None = None  # the cell on whose account the time goes
    solves: int = 1  # inner problems solved by one call (a sequence has several)
    trace_s: float | None = None
    compile_s: float | None = None
    temp_bytes: int | None = None
    first_s: float | None = None
    samples: list[float] = field(default_factory=list)

    def once(self) -> tuple[float, Any]:
        """Seconds of one call, and what it returned."""
        begin = time.perf_counter()
        result = self.sync(self.call())
        return time.perf_counter() - begin, result

    def first(self) -> Any:
        """The first call, which may still allocate, load and warm up: timed apart."""
        seconds, result = self.once()
        self.first_s = seconds / self.solves
        return result

    def sample(self) -> float:
        """One steady sample, seconds a call; returns the seconds it took in all."""
        guess = min(self.samples, default=self.first_s or 0.0) * self.solves
        number = max(1, int(np.ceil(SHORTEST / max(guess, 1e-7)))) if guess < SHORTEST else 1
        begin = time.perf_counter()
        for _ in range(number):
            self.sync(self.call())
        total = time.perf_counter() - begin
        self.samples.append(total / number / self.solves)
        return total

    @property
    def best(self) -> float | None:
        return min(self.samples, default=None)

    @property
    def median(self) -> float | None:
        return float(np.median(self.samples)) if self.samples else None

    @property
    def spread(self) -> float | None:
        """The interquartile range."""
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
) -> None:
    """Time all programs in turn, `repeat` rounds in shuffled order; one that has spent its budget rests.

    Everyone gets three samples, however slow, unless a single call takes longer than the budget.
    """
    rng = np.random.default_rng(seed)
    waiting = list(programs)
    spent = {id(p): 0.0 for p in waiting}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # a collection in the middle of somebody's call would be charged to him
    try:
        for _ in range(repeat):
            for index in rng.permutation(len(waiting)):
                program = waiting[index]
                hand(program.owner)
                spent[id(program)] += program.sample()
            waiting = [
                p for p in waiting
                if spent[id(p)] < budget or (len(p.samples) < 3 and spent[id(p)] < 3 * budget)
            ]  # fmt: skip
            if not waiting:
                break
    finally:
        hand(None)
        if collecting:
            gc.enable()


def break_even(staging: float | None, eager: float | None, steady: float | None) -> float | None:
    """After how many calls staging has paid for itself; infinite where the staged call is not faster."""
    if staging is None or eager is None or steady is None:
        return None
    return staging / (eager - steady) if eager > steady else float("inf")


def stage_jax(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Trace and lower, then compile, each timed; the compiled function and what XLA says of its memory."""
    import jax

    begin = time.perf_counter()
    lowered = jax.jit(function).trace(*args).lower()
    traced = time.perf_counter()
    compiled = lowered.compile()
    done = time.perf_counter()
    facts: dict[str, Any] = {"trace_s": traced - begin, "compile_s": done - traced}
    memory = compiled.memory_analysis()
    if memory is not None:
        facts["temp_bytes"] = int(memory.temp_size_in_bytes)
    return compiled, facts
