"""Gather everything that a report says, once; the renderers decide how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from bench.store import RecordsError
from reports.answers import beyond
from reports.answers.choices import LEVELS
from reports.answers.evidence import collect
from reports.answers.imitation import seeds_frame
from reports.answers.multilabel import lines
from reports.answers.tables import Table, failures, honesty, rankings
from reports.answers.verdict import Verdict, verdicts
from reports.data.load import Rows, load
from reports.data.sources import with_experiments
from reports.figures import draw_all, theory
from reports.figures.base import Drawn, save_all
from reports.figures.palette import Palette
from reports.pages.asking import Asking, asking
from reports.pages.imitation import imitation_table
from reports.pages.multilabel import multilabel_tables
from reports.pages.settings import Place, limitations, places, rules

NEEDS = ("loss-gradient", "argmax-gradient", "solve")
DRAWN_PLACES = 3  # machines and devices that get figures; tables and verdicts are made for all


@dataclass
class Picture:
    """Hold a drawn figure with the SVG that the page holds."""

    drawn: Drawn
    svg: str


@dataclass
class Part:
    """Hold the figures of one machine and device, or of an experiment."""

    title: str
    pictures: list[Picture] = field(default_factory=list)


@dataclass
class Report:
    """Hold the gathered report."""

    rows: Rows
    tol: float
    made: str
    verdicts: list[Verdict]
    rankings: dict[str, list[Table]]
    failures: Table | None
    honesty: Table | None
    experiment_tables: list[Table]
    parts: list[Part]
    places: list[Place]
    rules: list[str]
    limitations: list[str]
    asking: Asking | None = None  # the question on top and its table; None where there is nothing to ask
    title: str = "What should I use?"
    said: str = ""  # takes the place of the headline where it is not about verdicts

    @property
    def tables(self) -> list[Table]:
        """Return all tables; each is written to a file of its own too."""
        ranked = [t for tables in self.rankings.values() for t in tables]
        return ranked + self.kept + self.experiment_tables

    @property
    def kept(self) -> list[Table]:
        """Return the tables of what failed, and of how often a solver's claim to have converged is true."""
        return [t for t in (self.failures, self.honesty) if t is not None]

    @property
    def pictures(self) -> list[Picture]:
        return [p for part in self.parts for p in part.pictures]

    @property
    def headline(self) -> str:
        """Return the report in one sentence."""
        if self.said:
            return self.said
        frame = self.rows.compared
        if frame.empty:
            return "These results hold no measured rows yet: `gfy compare` makes some."
        answered = [v for v in self.verdicts if v.winner is not None]
        if not answered:
            return (
                f"None of the {len(frame):,} rows is certified to {self.tol:.0e}: nothing can be recommended."
            )
        families = len({v.family for v in self.verdicts})
        ties = sum(bool(v.ties) for v in answered)
        return (
            f"{len(frame):,} rows, {families} problem families, {frame['solver'].nunique()} solvers, "
            f"{frame['group'].nunique()} machine{'s' if frame['group'].nunique() > 1 else ''}: "
            f"in {len(answered)} of {len(self.verdicts)} cases (a problem, a framework and a need) a choice is "
            f"certified to {f'{self.tol:.0e}'.replace('e-0', 'e-')}; in {ties} of them two choices are equally fast."
        )


def gather(results: Sequence[Path], figures: Path, tol: float = 1e-6) -> Report:
    """Read, judge, tabulate and draw; figure files go to the folder `figures`."""
    if not 0 < tol < 1:
        raise RecordsError(f"tol is {tol!r}; it must lie between 0 and 1, for example 1e-6.")
    rows = load(with_experiments(results))
    frame = rows.compared
    judged = verdicts(frame, tol, NEEDS) if len(frame) else []
    trained, seeds = lines(rows.frame)[0], seeds_frame(rows.frame)
    imitated = imitation_table(seeds)
    asked = asking(collect(frame, levels=sorted({*LEVELS, tol}, reverse=True))) if len(frame) else None
    return Report(
        rows=rows, tol=tol, made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), verdicts=judged,
        rankings={need: rankings(frame, tol, need) if len(frame) else [] for need in NEEDS},
        failures=failures(frame) if len(frame) else None, honesty=honesty(frame) if len(frame) else None,
        asking=asked,
        experiment_tables=[*multilabel_tables(trained), *([imitated] if imitated else []), *beyond.tables(rows.frame)],
        parts=_draw(rows, judged, asked, (trained, seeds), figures, tol), places=places(rows.frame), rules=rules(tol),
        limitations=limitations(rows),
    )  # fmt: skip


def _draw(
    rows: Rows,
    judged: list[Verdict],
    asked: Asking | None,
    found: tuple[pd.DataFrame, pd.DataFrame],
    folder: Path,
    tol: float,
) -> list[Part]:
    frame = rows.compared
    palette = Palette(frame["solver"])
    parts: list[tuple[str, list[Drawn]]] = []
    by_place = sorted(frame.groupby(["group", "device"]), key=lambda item: -len(item[1]))
    if len(by_place) > DRAWN_PLACES:
        rows.notes.append(f"Figures are drawn for the {DRAWN_PLACES} machines and devices with most rows.")
    for number, ((group, device), of_place) in enumerate(by_place[:DRAWN_PLACES]):
        of_group = [v for v in judged if v.group == group]
        drawn = draw_all.measured(of_place, of_group if number == 0 else [], palette, tol)
        if number == 0 and asked is not None:
            drawn = [*draw_all.answered(asked.evidence, asked.question, palette), *drawn]
        for d in drawn:
            d.name += f"-{number + 1}" if number else ""
        parts.append((f"Measured on {device}, {group}", drawn))
    parts.append(("The paper's experiments", draw_all.experiments(rows.frame, *found)))
    parts.append(("The paper's theorems, checked", theory.studied(rows.frame)))
    parts.append(("What the loss is", draw_all.explained() + theory.explained()))
    svgs = iter(save_all([d for _, drawn in parts for d in drawn], folder))
    return [Part(title, [Picture(d, next(svgs)) for d in drawn]) for title, drawn in parts if drawn]
