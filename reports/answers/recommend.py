"""Recommend what to use for a problem: the fastest certified choice at its size, for a framework and need.

Where the size itself was measured the answer is that measurement. Between and beyond measured sizes it is an estimate
from each solver's fitted growth (`scaling`), with its interval; beyond one decade the evidence is too far to answer.
Each framework is answered apart, and what was not measured is told from what failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib.util import find_spec
from numbers import Integral, Real
from os import PathLike
from pathlib import Path

import pandas as pd

from bench.store import RecordsError
from reports.answers.choices import NEEDS
from reports.answers.evidence import Evidence, Place, collect
from reports.answers.question import NOT_MEASURED, Cell, Line, Question, answer
from reports.answers.snippet import compare_line
from reports.data.load import load
from reports.data.numbers import seconds, small
from reports.data.sources import default_results, published_results
from reports.data.words import BACKENDS, size


@dataclass(frozen=True)
class Recommendation:
    """Hold the answer to one question, as `recommend` returns it; print it to read all of it.

    Args:
        question: What was asked.
        line: The problem nearest to the question with every solver on it; None where nothing alike was measured.
        compare: The command that measures the question itself.
        notes: What a reader must know besides.
        beside: The answers for other frameworks, where none was named and the environment has several.

    Example:
        >>> from reports.answers.recommend import recommend
        >>> found = recommend("Pairwise", k=14, rank=1, batch=32, backend="torch")
        >>> found.choice.certified, "gfy.InnerProblem" in found.code
        (True, True)
    """

    question: Question
    line: Line | None = None
    compare: str = ""
    notes: list[str] = field(default_factory=list)
    beside: list[Recommendation] = field(default_factory=list)

    @property
    def choice(self) -> Cell | None:
        """Return the recommended solver with its gradient mode, time and interval, or None where there is none."""
        return self.line.best if self.line else None

    @property
    def runner_up(self) -> Cell | None:
        """Return the fastest other solver that was certified."""
        return self.line.order[1] if self.line and len(self.line.order) > 1 else None

    @property
    def code(self) -> str:
        """Return three lines of code that use the choice."""
        return self.choice.code if self.choice else ""

    @property
    def distance(self) -> float:
        """Return the decades between the question's size and the nearest certified measurement of the choice."""
        return self.choice.distance if self.choice else float("inf")

    @property
    def measured(self) -> bool:
        """Return whether the answer was measured at the requested size, so that nothing is estimated."""
        return self.choice is not None and self.choice.distance == 0

    def text(self) -> str:
        """Return the answer for a terminal."""
        return "\n".join(
            line for r in (self, *self.beside) for line in [*_said(r, bool(self.beside)), ""]
        ).rstrip()

    def __str__(self) -> str:
        return self.text()


def recommend(
    energy: str,
    k: int,
    rank: int | None = None,
    batch: int = 1,
    device: str = "cpu",
    dtype: str = "float64",
    need: str = "loss-gradient",
    tol: float = 1e-6,
    regularizer: str | None = None,
    domain: str | None = None,
    results: Path | str | Sequence[Path | str] | None = None,
    backend: str | None = None,
) -> Recommendation:
    """Return the fastest certified choice for a problem of this energy and size, from stored rows.

    Args:
        energy: Name of the energy, for example "Pairwise".
        k: Size of p.
        rank: Rank of the interactions, where they have one.
        batch: Examples solved at once.
        device: "cpu" or "cuda".
        dtype: "float64" or "float32".
        need: "loss-gradient" (default), "argmax-gradient" (p* with dp*/dv) or "solve" (p* alone).
        tol: The certified relative gap that is good enough.
        regularizer: Its name, where it matters.
        domain: The name of the set, where it matters.
        results: Files of rows; without them every store in ./results that holds comparisons, and the published rows.
        backend: "jax" or "torch"; without it the one that is imported, or else installed, and both where both are.

    Returns:
        A `Recommendation`; print it, or take its `choice` and `code`.

    Raises:
        RecordsError: An argument is out of range, or there are no rows to read.

    Example:
        >>> from reports.answers.recommend import recommend
        >>> found = recommend("Pairwise", k=174, rank=1, batch=256, backend="jax")
        >>> found.choice.certified, found.distance < 1
        (True, True)
    """
    _check(k, rank, batch, tol, need)
    given = [results] if isinstance(results, (str, PathLike)) else results
    frame = load(map(Path, given) if given else evidence_files()).compared
    _check_place(frame, {"backend": backend, "device": device, "dtype": dtype})
    backends = [backend] if backend else environment_backends()
    asked = Question(Place("", backends[0], device, dtype), need, tol, k, batch)
    same, note = _alike(frame, {"energy": energy, "regularizer": regularizer, "domain": domain})
    if note:
        return Recommendation(asked, compare=compare_line(None, k, batch, asked), notes=[note])
    evidence = collect(same, [need], [tol])
    found = [
        _answered(evidence, replace(asked, place=asked.place._replace(backend=b)), rank, _order(same))
        for b in backends
    ]
    return replace(found[0], beside=found[1:])


def environment_backends() -> list[str]:
    """Return the frameworks to answer for: those that are imported, else those that are installed, else both."""
    known = ["jax", "torch"]
    imported = [name for name in known if name in sys.modules]
    installed = [name for name in known if find_spec(name) is not None]
    return imported if len(imported) == 1 else installed or known


def evidence_files() -> list[Path]:
    """Return the rows of this folder's runs, and those published with the project."""
    published = published_results()
    return list(dict.fromkeys([*default_results(), *([published] if published else [])]))


def _check(k: int, rank: int | None, batch: int, tol: float, need: str) -> None:
    for name, value in (("k", k), ("batch", batch), ("rank", 1 if rank is None else rank)):
        if not isinstance(value, Integral) or value < 1:
            raise RecordsError(f"{name} is {value!r}; it must be a whole number from 1 on.")
    if not isinstance(tol, Real) or not 0 < tol < 1:
        raise RecordsError(f"tol is {tol!r}; it must lie between 0 and 1, for example 1e-6.")
    if need not in NEEDS:
        raise RecordsError(f"need is {need!r}; it must be one of {', '.join(NEEDS)}.")


PLACES = {"backend": ("jax", "torch"), "device": ("cpu", "cuda"), "dtype": ("float64", "float32")}


def _check_place(frame: pd.DataFrame, given: dict[str, str | None]) -> None:
    """Refuse a framework, device or precision that no row has and no run could measure."""
    for name, value in given.items():
        known = dict.fromkeys([*PLACES[name], *map(str, frame[name].dropna().unique())])
        if value is not None and value not in known:
            raise RecordsError(f"{name} is {value!r}; it must be one of {', '.join(known)}.")


def _alike(frame: pd.DataFrame, wanted: dict[str, str | None]) -> tuple[pd.DataFrame, str]:
    """Return the rows of the same energy, regularizer and set, else a sentence on what is missing."""
    if frame.empty:
        return frame, "The results hold no rows of comparisons: `gfy compare` measures some."
    chosen: list[str] = []
    for name, text in wanted.items():
        if text is None:
            continue
        if not isinstance(text, str):
            raise RecordsError(
                f"{name} is {text!r}; it must be a name, for example {frame[name].dropna().iloc[0]!r}."
            )
        known = sorted({str(x) for x in frame[name].dropna()})
        found = [x for x in known if _plain(x) == _plain(text)]
        if not found:
            near = get_close_matches(_plain(text), [_plain(x) for x in known], 1)
            meant = [x for x in known if _plain(x) in near]
            hint = f" Did you mean {meant[0]}?" if meant else ""
            those = f"No row with {' and '.join(chosen)}" if chosen else "No row"
            return frame, f"{those} has the {name} {text!r}; measured are {', '.join(known)}.{hint}"
        frame = frame[frame[name].isin(found)]
        chosen.append(f"the {name} {found[0]}")
    return frame, ""


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _order(frame: pd.DataFrame) -> list[str]:
    """Return the machines, the one that measured last first: the user's own rows come before the published ones."""
    newest = frame.groupby("group")["created"].max().sort_values(ascending=False, na_position="last")
    return [str(g) for g in newest.index]


def _answered(evidence: Evidence, question: Question, rank: int | None, groups: list[str]) -> Recommendation:
    """Return the answer of the first machine that has one, else of the first that measured anything alike."""
    candidates: list[tuple[tuple[float, ...], Question, Line]] = []
    for place_order, group in enumerate(groups):
        asked = replace(question, place=question.place._replace(group=group))
        for line in answer(evidence, asked):
            other = 0.0 if rank is None or line.kind.rank is None else abs(line.kind.rank - rank)
            best = line.best
            tried = any(c.state != NOT_MEASURED for c in line.cells.values())
            rows = sum(len(c.rows) for c in line.cells.values())
            key = (best is None, not tried, other, place_order, best.distance if best else 0.0, -rows)
            candidates.append((tuple(map(float, key)), asked, line))
    if not candidates:
        note = "No comparison holds this problem in any framework."
        return Recommendation(
            question, compare=compare_line(None, question.k or 1, question.batch or 1, question), notes=[note]
        )
    _, asked, line = min(candidates, key=lambda c: c[0])
    notes = _notes(evidence, asked, line, rank, groups)
    kind = (
        line.kind if rank is None else replace(line.kind, rank=rank if line.kind.rank is not None else None)
    )
    return Recommendation(asked, line, compare_line(kind, line.k, line.batch, asked), notes)


def _notes(evidence: Evidence, asked: Question, line: Line, rank: int | None, groups: list[str]) -> list[str]:
    notes = []
    if line.best is not None:
        alike = {(k.regularizer, k.domain) for k in evidence.kinds} - {
            (line.kind.regularizer, line.kind.domain)
        }
        if alike:
            named = ", ".join(sorted(f"{r} on {d}" for r, d in alike))
            notes.append(
                f"This is for {line.kind.regularizer} on {line.kind.domain}; measured are also {named}: name yours "
                "by regularizer and domain."
            )
        if rank is not None and line.kind.rank not in (None, rank):
            notes.append(f"Rank {rank} was not measured; this is rank {line.kind.rank}.")
        if len(groups) > 1:
            notes.append(f"Other machines were measured too; this answer is from {asked.place.group} alone.")
        if line.best.loaded:
            notes.append("It was timed while the machine was busy.")
        return notes
    others = sorted(
        {
            p.dtype
            for p in evidence.counts
            if p.backend == asked.place.backend and p.dtype != asked.place.dtype
        }
    )
    for dtype in others:
        other = [
            x for x in answer(evidence, replace(asked, place=asked.place._replace(dtype=dtype))) if x.best
        ]
        if other and other[0].best:
            notes.append(
                f"In {dtype} {other[0].best.label()} is certified: {seconds(other[0].best.time)} per call."
            )
    return notes


def _said(r: Recommendation, named: bool) -> list[str]:
    q = r.question
    head = [f"{BACKENDS.get(q.place.backend, q.place.backend)}:"] if named else []
    if r.line is None:
        return [*head, *r.notes, "Measure it with:", f"  {r.compare}"]
    if r.choice is None:
        return [*head, *_nothing(r), *r.notes, "", "Measure it with:", f"  {r.compare}"]
    best = r.choice
    exact = (
        "measured at this size"
        if r.measured
        else f"estimated, {best.distance:.1f} decades from the nearest measured size"
    )
    lines = [
        f"Use {best.label()} ({q.place.backend}, {q.place.device}, {q.place.dtype}) for {NEEDS[q.need]}.",
        f"{seconds(best.time)} per call ({seconds(best.low)} to {seconds(best.high)}), certified to "
        f"{small(q.accuracy)}; {exact}.",
    ]
    for other in r.line.order[1:4]:
        word = "Tie" if other in r.line.ties else "Next"
        sure = "" if other in r.line.ties or r.line.sure != "likely" else ", intervals overlap"
        lines.append(
            f"{word}: {other.label()}, {seconds(other.time)} ({other.time / best.time:.3g} x{sure})."
        )
    if r.runner_up is None:
        lines.append("Nothing else was certified there.")
    lines += [f"Failed: {c.label()}: {c.reason}." for c in _failures(r.line)[:3]]
    sizes = ", ".join(f"({size(a, b)})" for a, b in sorted(r.line.kind.sizes)[:4])
    lines += [
        f"Evidence: {r.line.kind.name}; measured at {sizes}; machine {q.place.group}; rows {', '.join(best.rows[:3])}.",
        *r.notes,
        "",
        *(f"  {line}" for line in r.code.splitlines()),
    ]
    if not r.measured:
        lines += ["", "Measure your own size with:", f"  {r.compare}"]
    return [*head, *lines]


def _failures(line: Line) -> list[Cell]:
    return [
        c for c in line.cells.values() if not c.certified and c.state not in (NOT_MEASURED, "does not apply")
    ]


def _nothing(r: Recommendation) -> list[str]:
    """Return the reason why there is no answer: measured and failed, measured too far away, or not measured."""
    assert r.line is not None
    q, need = r.question, NEEDS[r.question.need]
    where = f"{r.line.name} ({q.place.backend}, {q.place.device}, {q.place.dtype})"
    bad = _failures(r.line)
    if bad:
        told = [f"  {c.label()} {c.state}: {c.reason}." for c in bad[:6]]
        return [
            f"Nothing was certified at {small(q.accuracy)} for {need} on {where}; it was tried and failed:",
            *told,
        ]
    far = [c for c in r.line.cells.values() if c.time == c.time]
    if far:
        near = min(far, key=lambda c: (c.distance, c.time))
        return [
            f"The evidence on {where} is too far to recommend: {near.reason}.",
            f"There {near.label()} was certified; its growth gives {seconds(near.time)} here ({seconds(near.low)} to "
            f"{seconds(near.high)}).",
        ]
    return [f"Not measured: {need} on {where}."]
