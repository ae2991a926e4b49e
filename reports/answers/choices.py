"""Decide which rows count as an answer: certified at a tolerance, for a need, at their smallest time.

A *choice* is what a user can pick (solver, gradient mode, backend, device, dtype). On one problem it has
rows at several tolerances of its own; the one that counts is the fastest whose certified gap meets the asked
tolerance. What a solver says of itself does not count, and a gradient that was not checked is not certified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.store import RecordsError

NEEDS = {
    "loss-gradient": "the loss and its gradient",
    "argmax-gradient": "p* with its derivative dp*/dv",
    "solve": "p* alone",
}
LEVELS = (1e-3, 1e-6, 1e-10)  # the certified relative gaps at which choices are compared
TIMES = {"loss-gradient": "backward", "argmax-gradient": "argmax_grad", "solve": "steady"}
ERRORS = {"loss-gradient": "grad_error", "argmax-gradient": "argmax_grad_error"}
UNCERTAINTIES = {"loss-gradient": "grad_uncertainty", "argmax-gradient": "argmax_grad_uncertainty"}
CERTIFIED, NOT_APPLICABLE, BROKEN, INACCURATE = "certified", "does not apply", "failed", "not certified"
UNTIMED, UNCHECKED, WRONG = "not timed", "not checked", "gradient off"
SHIFT = 1e-5  # seconds; of the order of one dispatch, so that no one wins by microseconds
CHARGE = 10.0  # a failure costs this many times the slowest certified time on that problem


@dataclass(frozen=True)
class Choice:
    """Hold what a user chooses; fields as in the stored rows."""

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
    return TIMES[need]


def asked(frame: pd.DataFrame, need: str) -> pd.DataFrame:
    """Return the rows that measure a need, with `time` and `high` (the upper end of its interval) in seconds."""
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
    """Return the seconds before the first steady call: trace and compile, or what the first call took beyond
    a steady one."""
    before = rows["trace_s"].fillna(0.0) + rows["compile_s"]
    before = before.fillna((rows["first_s"] - rows["steady_s"]).clip(lower=0.0))
    if need == "solve":
        return before
    compiled = rows["backward_trace_s"].fillna(0.0) + rows["backward_compile_s"]
    first = (rows["backward_first_s"] - rows["backward_s"]).clip(lower=0.0)
    return compiled.fillna(first).fillna(before)


def states(rows: pd.DataFrame, tol: float, need: str) -> np.ndarray:
    """Return the state of each row of `asked` in one word: certified, or why it is not.

    An inner gap of tol leaves a distance of order sqrt(tol), so that is what a gradient is held to. A gradient
    without an error is one that nobody checked, and so is one with an error that its reference may have itself.
    A solver that stopped short of its own tolerance is judged by its certified gap like every other.
    """
    status, gap = rows["status"], rows["gap_rel"]
    error = rows[ERRORS[need]] if need in ERRORS else pd.Series(0.0, index=rows.index)
    unsure = rows[UNCERTAINTIES[need]].fillna(0.0) if need in ERRORS else 0.0
    cases = [
        (status == "unsupported", NOT_APPLICABLE),
        (~status.isin(["ok", "not converged"]), BROKEN),
        (~(gap <= tol) | (rows["feasibility"] > tol), INACCURATE),
        (~(rows["time"] > 0), UNTIMED),
        (error.isna(), UNCHECKED),
        (~(error - unsure <= np.sqrt(tol)), WRONG),
        (~(error <= np.sqrt(tol)), UNCHECKED),
    ]
    return np.select([case.to_numpy() for case, _ in cases], [word for _, word in cases], CERTIFIED)


def explained(row: pd.Series, state: str, need: str) -> str:
    """Return a sentence why a row is no answer; it is empty where the row is one."""
    reason = row["reason"] if isinstance(row["reason"], str) else ""
    if state in (NOT_APPLICABLE, BROKEN):
        return reason or f"its status is {row['status']}"
    if state == INACCURATE:
        outside = row["feasibility"] if row["feasibility"] > 0 else 0.0
        gap = (
            f"its certified relative gap is {row['gap_rel']:.0e}" if row["gap_rel"] >= 0 else "it has no gap"
        )
        return f"{gap}, its distance outside the set {outside:.0e}" + (f" ({reason})" if reason else "")
    if state == UNTIMED:
        return f"{NEEDS[need]} was not timed"
    if state == UNCHECKED:
        if row[ERRORS[need]] >= 0:
            unsure = row[UNCERTAINTIES[need]]
            return f"its gradient was not checked to this accuracy (the reference itself may be off by {unsure:.0e})"
        known = row["grad_reference"] if isinstance(row["grad_reference"], str) else ""
        return "its gradient was not checked" + (f" ({known})" if known else "")
    return f"its gradient is off by {row[ERRORS[need]]:.0e} (relative)" if state == WRONG else ""


def best_rows(rows: pd.DataFrame, tol: float, need: str) -> pd.DataFrame:
    """Return one line for each (group, family, problem, choice): its fastest certified row, else why there is none.

    `rows` as from `asked` for the same need. Columns added: `state` as from `states`, `solved` (bool). A line that
    is not solved keeps the row that came closest.
    """
    state = states(rows, tol, need)
    solved = state == CERTIFIED
    # One sort: solved rows by time, then the others by gap; the first of each cell is its best.
    first_by = np.where(solved, rows["time"], np.inf)
    then_by = rows["gap_rel"].fillna(np.inf).to_numpy()
    order = np.lexsort((then_by, first_by))
    cells = pd.Series(rows["cell"].to_numpy()[order])
    keep = order[~cells.duplicated().to_numpy()]
    return rows.iloc[keep].assign(solved=solved[keep], state=state[keep])


@dataclass(frozen=True)
class Grid:
    """Hold choices against problems: times [choices, problems] with nan where not certified, and the row ids."""

    choices: list[Choice]
    instances: list[str]
    time: np.ndarray
    high: np.ndarray
    ids: np.ndarray
    applies: np.ndarray

    @property
    def solved(self) -> np.ndarray:
        return np.isfinite(self.time)

    def charged(self, values: np.ndarray) -> np.ndarray:
        """Return times with every failure charged `CHARGE` times the slowest certified time on that problem.

        Where a choice does not apply or was not measured there is no time and no charge.
        """
        known = np.where(self.solved, self.high, -np.inf)
        slowest = known.max(axis=0, initial=-np.inf)
        charge = np.where(self.applies, CHARGE * np.where(np.isfinite(slowest), slowest, np.nan), np.nan)
        return np.where(self.solved, values, charge)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return one number per choice from its charged times, comparable where choices serve different problems.

        Each choice is compared with the fastest certified one on the problems where it applies; the mean ratio times
        the shifted geometric mean of the fastest is its time. Where all apply this is the shifted geometric mean.
        """
        someone = self.solved.any(axis=0)
        if not someone.any():
            return np.full(len(self.choices), np.nan)
        best = np.where(self.solved, self.time, np.inf).min(axis=0, initial=np.inf)[someone]
        ratio = np.log((self.charged(values)[:, someone] + SHIFT) / (best + SHIFT))
        counted = np.isfinite(ratio)
        mean = np.where(counted, ratio, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
        level = np.log(best + SHIFT).mean()
        return np.where(counted.any(axis=1), np.exp(mean + level) - SHIFT, np.nan)


def grid(best: pd.DataFrame) -> Grid:
    """Arrange the best rows of one group and device as choices x problems."""
    names = list(dict.fromkeys(best["instance"]))
    column = {name: i for i, name in enumerate(names)}
    keys = list(zip(*(best[f] for f in FIELDS), strict=True))
    line = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    shape = (len(line), len(names))
    time, high = np.full(shape, np.nan), np.full(shape, np.nan)
    ids, applies = np.full(shape, "", dtype=object), np.zeros(shape, dtype=bool)
    i = np.array([line[key] for key in keys], dtype=int)
    j = best["instance"].map(column).to_numpy(dtype=int)
    solved = best["solved"].to_numpy(dtype=bool)
    time[i[solved], j[solved]] = best["time"].to_numpy()[solved]
    high[i[solved], j[solved]] = best["high"].to_numpy()[solved]
    ids[i, j] = best["id"].to_numpy()
    applies[i, j] = (best["state"] != NOT_APPLICABLE).to_numpy()
    return Grid([Choice(*key) for key in line], names, time, high, ids, applies)
