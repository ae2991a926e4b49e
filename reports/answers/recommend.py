"""What to use for a problem like yours: the best measured choice on the nearest measured problems.

Distance is counted in decades (powers of ten) of size: |log10| of the ratio of k, of rank, and half that of
batch. Within one decade the evidence is near; beyond it the answer says so and names what would measure it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd

from bench.store import RecordsError
from reports.answers.choices import NEEDS, asked, best_rows, grid
from reports.answers.snippet import compare_line, three_lines
from reports.answers.standings import Standing, runner_up, standings, tied
from reports.data.load import load
from reports.data.numbers import seconds, small
from reports.data.sources import default_results

NEAR = 1.0  # decades; further away growth exponents, not constants, decide
TOGETHER = 0.3  # problems this much further than the nearest are evidence too


@dataclass(frozen=True)
class Recommendation:
    """The answer to one question; `choice` is None where nothing measured comes near it."""

    question: dict[str, object]
    choice: Standing | None = None
    runner_up: Standing | None = None
    ties: list[Standing] = field(default_factory=list)
    distance: float = float("inf")
    problems: list[str] = field(default_factory=list)
    machine: str = ""
    code: str = ""
    compare: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def near(self) -> bool:
        return self.choice is not None and self.distance <= NEAR

    def text(self) -> str:
        """The answer for a terminal."""
        return "\n".join(_said(self))

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
    results: Sequence[Path | str] | None = None,
) -> Recommendation:
    """The best measured choice for a problem of this energy and size, from stored rows.

    need is "solve", "loss-gradient" (default) or "argmax-gradient". Without `results` the newest run in
    ./results is read, else the rows published with the project.
    """
    _check(k, rank, batch, tol, need)
    frame = load([Path(r) for r in results] if results else default_results()).compared
    question: dict[str, object] = {
        "energy": energy, "k": k, "rank": rank, "batch": batch, "device": device, "dtype": dtype,
        "need": need, "tol": tol, "regularizer": regularizer, "domain": domain,
    }  # fmt: skip
    same, note = _alike(frame, question)
    if note:
        return Recommendation(question, compare=compare_line(question, None), notes=[note])
    return _answer(same, question)


def _check(k: int, rank: int | None, batch: int, tol: float, need: str) -> None:
    for name, value in (("k", k), ("batch", batch), ("rank", 1 if rank is None else rank)):
        if value < 1:
            raise RecordsError(f"{name} is {value}; it must be 1 or more.")
    if not 0 < tol < 1:
        raise RecordsError(f"tol is {tol!r}; it must lie between 0 and 1, for example 1e-6.")
    if need not in NEEDS:
        raise RecordsError(f"need is {need!r}; it must be one of {', '.join(NEEDS)}.")


def _alike(frame: pd.DataFrame, question: dict[str, object]) -> tuple[pd.DataFrame, str]:
    """The rows of the same energy, regularizer, set and device; else a sentence on what is missing."""
    for name in ("energy", "regularizer", "domain", "device"):
        wanted = question[name]
        if wanted is None:
            continue
        known = sorted({str(x) for x in frame[name].dropna()})
        found = [x for x in known if _plain(x) == _plain(str(wanted))]
        if not found:
            near = get_close_matches(_plain(str(wanted)), [_plain(x) for x in known], 1)
            meant = [x for x in known if _plain(x) in near]
            hint = f" Did you mean {meant[0]}?" if meant else ""
            listed = ", ".join(known) or "none at all"
            return frame, f"No row has the {name} {wanted!r}; measured are {listed}.{hint}"
        frame = frame[frame[name].isin(found)]
    return frame, ""


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def distances(frame: pd.DataFrame, question: dict[str, object]) -> pd.Series:
    """Decades from each row's problem to the question."""
    total = pd.Series(0.0, index=frame.index)
    for name, weight in (("k", 1.0), ("rank", 1.0), ("batch", 0.5)):
        if question[name] is not None:
            ratio = np.log10(frame[name].clip(lower=1) / float(str(question[name]))).abs()
            total = total + weight * ratio.fillna(0.0)
    return total


def _answer(frame: pd.DataFrame, question: dict[str, object]) -> Recommendation:
    need, tol = str(question["need"]), float(str(question["tol"]))
    best = best_rows(asked(frame, need), tol)
    best = best[best["solved"]]
    notes = []
    wanted = best[best["dtype"] == question["dtype"]]
    if wanted.empty and len(best):
        others = ", ".join(sorted(best["dtype"].unique()))
        notes.append(
            f"Nothing in {question['dtype']} is certified at {small(tol)}; the answer is in {others}."
        )
    elif len(wanted):
        best = wanted
    families = frame["family"].mode()
    command = compare_line(question, str(families.iloc[0]) if len(families) else None)
    if best.empty:
        what = f"Nothing certified at {small(tol)} was measured for this energy and need ({NEEDS[need]})."
        return Recommendation(question, compare=command, notes=[*notes, what])
    away = distances(best, question)
    nearest = float(away.min())
    close = best[away <= nearest + TOGETHER]
    group = close["group"].mode().iloc[0]  # one machine: that with most evidence
    if close["group"].nunique() > 1:
        notes.append(f"Other machines were measured too; this answer is from {group} alone.")
    close = close[close["group"] == group]
    order = standings(grid(close))
    row = close[close["id"] == order[0].rows[0]].iloc[0]
    command = compare_line(question, str(row["family"]))
    code = three_lines(order[0].choice, str(row["solver_call"]), need, str(row["energy"]), row["regularizer"],
                       row["domain"])  # fmt: skip
    return Recommendation(
        question, order[0], runner_up(order), tied(order), nearest, list(dict.fromkeys(close["instance"])),
        str(group), code, command, notes,
    )  # fmt: skip


def _said(r: Recommendation) -> list[str]:
    if r.choice is None:
        return [*r.notes, "Measure it with:", f"  {r.compare}"]
    times = 10**r.distance
    far = (
        f"{r.distance:.1f} decades away (a factor of {times:.3g} in size)"
        if r.distance > 0.02
        else "the same size"
    )
    problems = ", ".join(r.problems[:3]) + (f" and {len(r.problems) - 3} more" if len(r.problems) > 3 else "")
    head = "Use" if r.near else "The evidence is too far to recommend; the nearest says"
    lines = [
        f"{head} {r.choice.choice.label()}: {seconds(r.choice.time)} a call on {r.choice.choice.device}, "
        f"certified on {r.choice.solved} of {r.choice.total} problems.",
        *(f"Tie: {s.choice.label()}, {seconds(s.time)}." for s in r.ties[:3]),
    ]
    if r.runner_up is None:
        lines.append("Nothing else was certified there.")
    elif r.runner_up not in r.ties:
        ratio = r.runner_up.time / r.choice.time
        lines.append(f"Next: {r.runner_up.choice.label()}, {seconds(r.runner_up.time)} ({ratio:.3g} x).")
    lines += [
        f"Evidence: {problems}; {far}; machine {r.machine}; rows {', '.join(r.choice.rows[:4])}.",
        *r.notes,
    ]
    lines += ["", *(f"  {line}" for line in r.code.splitlines())]
    if not r.near:
        lines += ["", "Measure your own size with:", f"  {r.compare}"]
    return lines
