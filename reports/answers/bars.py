"""Compute what the rows of the bars say: races of ours against the peers, and each bar beside its required value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.data.labels import parsed
from reports.data.numbers import significant

TIMED = "time in bar "
VERDICTS = {"ok": "yes", "why": "no: eager torch, see the solvers' notes", "SHORT": "**no**"}

BACKENDS = {"jax": "JAX", "torch": "torch"}
ILL_CONDITIONED = 1e4  # the condition number from which the table in words says so
WAYS = (", ill-conditioned", ", as met in training")  # how the data of one kind of work can differ
# Peers by a part of their name, without spaces and in small letters; all others are general codes.
SIDES = {
    "hand": ("byhand",),
    "idea": ("jaxopt", "bisection", "findroot", "mirrordescent"),
}
# What the problems of a family are, by a part of its name; the first that is found is said.
KINDS = (
    ("spen", "network energies over {k} labels"),
    ("quadratic-gini-simplex", "dense problems over {k} classes"),
    ("simplex", "problems over {k} classes"),
    ("dense", "dense problems with {k} labels"),
    ("quadratic", "dense problems with {k} labels"),
    ("pairwise", "problems with {k} labels whose interactions have rank {rank}"),
    ("custom", "user-written network energies over {k} labels"),
)


@dataclass(frozen=True)
class Race:
    """Hold one piece of work: the quickest certified row of ours and of the peers."""

    bar: str
    problem: str
    ours: Any
    peer: Any

    @property
    def ratio(self) -> float:
        """Return how many times faster ours is."""
        return float(self.peer["steady_s"] / self.ours["steady_s"])

    @property
    def work(self) -> str:
        """Return the work in words: "64 dense problems with 50 labels"."""
        return work_in_words(self.ours, self.bar)


def kinds_of_work(found: list[Race]) -> dict[str, Race]:
    """Return one race per kind of work; of one that was measured in several ways, that with the lowest ratio."""
    kept: dict[str, Race] = {}
    for race in found:
        work = race.work
        for way in WAYS:
            work = work.replace(way, "")
        if work not in kept or race.ratio < kept[work].ratio:
            kept[work] = race
    return kept


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the newest row of each contender and of each line, of whatever commit."""
    same = ["problem", "solver", "backend", "score_name"]
    return frame[frame["kind"] == "bars"].sort_values("created").drop_duplicates(same, keep="last")


def _timed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of certified timings, with the bar they belong to and whether they are ours."""
    timed = frame[frame["score_name"].str.startswith(TIMED) & (frame["status"] == "ok")].copy()
    timed["bar"] = timed["score_name"].str.removeprefix(TIMED)
    timed["ours"] = [bool(parsed(text).get("ours")) for text in timed["extra"]]
    return timed


def races(frame: pd.DataFrame) -> list[Race]:
    """Return for each bar and work the quickest row of ours and of the peers among those that were certified."""
    timed = _timed(frame)
    found = []
    for (bar, problem), part in timed.groupby(["bar", "problem"], sort=False):
        sides = [part[part["ours"] == side].sort_values("steady_s") for side in (True, False)]
        if all(len(side) for side in sides):
            found.append(Race(str(bar), str(problem), sides[0].iloc[0], sides[1].iloc[0]))
    return found


def speed_table(frame: pd.DataFrame) -> str:
    """Return ours against the fastest certified peer, one line per piece of work, in Markdown."""
    lines = ["| work | best of ours | fastest peer | times faster |", "|---|---|---|---|"]
    for race in races(frame):
        lines.append(
            f"| {race.problem} | {_timing(race.ours)} | {_timing(race.peer)} | {significant(race.ratio)} |"
        )
    return "\n".join(lines)


NAMED = {"training-epoch": "one epoch on yeast, batch 32"}


def side_of(solver: str) -> str:
    """Return the column of the table in words that a peer belongs to; an unknown peer is a general code."""
    name = solver.lower().replace(" ", "")
    for side, parts in SIDES.items():
        if any(part in name for part in parts):
            return side
    return "general"


def work_in_words(row: Any, bar: str) -> str:
    """Return the work of a row for a reader who does not know our names: "64 dense problems with 50 labels"."""
    family, k, batch, rank = (row[name] for name in ("family", "k", "batch", "rank"))
    if any(pd.isna(x) for x in (family, k, batch)):
        return NAMED.get(bar, str(row["problem"]))
    params = parsed(row["problem_params"])
    rank = params.get("rank") if pd.isna(rank) else rank
    kind = next((words for part, words in KINDS if part in family), f"{family} problems with {{k}} labels")
    text = f"{int(batch):,} {kind.format(k=f'{int(k):,}', rank=int(rank or 0))}"
    if "shannon" in family:
        text += ", with an entropy"
    if float(params.get("condition") or 0) >= ILL_CONDITIONED:
        text += WAYS[0]
    if "trained" in bar or "trained" in family:
        text += WAYS[1]
    return f"{text}, p* and dp*/dv" if bar == "layers" else text


def words_table(frame: pd.DataFrame, most: int | None = None) -> str:
    """Return how fast we are in words, one line per piece of work, in Markdown; lines that we lose are bold.

    Of more than `most` lines all that we lose are kept, and so many of the others, in their order.
    """
    lines = [
        "| work | ours | fastest general code | the same idea off the shelf | fifteen lines by hand | so ours is |",
        "|---|---|---|---|---|---|",
    ]
    timed, found = _timed(frame), races(frame)
    lost = sum(race.ratio < 1 for race in found)
    room = len(found) if most is None else max(most - lost, 0)
    won = [race for race in found if race.ratio >= 1][:room]
    for race in (race for race in found if race.ratio < 1 or any(race is one for one in won)):
        part = timed[(timed["bar"] == race.bar) & (timed["problem"] == race.problem) & ~timed["ours"]]
        sides = part["solver"].map(side_of)
        cells = [_cell(part[sides == side]) for side in ("general", "idea", "hand")]
        said = (
            f"{significant(race.ratio)} x faster"
            if race.ratio >= 1
            else f"**{significant(1 / race.ratio)} x slower**"
        )
        lines.append(f"| {race.work} | {_short(race.ours)} | {' | '.join(cells)} | {said} |")
    return "\n".join(lines)


def _cell(part: pd.DataFrame) -> str:
    return _short(part.sort_values("steady_s").iloc[0]) if len(part) else ""


def _short(row: Any) -> str:
    backend = BACKENDS.get(str(row["backend"]), "")
    where = f", {backend}" if backend and f"({row['backend']})" not in str(row["solver"]) else ""
    seconds = float(row["steady_s"])
    time = f"{significant(seconds)} s" if seconds >= 1 else f"{significant(1e3 * seconds)} ms"
    return f"{time} ({row['solver']}{where})"


def bars_table(frame: pd.DataFrame) -> str:
    """Return every bar in Markdown: what was measured beside what it must reach."""
    lines = ["| bar | measured | must be | holds |", "|---|---|---|---|"]
    for _, row in frame[frame["solver"] == "bar"].iterrows():
        extra = parsed(row["extra"])
        value = row["reason"] if row["status"] != "ok" else significant(row["score"])
        asked = f"{extra['sense']} {significant(extra['bar'])}"
        lines.append(f"| {row['score_name']} | {value} | {asked} | {VERDICTS[extra['verdict']]} |")
    return "\n".join(lines)


def where(frame: pd.DataFrame) -> str:
    """Return the machine of the timings, and how many of them were disturbed."""
    timed = frame[frame["steady_s"].notna()]
    machines = sorted({str(parsed(text).get("cpu", "?")) for text in timed["machine_info"].dropna()})
    flagged = int(timed["loaded"].fillna(0).sum())
    load = f" {flagged} of {len(timed)} timings were taken while other programs were busy." if flagged else ""
    return (
        f"The machine is {'; '.join(machines) or 'unknown'}; all numbers are float64 and all answers certified to a "
        f"relative gap of 1e-10.{load}"
    )


def _timing(row: Any) -> str:
    backend = f" ({row['backend']})" if row["backend"] else ""
    gap = f", gap {row['gap_rel']:.0e}" if row["gap_rel"] == row["gap_rel"] else ""
    return f"{row['solver']}{backend}: {significant(1e3 * row['steady_s'])} ms{gap}"
