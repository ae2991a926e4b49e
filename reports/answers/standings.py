"""Rank the choices on a set of problems: time with its interval, share certified, and ties.

An interval runs from the fastest repeat to the median plus half the interquartile range, both taken over the
problems on which the choice applies, with failures charged. Two choices tie where their intervals overlap and
their times differ by less than a factor of 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.answers.choices import Choice, Grid

PRACTICAL = 1.05  # two processes of one program differ by this much: no interval is narrower
TIE = 1.2  # a factor from which on one choice is faster, whatever the intervals


def overlap(fast_high: float, fast: float, slow_low: float) -> bool:
    """Return whether the interval of the faster one reaches that of the slower one."""
    return max(fast_high, PRACTICAL * fast) >= slow_low


def ties(fast_high: float, fast: float, slow_low: float, slow: float) -> bool:
    """Return whether two times tie: their intervals overlap and they differ by less than `TIE`."""
    return overlap(fast_high, fast, slow_low) and slow < TIE * fast


@dataclass(frozen=True)
class Standing:
    """Hold one choice on a set of problems: its time in seconds, and how many problems it certified."""

    choice: Choice
    time: float
    high: float
    solved: int
    total: int
    rows: tuple[str, ...]

    def overlaps(self, other: Standing) -> bool:
        slow, fast = (self, other) if self.time >= other.time else (other, self)
        return ties(fast.high, fast.time, slow.time, slow.time)


def standings(table: Grid) -> list[Standing]:
    """Return the choices that certified at least one problem, smallest charged time first."""
    if not table.choices:
        return []
    low, high = table.means(table.time), table.means(table.high)
    solved, total = table.solved, np.count_nonzero(table.applies, axis=1)
    out = []
    for i, choice in enumerate(table.choices):
        if solved[i].any():
            rows = tuple(table.ids[i, solved[i]])
            count = int(solved[i].sum())
            out.append(Standing(choice, float(low[i]), float(high[i]), count, int(total[i]), rows))
    return sorted(out, key=lambda s: (s.time, s.choice.label()))


def tied(order: list[Standing]) -> list[Standing]:
    """Return those that tie with the first (the first itself is not among them)."""
    return [s for s in order[1:] if s.overlaps(order[0])] if order else []


def runner_up(order: list[Standing]) -> Standing | None:
    """Return the best choice with another solver, gradient mode or backend: another dtype alone is no rival."""
    first = order[0].choice
    mine = (first.solver, first.gradient, first.backend)
    rivals = (s for s in order[1:] if (s.choice.solver, s.choice.gradient, s.choice.backend) != mine)
    return next(rivals, None)
