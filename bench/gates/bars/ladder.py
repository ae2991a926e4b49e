"""Race competitors of one piece of work: each at the loosest tolerance that certifies, then timed in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.measure.clock import Program, rotate

TARGET = 1e-10  # the relative certified gap at which contenders are compared where their bar names no other
# The tolerances go from loose to tight; a contender is timed at the loosest one whose certificate meets the target.
LADDER = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 0.0)


@dataclass
class Contender:
    """Represent one way of doing the work: `call()` does it once and waits until it is done."""

    name: str
    call: Callable[[], Any]
    ours: bool = True
    backend: str = ""
    tol: float | None = None
    gap: float | None = None  # the largest certified relative gap of the batch
    # The seconds are multiplied by this, where a loop over examples is timed on a part of them.
    scale: float = 1.0
    note: str = ""
    target: float = TARGET  # the gap that its bar asks for
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        self.program = Program(lambda: self.call(), lambda result: result)

    @property
    def samples(self) -> list[float]:
        return self.program.samples

    @property
    def seconds(self) -> float:
        """Return the best of the samples, of the whole batch."""
        return float("inf") if self.program.best is None else self.program.best * self.scale

    @property
    def median(self) -> float:
        """Return their median, of the whole batch."""
        return float("nan") if self.program.median is None else self.program.median * self.scale

    @property
    def spread(self) -> float:
        """Return their interquartile range, of the whole batch."""
        return (self.program.spread or 0.0) * self.scale


def take_turns(
    contenders: Sequence[Contender], rounds: int = 7, slice_s: float = 0.25, patience_s: float = 45.0
) -> None:
    """Warm everyone up, then time all in turns; one that has spent `patience_s` seconds is timed no further."""
    for contender in contenders:
        contender.program.first()
    rotate([c.program for c in contenders], rounds, patience_s, slice_s=slice_s)


def to_accuracy(
    build: Callable[[float], tuple[Contender, Callable[[], Any]]],
    certify: Callable[[Any], float],
    target: float,
    ladder: Iterable[float] = LADDER,
    patience_s: float = 120.0,
) -> Contender:
    """Return the contender at the loosest tolerance whose certificate meets `target`.

    `build(tol)` returns a contender and a function that returns its p. A contender that meets the target at no
    tolerance is returned at the loosest one that is about as good as its best, with its gap above the target and a note
    that says so. The search ends where tighter tolerances help no more, or after `patience_s` seconds.
    """
    tried: list[Contender] = []
    stuck, best, start = 0, np.inf, time.perf_counter()
    for tol in ladder:
        if tried and (stuck >= 3 or time.perf_counter() - start > patience_s):
            break
        contender, solution = build(tol)
        contender.tol, contender.gap, contender.target = tol, certify(solution()), target
        if contender.gap <= target:
            return contender
        tried.append(contender)
        # Several loose tolerances often end at the same iterate, which does not yet count as stuck.
        stuck = 0 if contender.gap < best or tol > target else stuck + 1
        best = min(best, contender.gap)
    chosen = next(c for c in tried if c.gap is not None and (c.gap <= 2.0 * best or not np.isfinite(best)))
    chosen.note = f"reached {chosen.gap:.0e} only"
    return chosen


def median_ratio(slow: Contender, fast: Contender) -> float:
    """Return how many times faster `fast` is by the medians, as a check of the ratio of the minima."""
    return slow.median / fast.median if slow.samples and fast.samples else float("nan")
