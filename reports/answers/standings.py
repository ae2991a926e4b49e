"""How the choices stand on a set of problems: time with its interval, share certified, and ties.

An interval runs from the fastest repeat to the median plus half the interquartile range, both taken over the
problems as shifted geometric means with failures charged. Two choices tie where their intervals overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.answers.choices import Choice, Grid, shifted_geometric_mean

PRACTICAL = 1.05  # two processes of one program differ by this much: less is no win


@dataclass(frozen=True)
class Standing:
    """One choice on a set of problems: its time in seconds, and how many problems it certified."""

    choice: Choice
    time: float
    high: float
    solved: int
    total: int
    rows: tuple[str, ...]

    def overlaps(self, other: Standing) -> bool:
        slow, fast = (self, other) if self.time >= other.time else (other, self)
        return fast.high >= slow.time or slow.time <= PRACTICAL * fast.time


def standings(table: Grid) -> list[Standing]:
    """The choices that certified at least one problem, smallest charged time first."""
    if not table.choices:
        return []
    low = shifted_geometric_mean(table.charged(table.time))
    high = shifted_geometric_mean(table.charged(table.high))
    solved = table.solved
    out = []
    for i, choice in enumerate(table.choices):
        if solved[i].any():
            rows = tuple(table.ids[i, solved[i]])
            count = int(solved[i].sum())
            out.append(Standing(choice, float(low[i]), float(high[i]), count, len(table.instances), rows))
    return sorted(out, key=lambda s: (s.time, s.choice.label()))


def tied(order: list[Standing]) -> list[Standing]:
    """Those whose interval overlaps that of the first (the first itself is not among them)."""
    return [s for s in order[1:] if s.overlaps(order[0])] if order else []


def runner_up(order: list[Standing]) -> Standing | None:
    """The best choice with another solver, gradient mode or backend: another dtype alone is no rival."""
    first = order[0].choice
    mine = (first.solver, first.gradient, first.backend)
    rivals = (s for s in order[1:] if (s.choice.solver, s.choice.gradient, s.choice.backend) != mine)
    return next(rivals, None)
