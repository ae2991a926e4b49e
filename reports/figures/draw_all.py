"""Draw every figure that the rows allow, for one machine at a time."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from reports.answers.choices import asked, best_rows, grid
from reports.answers.evidence import Evidence
from reports.answers.question import Question
from reports.answers.verdict import Verdict
from reports.figures import (
    agreement,
    answers,
    base,
    compiling,
    curves,
    devices,
    fronts,
    geometry,
    growth,
    imitation,
    memory,
    multilabel,
    profile,
    slopes,
    training,
)
from reports.figures.palette import Palette


def measured(frame: pd.DataFrame, verdicts: list[Verdict], palette: Palette, tol: float) -> list[base.Drawn]:
    """Return the figures of one machine's rows; those without data are left out."""
    recipes: list[Callable[[], base.Drawn | None]] = [
        lambda: curves.draw(frame, palette, "gap-time"),
        lambda: curves.draw(frame, palette, "gap-steps"),
        lambda: growth.draw(frame, palette, tol),
        lambda: profile_of(frame, palette, tol, "solve"),
        lambda: profile_of(frame, palette, tol, "loss-gradient"),
        lambda: fronts.draw(frame, palette),
        lambda: agreement.draw(frame),
        lambda: agreement.draw(frame, agreement.ARGMAX),
        lambda: slopes.draw(frame),
        lambda: compiling.draw(frame, palette),
        lambda: memory.draw(frame),
        lambda: devices.draw(verdicts, palette),
    ]
    with base.style():
        return [drawn for recipe in recipes if (drawn := recipe()) is not None]


def answered(evidence: Evidence, question: Question, palette: Palette) -> list[base.Drawn]:
    """Return the answers to a question in every framework, as one picture."""
    with base.style():
        drawn = answers.draw(evidence, question, palette)
    return [drawn] if drawn is not None else []


def experiments(frame: pd.DataFrame, trained: pd.DataFrame, seeds: pd.DataFrame) -> list[base.Drawn]:
    """Return the figures of the paper's experiments, where their rows are at hand.

    Args:
        frame: All rows.
        trained: The lines of the multilabel tables.
        seeds: One line per seed of the imitation experiment.
    """
    with base.style():
        drawn = [multilabel.draw(trained), imitation.draw(seeds), training.draw(frame)]
    return [d for d in drawn if d is not None]


def explained() -> list[base.Drawn]:
    """Return the figures that need no rows: what the loss is."""
    with base.style():
        return [geometry.draw_geometry(), geometry.draw_losses()]


def profile_of(frame: pd.DataFrame, palette: Palette, tol: float, need: str) -> base.Drawn | None:
    """Return the performance profile of the rows that measure a need, or None where there are none."""
    best = best_rows(asked(frame, need), tol, need)
    return profile.draw(grid(best), palette, tol, need) if len(best) else None
