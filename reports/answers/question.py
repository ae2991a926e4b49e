"""Answer a question: for a framework, device, precision, need, accuracy and size one line per problem.

A line has one cell per solver and names the fastest certified one first. Where the asked size was not measured, the
time is an estimate from the fitted growth, with the interval that the distance leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from reports.answers.choices import CERTIFIED, LEVELS, NEEDS, NOT_APPLICABLE
from reports.answers.evidence import Evidence, Kind, Place, Series
from reports.answers.scaling import decades
from reports.answers.snippet import compare_line
from reports.answers.standings import overlap, ties
from reports.data.words import size

NOT_MEASURED = "not measured"
NEAR = 1.0  # decades; further away growth exponents, not constants, decide


@dataclass(frozen=True)
class Question:
    """Hold a question; `k` and `batch` of None mean every size that was measured."""

    place: Place
    need: str = "loss-gradient"
    accuracy: float = 1e-6
    k: int | None = None
    batch: int | None = None


@dataclass(frozen=True)
class Cell:
    """Hold what one solver does on one problem: a certified time with its interval, or the state and the reason."""

    solver: str
    state: str
    gradient: str = "none"
    time: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""
    rows: tuple[str, ...] = ()
    code: str = ""
    distance: float = 0.0  # decades from the nearest certified size; 0 where the size itself was measured
    loaded: bool = False

    @property
    def certified(self) -> bool:
        return self.state == CERTIFIED

    def label(self) -> str:
        return self.solver if self.gradient == "none" else f"{self.solver} with {self.gradient}"


@dataclass(frozen=True)
class Line:
    """Hold the answer for one problem at one size."""

    kind: Kind
    k: float
    batch: float
    cells: dict[str, Cell]
    order: list[Cell] = field(default_factory=list)  # certified ones, fastest first
    measure: str = ""  # the command that measures what the line asks

    @property
    def name(self) -> str:
        return f"{self.kind.name}, {size(self.k, self.batch)}"

    @property
    def best(self) -> Cell | None:
        return self.order[0] if self.order else None

    @property
    def ties(self) -> list[Cell]:
        return [c for c in self.order[1:] if ties(self.order[0].high, self.order[0].time, c.low, c.time)]

    @property
    def sure(self) -> str:
        """Say how sure the first place is: "alone", "tie", "clear", or "likely" where intervals overlap by more."""
        if len(self.order) < 2:
            return "alone"
        first, second = self.order[:2]
        if self.ties:
            return "tie"
        return "likely" if overlap(first.high, first.time, second.low) else "clear"

    @property
    def margin(self) -> float:
        """Return how many times faster the first is than the next."""
        return self.order[1].time / self.order[0].time if len(self.order) > 1 else math.nan


def preset(evidence: Evidence) -> Question | None:
    """Return the question that was measured most: place by rows, need and accuracy by certified series."""
    if not evidence.series:
        return None

    def certified(need: str, level: float, place: Place) -> int:
        return sum(s.scaling is not None for s in evidence.series.get((place, need, level), []))

    place = max(evidence.counts, key=lambda p: (evidence.counts[p], p))
    need = max(NEEDS, key=lambda n: certified(n, 1e-6, place))
    if certified("loss-gradient", 1e-6, place):
        need = "loss-gradient"
    return Question(place, need, 1e-6 if 1e-6 in {a for _, _, a in evidence.series} else LEVELS[0])


def answer(evidence: Evidence, question: Question) -> list[Line]:
    """Return one line per problem (and per measured size where the question has no size), in the order of the kinds.

    Where the question has a size, few problems were measured near it: those that have an answer come first, then those
    that only failed, and those that were not measured last.
    """
    series = evidence.series.get((question.place, question.need, question.accuracy), [])
    by_kind: dict[int, list[Series]] = {}
    for s in series:
        by_kind.setdefault(s.kind, []).append(s)
    lines = []
    for number, kind in enumerate(evidence.kinds):
        mine = by_kind.get(number, [])
        for k, batch in _sizes(kind, question):
            lines.append(_line(kind, k, batch, mine, question))
    return lines if question.k is None and question.batch is None else sorted(lines, key=_standing)


def _standing(line: Line) -> int:
    """Return 0 for a line with an answer, 1 for one on which solvers failed, 2 for one that was not measured."""
    tried = any(c.state not in (NOT_APPLICABLE, NOT_MEASURED) for c in line.cells.values())
    return 0 if line.best is not None else 1 if tried else 2


def _sizes(kind: Kind, question: Question) -> list[tuple[float, float]]:
    if question.k is None and question.batch is None:
        return sorted(kind.sizes)
    k, batch = kind.sizes[0]
    return [(float(question.k or k), float(question.batch or batch))]


def _line(kind: Kind, k: float, batch: float, series: list[Series], question: Question) -> Line:
    cells: dict[str, Cell] = {}
    for s in series:
        cell = at(s, k, batch)
        held = cells.get(s.solver)
        if held is None or _before(cell, held):
            cells[s.solver] = cell
    # Times that agree in four digits differ by rounding alone: the name decides, as it does in the page's script.
    order = sorted(
        (c for c in cells.values() if c.certified), key=lambda c: (float(f"{c.time:.4g}"), c.solver)
    )
    return Line(kind, k, batch, cells, order, compare_line(kind, k, batch, question))


def _before(cell: Cell, held: Cell) -> bool:
    """Return whether a gradient mode of a solver says more than the one held: the fastest certified one, else one that
    failed, else one that was measured at other sizes; that a mode does not apply says least."""
    if cell.certified and held.certified:
        return cell.time < held.time
    rank = {CERTIFIED: 0, NOT_MEASURED: 2, NOT_APPLICABLE: 3}
    return rank.get(cell.state, 1) < rank.get(held.state, 1)


def at(series: Series, k: float, batch: float) -> Cell:
    """Return a series at a size: the measurement there, else the estimate of its growth."""
    blank = Cell(series.solver, NOT_MEASURED, series.gradient, code=series.code)
    here = [p for p in series.points if _same(p.k, k) and _same(p.batch, batch)]
    if here:
        p = here[0]
        low = p.time if p.state == CERTIFIED else math.nan
        time, high = (low, p.high) if p.state == CERTIFIED else (math.nan, math.nan)
        return replace(
            blank, state=p.state, time=time, low=low, high=high, reason=p.reason, rows=p.rows, loaded=p.loaded
        )
    near = min(series.points, key=lambda p: decades(k, batch, p.k, p.batch))
    if series.scaling is None:
        reason = f"{near.reason} (measured at {size(near.k, near.batch)})"
        return replace(blank, state=near.state, reason=reason, rows=near.rows)
    good = [p for p in series.points if p.state == CERTIFIED]
    away = min(decades(k, batch, p.k, p.batch) for p in good)
    time, low, high = series.scaling.at(k, batch)
    rows = tuple(r for p in good for r in p.rows)
    loaded = any(p.loaded for p in good)
    if away > NEAR:
        reason = f"the nearest certified size is {away:.2f} decades away, more than {NEAR:g}"
        return replace(blank, time=time, low=low, high=high, rows=rows, distance=away, reason=reason)
    return replace(
        blank, state=CERTIFIED, time=time, low=low, high=high, rows=rows, distance=away, loaded=loaded
    )


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))
