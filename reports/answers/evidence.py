"""Gather the measured evidence for every question: which solvers were certified on which problems, and how fast.

A *kind* of problem is a family with its parameters but k and batch. For each place (machine, framework, device,
precision), need and accuracy there is one `Series` per kind, solver and gradient mode: its measured sizes, with seeds
taken together, and its fitted growth between them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from reports.answers.choices import CERTIFIED, LEVELS, NEEDS, asked, best_rows, explained
from reports.answers.scaling import Scaling, fit
from reports.answers.snippet import three_lines
from reports.data import words
from reports.data.labels import parsed


class Place(NamedTuple):
    """Say where and how a row was measured: machine with its versions, framework, device, precision."""

    group: str
    backend: str
    device: str
    dtype: str


@dataclass(frozen=True)
class Kind:
    """Describe a problem of any size."""

    name: str
    family: str
    energy: str
    regularizer: str | None
    domain: str | None
    rank: int | None
    params: dict[str, Any]
    sizes: tuple[tuple[float, float], ...]  # (k, batch) of all rows, most measured first


@dataclass(frozen=True)
class Point:
    """Hold one measured size of a series, its seeds together."""

    k: float
    batch: float
    state: str
    time: float
    high: float
    reason: str = ""
    rows: tuple[str, ...] = ()
    loaded: bool = False


@dataclass(frozen=True)
class Series:
    """Hold a solver with a gradient mode on a kind of problem."""

    kind: int
    solver: str
    gradient: str
    points: list[Point]
    scaling: Scaling | None
    code: str


@dataclass(frozen=True)
class Evidence:
    """Hold all series by (place, need, accuracy), the kinds of problems, and the origin of each solver."""

    kinds: list[Kind]
    series: dict[tuple[Place, str, float], list[Series]]
    origins: dict[str, str]
    counts: dict[Place, int] = field(default_factory=dict)
    numbers: pd.Series = field(
        default_factory=lambda: pd.Series(dtype=int)
    )  # the kind of each row, by its id


def collect(
    frame: pd.DataFrame, needs: Sequence[str] = tuple(NEEDS), levels: Sequence[float] = LEVELS
) -> Evidence:
    """Return the evidence in the comparison rows (as from `Rows.compared`) at each need and accuracy."""
    frame = frame[frame["energy"].notna() | frame["family"].notna()]
    number, kinds = _kinds(frame)
    frame = frame.assign(number=number)
    origins = {str(s): words.origin(str(s)) for s in frame["solver"].unique()}
    found: dict[tuple[Place, str, float], list[Series]] = {}
    for need in needs:
        rows = asked(frame, need)
        for level in levels:
            _series(best_rows(rows, level, need), need, level, kinds, found)
    counts = frame.groupby(["group", "backend", "device", "dtype"]).size()
    return Evidence(kinds, found, origins, {Place(*map(str, at)): int(n) for at, n in counts.items()},
                    pd.Series(number.to_numpy(), index=frame["id"]))  # fmt: skip


@cache
def _without_size(text: str) -> str:
    left = {name: value for name, value in parsed(text).items() if name not in words.SIZES}
    return json.dumps(left, sort_keys=True)


def _kinds(frame: pd.DataFrame) -> tuple[pd.Series, list[Kind]]:
    columns = ["family", "energy", "regularizer", "domain", "rank"]
    known = frame[columns].astype(object).where(frame[columns].notna(), None)
    params = frame["problem_params"].fillna("{}").map(_without_size)
    number = known.assign(params=params).groupby([*columns, "params"], sort=True, dropna=False).ngroup()
    firsts = number.drop_duplicates().sort_values()
    facts = [(*known.loc[i], json.loads(params[i])) for i in firsts.index]
    names = words.told_apart(
        [words.problem(e, r, d, rank, f) for f, e, r, d, rank, _ in facts],
        [f for f, *_ in facts],
        [p for *_, p in facts],
    )
    sizes = {
        i: tuple(
            part.groupby(["k", "batch"], dropna=False)
            .size()
            .sort_values(ascending=False, kind="stable")
            .index
        )
        for i, part in frame.groupby(number)
    }
    kinds = [
        Kind(name, f, e or "", r, d, None if rank is None else int(rank), p, sizes[i])
        for i, (name, (f, e, r, d, rank, p)) in enumerate(zip(names, facts, strict=True))
    ]
    return number, kinds


CELL = ["group", "backend", "device", "dtype", "number", "solver", "gradient", "k", "batch"]


def _same(key: Any) -> tuple[Any, ...]:
    """Return the parts of a cell's name; an unknown size is None, since NaN differs from itself."""
    return tuple(None if part != part else part for part in key)


def _series(
    best: pd.DataFrame,
    need: str,
    level: float,
    kinds: list[Kind],
    found: dict[tuple[Place, str, float], list[Series]],
) -> None:
    cells = best.assign(
        low_log=np.log(best["time"].where(best["solved"])),
        high_log=np.log(best["high"].where(best["solved"])),
    )
    groups = cells.groupby(CELL, sort=False, dropna=False)
    table = groups.agg(
        low=("low_log", "mean"), spread=("low_log", "std"), high=("high_log", "mean"), seeds=("solved", "size"),
        solved=("solved", "sum"), loaded=("loaded", "max"), rows=("id", list), call=("solver_call", "first"),
    )  # fmt: skip
    bad = cells[~cells["solved"]].drop_duplicates(CELL)
    why = {_same(row[CELL]): (row["state"], explained(row, row["state"], need)) for _, row in bad.iterrows()}
    gathered: dict[tuple[Any, ...], list[Point]] = {}
    calls: dict[tuple[Any, ...], str] = {}
    for key, line in zip(table.index, table.itertuples(index=False), strict=True):
        state, reason = CERTIFIED, ""
        if line.solved < line.seeds:
            state, reason = why[_same(key)]
            if line.solved:
                reason = f"certified for {line.solved} of {line.seeds} seeds; {reason}"
        wider = (
            2.0 * line.spread / np.sqrt(line.seeds) if line.seeds > 1 and line.spread == line.spread else 0.0
        )
        point = Point(
            float(key[7]), float(key[8]), state, float(np.exp(line.low)), float(np.exp(line.high + wider)), reason,
            tuple(line.rows), bool(line.loaded == 1),
        )  # fmt: skip
        gathered.setdefault(key[:7], []).append(point)
        calls[key[:7]] = line.call
    for key, points in gathered.items():
        good = [(p.k, p.batch, p.time, p.high) for p in points if p.state == CERTIFIED]
        kind = kinds[int(key[4])]
        code = three_lines(calls[key], str(key[6]), need, kind.energy, kind.regularizer, kind.domain)
        points.sort(key=lambda p: (p.k, p.batch))
        series = Series(int(key[4]), str(key[5]), str(key[6]), points, fit(good) if good else None, code)
        found.setdefault((Place(*map(str, key[:4])), need, level), []).append(series)
