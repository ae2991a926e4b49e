"""What the rows of the bars say: races between ours and the peers, and each bar beside what it must reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.data.labels import parsed
from reports.data.numbers import significant

TIMED = "time in bar "
VERDICTS = {"ok": "yes", "why": "no: eager torch, see the solvers' notes", "SHORT": "**no**"}


@dataclass(frozen=True)
class Race:
    """One piece of work: the quickest certified row of ours and of the peers."""

    bar: str
    problem: str
    ours: Any
    peer: Any

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return float(self.peer["steady_s"] / self.ours["steady_s"])

    @property
    def work(self) -> str:
        return self.problem + (", as met in training" if "trained" in self.bar else "")


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest row of each contender and of each line, of whatever commit."""
    same = ["problem", "solver", "backend", "score_name"]
    return frame[frame["kind"] == "bars"].sort_values("created").drop_duplicates(same, keep="last")


def races(frame: pd.DataFrame) -> list[Race]:
    """Of each bar and work: the quickest of ours and of the peers among those that were certified."""
    timed = frame[frame["score_name"].str.startswith(TIMED) & (frame["status"] == "ok")].copy()
    timed["bar"] = timed["score_name"].str.removeprefix(TIMED)
    timed["ours"] = [bool(parsed(text).get("ours")) for text in timed["extra"]]
    found = []
    for (bar, problem), part in timed.groupby(["bar", "problem"], sort=False):
        sides = [part[part["ours"] == side].sort_values("steady_s") for side in (True, False)]
        if all(len(side) for side in sides):
            found.append(Race(str(bar), str(problem), sides[0].iloc[0], sides[1].iloc[0]))
    return found


def speed_table(frame: pd.DataFrame) -> str:
    """Ours against the fastest certified peer, one line per piece of work, in Markdown."""
    lines = ["| work | best of ours | fastest peer | times faster |", "|---|---|---|---|"]
    for race in races(frame):
        lines.append(
            f"| {race.work} | {_timing(race.ours)} | {_timing(race.peer)} | {significant(race.ratio)} |"
        )
    return "\n".join(lines)


def bars_table(frame: pd.DataFrame) -> str:
    """Every bar in Markdown: what was measured beside what it must reach."""
    lines = ["| bar | measured | must be | holds |", "|---|---|---|---|"]
    for _, row in frame[frame["solver"] == "bar"].iterrows():
        extra = parsed(row["extra"])
        value = row["reason"] if row["status"] != "ok" else significant(row["score"])
        asked = f"{extra['sense']} {significant(extra['bar'])}"
        lines.append(f"| {row['score_name']} | {value} | {asked} | {VERDICTS[extra['verdict']]} |")
    return "\n".join(lines)


def where(frame: pd.DataFrame) -> str:
    """The machine of the timings, and how many of them were disturbed."""
    timed = frame[frame["steady_s"].notna()]
    machines = sorted({str(parsed(text).get("cpu", "?")) for text in timed["machine_info"].dropna()})
    flagged = int(timed["loaded"].fillna(0).sum())
    load = f" {flagged} of {len(timed)} timings were taken while other programs were busy." if flagged else ""
    return (
        f"Machine: {'; '.join(machines) or 'unknown'}. float64, at a certified relative gap of 1e-10.{load}"
    )


def _timing(row: Any) -> str:
    backend = f" ({row['backend']})" if row["backend"] else ""
    gap = f", gap {row['gap_rel']:.0e}" if row["gap_rel"] == row["gap_rel"] else ""
    return f"{row['solver']}{backend}: {significant(1e3 * row['steady_s'])} ms{gap}"
