"""Competitors of one piece of work, timed in turns in one process, each certified before it is timed.

One unpaired timing has shown the opposite of three interleaved ones: every round runs every contender.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.problems.workloads import Workload

# From loose to tight: a contender is timed at the loosest one whose certificate meets the target.
LADDER = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 0.0)


@dataclass
class Contender:
    """One way of doing the work: `call()` does it once and waits until it is done."""

    name: str
    call: Callable[[], Any]
    ours: bool = True
    backend: str = ""
    tol: float | None = None
    gap: float | None = None  # certified, relative, the largest of the batch
    scale: float = 1.0  # seconds are multiplied by this: a loop over examples may be timed on a part of them
    note: str = ""
    samples: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The best of the samples, of the whole batch."""
        return min(self.samples) * self.scale if self.samples else float("inf")

    @property
    def spread(self) -> float:
        """The interquartile range of the samples, of the whole batch."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) * self.scale


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleave(
    contenders: Sequence[Contender], rounds: int = 7, slice_s: float = 0.25, patience_s: float = 45.0
) -> None:
    """Fill `samples`: in each round everyone in turn, the quick ones several times within `slice_s` seconds.

    A contender whose single call is long stops taking part once it has spent `patience_s` (after two samples, or
    one where a call alone takes twice that), so that a slow peer costs minutes and not hours.
    """
    guess = {id(c): timed(c.call) for c in contenders}  # also the warm-up: compiled, caches filled
    for round_number in range(rounds):
        order = contenders if round_number % 2 == 0 else list(reversed(contenders))
        for contender in order:
            cost = min([guess[id(contender)], *contender.samples])
            enough = 1 if cost > 2 * patience_s else 2
            if len(contender.samples) >= enough and cost * (len(contender.samples) + 1) > patience_s:
                continue
            gc.collect()
            for _ in range(int(np.clip(slice_s / max(cost, 1e-7), 1, 50))):
                contender.samples.append(timed(contender.call))


def certified_gap(workload: Workload, p: Any) -> float:
    """The largest relative gap over the batch, in float64, outside the clock; infinite where infeasible."""
    import gfy

    values = to_numpy(p).astype(np.float64)
    if not np.isfinite(values).all():
        return float("inf")
    certificate = gfy.certify(workload.problem, workload.inputs, values)
    gap = np.asarray(certificate.gap) / np.maximum(1.0, np.abs(np.asarray(certificate.value)))
    feasible = np.asarray(certificate.feasibility) <= 1e-9
    return float(np.max(np.where(feasible & np.isfinite(gap), gap, np.inf), initial=0.0))


def to_numpy(x: Any) -> np.ndarray:
    """An array of any framework, detached and on the host."""
    from gfy.backend import backend_of

    return np.asarray(x) if isinstance(x, np.ndarray) else backend_of(x).to_numpy(x)


def to_accuracy(
    build: Callable[[float], tuple[Contender, Callable[[], Any]]],
    certify: Callable[[Any], float],
    target: float,
    ladder: Iterable[float] = LADDER,
    patience_s: float = 120.0,
) -> Contender:
    """The contender at the loosest tolerance whose certificate meets `target`.

    `build(tol)` gives a contender and what returns its p. One that meets it nowhere is returned at the loosest
    tolerance that is about as good as its best, its gap above the target and a note saying so. The climb ends
    where tighter tolerances helped no more, or after `patience_s` seconds.
    """
    tried: list[Contender] = []
    stuck, best, start = 0, np.inf, time.perf_counter()
    for tol in ladder:
        if tried and (stuck >= 3 or time.perf_counter() - start > patience_s):
            break
        contender, solution = build(tol)
        contender.tol, contender.gap = tol, certify(solution())
        if contender.gap <= target:
            return contender
        tried.append(contender)
        # Loose tolerances often end at one and the same iterate: that is not yet being stuck.
        stuck = 0 if contender.gap < best or tol > target else stuck + 1
        best = min(best, contender.gap)
    chosen = next(c for c in tried if c.gap is not None and (c.gap <= 2.0 * best or not np.isfinite(best)))
    chosen.note = f"reached {chosen.gap:.0e} only"
    return chosen


def median_ratio(slow: Contender, fast: Contender) -> float:
    """How many times faster `fast` is, by the medians: shown beside the ratio of the minima as its check."""
    if not slow.samples or not fast.samples:
        return float("nan")
    return statistics.median(slow.samples) * slow.scale / (statistics.median(fast.samples) * fast.scale)
