"""Which rows count as an answer: certified at a tolerance, for a need, at their smallest time.

A *choice* is what a user can pick (solver, gradient mode, backend, device, dtype). On one problem it has
rows at several tolerances of its own; the one that counts is the fastest whose certified gap meets the asked
tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.store import RecordsError

NEEDS = {
    "solve": "the maximiser p* alone",
    "loss-gradient": "the loss and its gradient",
    "argmax-gradient": "derivatives of the maximiser p* itself",
}
SHIFT = 1e-5  # seconds; of the order of one dispatch, so that no one wins by microseconds
CHARGE = 10.0  # a failure costs this many times the slowest certified time on that problem


@dataclass(frozen=True)
class Choice:
    """What a user picks; fields as in the stored rows."""

    solver: str
    gradient: str
    backend: str
    device: str
    dtype: str

    def label(self) -> str:
        parts = [self.solver, self.gradient if self.gradient != "none" else "", self.backend, self.dtype]
        return " · ".join(p for p in parts if p)


FIELDS = ("solver", "gradient", "backend", "device", "dtype")


def time_column(need: str) -> str:
    if need not in NEEDS:
        raise RecordsError(f"need is {need!r}; it must be one of {', '.join(NEEDS)}.")
    return "steady" if need == "solve" else "backward"


def asked(frame: pd.DataFrame, need: str) -> pd.DataFrame:
    """The rows that measure a need, with `time` and `high` (the upper end of its interval) in seconds."""
    prefix = time_column(need)
    if need == "solve":
        plain = frame["gradient"] == "none"
        same = [frame[c] for c in ("group", "instance", "solver", "backend", "device", "dtype")]
        has_plain = plain.groupby(same, sort=False, observed=True).transform("any") if len(frame) else plain
        # The forward time of a row measured with a gradient is used only where no plain one exists.
        rows = frame[plain | ~has_plain].assign(gradient="none")
    elif need == "argmax-gradient":
        rows = frame[frame["mode"].isin(["implicit", "unrolled"])]
    else:
        rows = frame[frame["gradient"] != "none"]
    cell = rows.groupby(["group", "instance", *FIELDS], sort=False).ngroup()
    return rows.assign(
        time=rows[f"{prefix}_s"], high=rows[f"{prefix}_high_s"], setup=_setup(rows, need), cell=cell
    )


def _setup(rows: pd.DataFrame, need: str) -> pd.Series:
    """Seconds before the first steady call: trace and compile, or what the first call took beyond a steady one."""
    before = rows["trace_s"].fillna(0.0) + rows["compile_s"]
    before = before.fillna((rows["first_s"] - rows["steady_s"]).clip(lower=0.0))
    if need == "solve":
        return before
    compiled = rows["backward_trace_s"].fillna(0.0) + rows["backward_compile_s"]
    first = (rows["backward_first_s"] - rows["backward_s"]).clip(lower=0.0)
    return compiled.fillna(first).fillna(before)


def certified(rows: pd.DataFrame, tol: float) -> pd.Series:
    """True where the row ended well, its certified relative gap is within `tol`, and so is its gradient.

    An inner gap of tol leaves a distance of order sqrt(tol), so that is what a gradient is held to.
    """
    gradient = rows["grad_error"].isna() | (rows["grad_error"] <= np.sqrt(tol)) | (rows["gradient"] == "none")
    return (rows["status"] == "ok") & (rows["gap_rel"] <= tol) & (rows["time"] > 0) & gradient


def best_rows(rows: pd.DataFrame, tol: float) -> pd.DataFrame:
    """One line for each (group, family, problem, choice): its fastest certified row, else why there is none.

    `rows` as from `asked`. Column added: `solved` (bool). A line that is not solved keeps the row that came
    closest.
    """
    solved = certified(rows, tol).to_numpy()
    # One sort: solved rows by time, then the others by gap; the first of each cell is its best.
    first_by = np.where(solved, rows["time"], np.inf)
    then_by = rows["gap_rel"].fillna(np.inf).to_numpy()
    order = np.lexsort((then_by, first_by))
    cells = pd.Series(rows["cell"].to_numpy()[order])
    keep = order[~cells.duplicated().to_numpy()]
    return rows.iloc[keep].assign(solved=solved[keep])


@dataclass(frozen=True)
class Grid:
    """Choices against problems: times [choices, problems] with nan where not certified, and the row ids."""

    choices: list[Choice]
    instances: list[str]
    time: np.ndarray
    high: np.ndarray
    ids: np.ndarray
    measured: np.ndarray

    @property
    def solved(self) -> np.ndarray:
        return np.isfinite(self.time)

    def charged(self, values: np.ndarray) -> np.ndarray:
        """Times with every failure charged `CHARGE` times the slowest certified time on that problem."""
        known = np.where(self.solved, self.high, -np.inf)
        slowest = known.max(axis=0, initial=-np.inf)
        fine = np.isfinite(slowest)
        return np.where(self.solved, values, CHARGE * np.where(fine, slowest, np.nan))


def grid(best: pd.DataFrame) -> Grid:
    """Lay the best rows of one group and device out as choices x problems."""
    names = list(dict.fromkeys(best["instance"]))
    column = {name: i for i, name in enumerate(names)}
    keys = list(zip(*(best[f] for f in FIELDS), strict=True))
    line = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    shape = (len(line), len(names))
    time, high = np.full(shape, np.nan), np.full(shape, np.nan)
    ids, measured = np.full(shape, "", dtype=object), np.zeros(shape, dtype=bool)
    i = np.array([line[key] for key in keys], dtype=int)
    j = best["instance"].map(column).to_numpy(dtype=int)
    solved = best["solved"].to_numpy(dtype=bool)
    time[i[solved], j[solved]] = best["time"].to_numpy()[solved]
    high[i[solved], j[solved]] = best["high"].to_numpy()[solved]
    ids[i, j] = best["id"].to_numpy()
    measured[i, j] = True
    return Grid([Choice(*key) for key in line], names, time, high, ids, measured)


def shifted_geometric_mean(times: np.ndarray, axis: int = -1) -> np.ndarray:
    """exp(mean(log(t + shift))) - shift over the problems that someone solved; nan where there are none."""
    counted = np.isfinite(times)
    logs = np.where(counted, np.log(np.where(counted, times, 1.0) + SHIFT), 0.0)
    number = counted.sum(axis=axis)
    mean = np.exp(logs.sum(axis=axis) / np.maximum(number, 1)) - SHIFT
    return np.where(number > 0, mean, np.nan)
