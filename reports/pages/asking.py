"""Build the question at the top of the page: its selectors, the table for the preset question, and the data
from which the page's script answers every other one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reports.answers.choices import CERTIFIED, NEEDS, NOT_APPLICABLE
from reports.answers.evidence import Evidence
from reports.answers.question import NEAR, NOT_MEASURED, Line, Question, answer, preset
from reports.answers.scaling import INTERVAL, MISFIT
from reports.answers.standings import PRACTICAL, TIE
from reports.data.links import Links
from reports.data.words import BACKENDS
from reports.figures.palette import Palette

ROWS_BEHIND = 8  # rows that a cell links to; the table of rows holds the others
ORIGINS = {"ours": "this library", "peer": "peers", "yours": "your own"}


@dataclass(frozen=True)
class Asking:
    """Hold what the template shows: the preset question, its lines, the solvers in the order of their columns."""

    question: Question
    lines: list[Line]
    solvers: list[str]
    groups: list[tuple[str, list[str]]]  # heading of some columns, their solvers
    evidence: Evidence

    def options(self) -> list[tuple[str, str, str, list[tuple[str, str]]]]:
        """Return (name, label, preset value, [(value, text)]) of each selector."""
        places = self.evidence.counts
        chosen = self.question.place
        out = []
        for i, (name, label) in enumerate(
            (("machine", "Machine"), ("backend", "Framework"), ("device", "Device"), ("dtype", "Precision"))
        ):
            values = sorted({p[i] for p in places})
            if name != "machine" or len(values) > 1:
                out.append((name, label, chosen[i], [(v, BACKENDS.get(v, v)) for v in values]))
        out.insert(1 if out[0][0] == "backend" else 2, (
            "need", "I need", self.question.need, [(n, text) for n, text in NEEDS.items()]
        ))  # fmt: skip
        levels = sorted({a for _, _, a in self.evidence.series}, reverse=True)
        out.append(
            (
                "accuracy",
                "Certified to",
                f"{self.question.accuracy:g}",
                [(f"{a:g}", f"{a:.0e}") for a in levels],
            )
        )
        names = sorted({k.energy: k for k in self.evidence.kinds if k.energy}.items())
        energies = [("", "every problem"), *((e, k.name.split(",")[0] if e != "Pairwise" else "low-rank interactions")
                                            for e, k in names)]  # fmt: skip
        return [*out, ("problem", "Problem", "", energies)]


def asking(evidence: Evidence) -> Asking | None:
    """Return the question that the page opens with, or None where nothing was measured."""
    question = preset(evidence)
    if question is None:
        return None
    lines = answer(evidence, question)
    used = {s.solver for series in evidence.series.values() for s in series}
    # A solver that was measured on none of the lines would be an empty column to scroll past.
    met = {c.solver for line in lines for c in line.cells.values() if c.state != NOT_MEASURED}
    shown = sorted(used & met)
    groups = [
        (title, [s for s in shown if evidence.origins.get(s, "ours") == o]) for o, title in ORIGINS.items()
    ]
    groups = [(title, names) for title, names in groups if names]
    return Asking(question, lines, [s for _, names in groups for s in names], groups, evidence)


def shade(ratio: float) -> float:
    """Return how dark a cell is drawn: 1 at the best, 0 from a factor of a hundred on."""
    return max(0.0, 1.0 - math.log10(max(ratio, 1.0)) / 2.0) if ratio == ratio else 0.0


def factor(ratio: float) -> str:
    """Return a relative time: 1.0, 5.5, 42, 1,300."""
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def sure(line: Line) -> str:
    """Say how sure the first place of a line is, or why there is none."""
    if line.best is None:
        bad = [c for c in line.cells.values() if c.state not in (NOT_APPLICABLE, NOT_MEASURED)]
        return f"nothing certified: {bad[0].solver} {bad[0].state}" if bad else "not measured"
    second = line.order[1] if len(line.order) > 1 else None
    words = {
        "alone": "nothing else certified",
        "tie": f"tie with {second.solver if second else ''}",
        "clear": f"{factor(line.margin)} × faster than {second.solver if second else ''}",
        "likely": f"likely {factor(line.margin)} × faster than {second.solver if second else ''}, intervals overlap",
    }[line.sure]
    return words + (
        f"; estimated, {line.best.distance:.1f} decades from what was measured" if line.best.distance else ""
    )


def said(question: Question, lines: list[Line]) -> str:
    """Return the answers in one sentence."""
    place = question.place
    answered = sum(line.best is not None for line in lines)
    size = [f"{n} = {x}" for n, x in (("k", question.k), ("batch", question.batch)) if x is not None]
    where = [BACKENDS.get(place.backend, place.backend), place.device, place.dtype, *size]
    return (
        f"{', '.join(where)}: {NEEDS[question.need]}, certified to {question.accuracy:.0e}. "
        f"{answered} of {len(lines)} problems have an answer."
    )


def embedded_evidence(made: Asking, links: Links) -> dict[str, Any]:
    """Return all data that the script needs to answer another question, in few bytes; rules are sent as numbers."""
    evidence = made.evidence
    reasons, codes, solvers = _Numbered(), _Numbered(), _Numbered()
    states = _Numbered([CERTIFIED, NOT_APPLICABLE, NOT_MEASURED])
    places = list(evidence.counts)
    tables: dict[str, list[Any]] = {}
    for (place, need, level), series in evidence.series.items():
        lines = tables.setdefault(f"{places.index(place)}|{need}|{level:g}", [])
        for s in series:
            points = [
                [_short(p.k), _short(p.batch), states(p.state), _short(p.time), _short(p.high), reasons(p.reason),
                 links.to(p.rows[:ROWS_BEHIND]), int(p.loaded)]
                for p in s.points
            ]  # fmt: skip
            growth = None
            if s.scaling is not None:
                c = s.scaling.covariance
                upper = (c[0][0], c[0][1], c[0][2], c[1][1], c[1][2], c[2][2])
                growth = [[round(x, 5) for x in s.scaling.mean], [float(f"{x:.6g}") for x in upper]]
            lines.append([s.kind, solvers(s.solver), s.gradient, codes(s.code), growth, points])
    palette = Palette(solvers.values)
    return {
        "places": [list(p) for p in places], "tables": tables, "reasons": reasons.values, "codes": codes.values,
        "states": states.values,
        "solvers": [[s, evidence.origins.get(s, "ours"), palette.colour(s)] for s in solvers.values],
        "origins": ORIGINS, "needs": NEEDS,
        "kinds": [{"name": k.name, "energy": k.energy, "family": k.family, "rank": k.rank,
                   "sizes": [[_short(a), _short(b)] for a, b in k.sizes]} for k in evidence.kinds],
        "rules": {"tie": TIE, "practical": PRACTICAL, "near": NEAR, "misfit": MISFIT, "interval": INTERVAL},
    }  # fmt: skip


def _short(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(f"{value:.5g}")


class _Numbered:
    """Replace texts that occur often by numbers."""

    def __init__(self, known: list[str] | None = None) -> None:
        self.values = list(known or [])
        self._at = {v: i for i, v in enumerate(self.values)}

    def __call__(self, text: str) -> int:
        if text not in self._at:
            self._at[text] = len(self.values)
            self.values.append(text)
        return self._at[text]
