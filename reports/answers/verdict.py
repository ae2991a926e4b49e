"""Say what to use, and how sure: for each family and framework the winner, its rivals, and what would change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pandas as pd

from reports.answers.changes import TOLERANCES, Change, what_would_change
from reports.answers.choices import INACCURATE, asked, best_rows, explained, grid
from reports.answers.standings import Standing, runner_up, standings, tied


@dataclass(frozen=True)
class Verdict:
    """Hold the answer for one family in one framework, machine and device; `winner` is None where nobody certified."""

    group: str
    family: str
    device: str
    backend: str
    need: str
    tol: float
    order: list[Standing] = field(default_factory=list)
    find_changes: Callable[[], list[Change]] = list
    problems: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    closest: tuple[str, float, str, str] | None = None  # where nobody certified: solver, gap, row, what lacks

    @cached_property
    def changes(self) -> list[Change]:
        """Return what would change the answer; it is worked out when it is asked for, which the page never does."""
        return self.find_changes()

    @property
    def winner(self) -> Standing | None:
        return self.order[0] if self.order else None

    @property
    def ties(self) -> list[Standing]:
        return tied(self.order)

    @property
    def runner_up(self) -> Standing | None:
        return runner_up(self.order) if self.order else None


def verdicts(
    frame: pd.DataFrame, tol: float = 1e-6, needs: Sequence[str] = ("loss-gradient", "solve")
) -> list[Verdict]:
    """Return a verdict for each machine, need, family, device and framework that was measured."""
    out = []
    for need in needs:
        rows = asked(frame, need)
        rows = rows[rows["status"] != "unsupported"]
        at = {t: _split(best_rows(rows, t, need)) for t in sorted({tol, *TOLERANCES})}
        for place in sorted(at[tol]):
            group, family, device, backend = place
            best = at[tol][place]
            order = standings(grid(best))
            elsewhere = {
                d: b
                for (g, f, d, e), b in at[tol].items()
                if (g, f, e) == (group, family, backend) and d != device
            }
            ladder = {t: places[place] for t, places in at.items() if t != tol}
            out.append(
                Verdict(
                    group, family, device, backend, need, tol, order,
                    find_changes=partial(what_would_change, order, best, ladder, elsewhere, tol) if order else list,
                    problems=list(dict.fromkeys(best["instance"])),
                    caveats=_caveats(best, order),
                    closest=None if order else _closest(best, need),
                )
            )  # fmt: skip
    return out


def _split(best: pd.DataFrame) -> dict[tuple[str, ...], pd.DataFrame]:
    places = best.groupby(["group", "family", "device", "backend"])
    return {tuple(map(str, place)): part for place, part in places}


def _closest(best: pd.DataFrame, need: str) -> tuple[str, float, str, str] | None:
    """Return the row with the smallest gap, and the reason why it is no answer where the gap itself would suffice."""
    known = best[best["gap_rel"].notna()]
    if known.empty:
        return None
    row = known.loc[known["gap_rel"].idxmin()]
    lacks = "" if row["state"] == INACCURATE else f"but {explained(row, row['state'], need)}"
    return str(row["solver"]), float(row["gap_rel"]), str(row["id"]), lacks


def _caveats(best: pd.DataFrame, order: list[Standing]) -> list[str]:
    out = []
    if (best["concave"] == 0).any():
        out.append("not concave in p: the certificate shows stationarity, not a global maximum")
    if order:
        won = best[best["id"].isin(order[0].rows)]
        if (won["loaded"] == 1).any():
            out.append("measured while the machine was busy")
        if (won["repeats"].fillna(1) < 2).any():
            out.append("one repeat only: an interval of 10% is assumed")
        if (won["concave"] == 0).any():
            out += _lower_values(best, won)
    return out


def _lower_values(best: pd.DataFrame, won: pd.DataFrame) -> list[str]:
    """Say how much lower the fastest choice stops on non-concave problems."""
    top = best[best["solved"]].groupby("instance")["value"].max()
    here = won.groupby("instance")["value"].max()
    short = ((top - here) / np.maximum(1.0, top.abs())).max()
    return [f"another choice reached a value higher by {short:.1e} (relative)"] if short > 1e-6 else []
