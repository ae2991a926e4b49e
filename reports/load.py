"""From result files to one tidy frame: checked, typed, and with machines and library versions kept apart.

A file may be a store (`results.sqlite`), or a CSV or Parquet export of one. What a file lacks is either
filled with "not measured" and said in `Rows.notes`, or, where a report makes no sense without it, refused
in a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.records import COLUMNS, SCHEMA, RecordsError
from bench.records import load as load_stores

REQUIRED = ("key", "status", "problem", "solver")
CERTIFIED_FROM = ("gap_rel", "steady_s")  # without these two nothing can be ranked
DEFAULTS: dict[str, Any] = {
    "kind": "compare",
    "gradient": "none",
    "backend": "unknown",
    "device": "cpu",
    "dtype": "float64",
    "machine": "unknown machine",
    "schema": 0,
}
TABLE_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class Rows:
    """Measured rows, one line each, and what a reader should know about how they were read."""

    frame: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)

    @property
    def compared(self) -> pd.DataFrame:
        """The rows that measure a solver on an inner problem; trainings and simulations are told apart."""
        return self.frame[~self.frame["kind"].isin(["multilabel", "imitation"])]


def load(paths: Iterable[Path]) -> Rows:
    """Read stores and exports under each other; the newest row wins where two have the same key."""
    files = [Path(p) for p in paths]
    if not files:
        raise RecordsError("No result file was given: name one with --results FILE.")
    frames = [_read(file) for file in files]
    filled = [f for f in frames if len(f)] or frames[:1]
    rows = tidy(pd.concat(filled, ignore_index=True))
    return Rows(rows.frame, rows.notes, files)


def _read(file: Path) -> pd.DataFrame:
    suffix = file.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        return load_stores([file])
    if not file.is_file():
        raise RecordsError(f"There is no file {file}.")
    try:
        frame = pd.read_csv(file, low_memory=False) if suffix == ".csv" else pd.read_parquet(file)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise RecordsError(f"{file} cannot be read as {suffix[1:]} ({error}).") from error
    return frame.assign(source=str(file))


def tidy(frame: pd.DataFrame) -> Rows:
    """Check the columns, give each its type, and add the labels that tables and figures group by."""
    notes: list[str] = []
    missing = [c for c in REQUIRED if c not in frame.columns]
    if missing:
        raise RecordsError(
            f"The results have no column {', '.join(map(repr, missing))}, without which rows cannot be told "
            f"apart; they have {', '.join(map(str, frame.columns[:8]))}, ... Export them again with "
            "`gfy records export`."
        )
    absent = [c for c in COLUMNS if c not in frame.columns and c != "schema"]
    if absent:
        notes.append(f"The results have no column {', '.join(absent)}: shown as not measured.")
    if set(CERTIFIED_FROM) & set(absent):
        notes.append(
            "Without both the certified gap (gap_rel) and the steady time (steady_s) nothing can be ranked."
        )
    frame = _typed(frame)
    notes += _schema_notes(frame)
    before = len(frame)
    frame = frame.sort_values("created", kind="stable", na_position="first").drop_duplicates(
        "key", keep="last"
    )
    if len(frame) < before:
        notes.append(f"{before - len(frame)} rows occur twice; the newest of each is kept.")
    frame = _labelled(frame.reset_index(drop=True))
    return Rows(frame, notes + _mixing_notes(frame))


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    typed: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        column = frame[name] if name in frame.columns else pd.Series([None] * len(frame), index=frame.index)
        if kind in ("REAL", "INTEGER"):
            typed[name] = pd.to_numeric(column, errors="coerce").astype("float64")
        else:
            text = column.astype(object).where(column.notna(), None)
            typed[name] = text.map(lambda x: x if x is None or isinstance(x, str) else str(x)).astype(object)
        if name in DEFAULTS:
            typed[name] = typed[name].where(typed[name].notna(), DEFAULTS[name])
    typed["source"] = frame["source"].astype(object) if "source" in frame.columns else "given frame"
    out = pd.DataFrame(typed)
    out["family"] = out["family"].where(out["family"].notna(), out["problem"])
    for name in ("family", "problem", "solver", "status"):
        out[name] = out[name].where(out[name].notna(), "not named")
    return out


def _schema_notes(frame: pd.DataFrame) -> list[str]:
    schema = frame["schema"]
    newer, older = int((schema > SCHEMA).sum()), int((schema < SCHEMA).sum())
    if newer:
        raise RecordsError(
            f"{newer} rows have schema {int(schema.max())}, newer than the {SCHEMA} this version reads: "
            "update gfy-suite."
        )
    if older:
        return [
            f"{older} rows have an older schema than {SCHEMA}: columns they lack are shown as not measured."
        ]
    return []


def _labelled(frame: pd.DataFrame) -> pd.DataFrame:
    out = frame.copy()
    length = 10
    while length < 64 and out["key"].str[:length].duplicated().any():
        length += 6
    out["id"] = out["key"].str[:length]
    out["solver"] = _solver_labels(out)
    out["group"] = _groups(out)
    out["instance"] = _instances(out)
    for prefix in ("steady", "backward"):
        out[f"{prefix}_high_s"] = _upper(out, prefix)
    return out


def _solver_labels(frame: pd.DataFrame) -> pd.Series:
    """A solver's name, with its parameters only where one name was measured with several."""
    params = frame["solver_params"].where(frame["solver_params"].notna(), "{}")
    several = params.groupby(frame["solver"]).nunique()
    many = frame["solver"].isin(several[several > 1].index)
    if not many.any():
        return frame["solver"]
    shown = {text: _short(text) for text in params[many].unique()}
    with_params = frame["solver"] + params.map(lambda t: shown.get(t, ""))
    return frame["solver"].where(~many, with_params)


def _short(text: str) -> str:
    value = parsed(text)
    return "" if not value else "(" + ", ".join(f"{k}={v}" for k, v in sorted(value.items())) + ")"


def _groups(frame: pd.DataFrame) -> pd.Series:
    """One label for each machine, and for each set of library versions where a machine has several.

    Two rows may each name libraries that the other does not use; only a library named by both in different
    versions keeps them apart.
    """
    versions = frame["versions"].where(frame["versions"].notna(), "{}")
    label = frame["machine"].astype(object).copy()
    for machine, of_machine in versions.groupby(frame["machine"], sort=False):
        number = _compatible(list(dict.fromkeys(of_machine)))
        if max(number.values()) > 0:
            names = {text: f"{machine}, versions {i + 1}" for text, i in number.items()}
            label.loc[of_machine.index] = of_machine.map(names)
    return label


def _compatible(texts: list[str]) -> dict[str, int]:
    merged: list[dict[str, Any]] = []
    number = {}
    for text in texts:
        mine = parsed(text)
        fits = (i for i, other in enumerate(merged) if all(other.get(n, v) == v for n, v in mine.items()))
        i = next(fits, len(merged))
        if i == len(merged):
            merged.append({})
        merged[i] |= mine
        number[text] = i
    return number


def parsed(text: str | None) -> dict[str, Any]:
    """A stored JSON object; empty where there is none or it is not one."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _instances(frame: pd.DataFrame) -> pd.Series:
    """A readable name for each measured problem: same name, same numbers to solve."""
    text = frame["problem"].astype(str)
    for name in ("k", "rank", "batch", "seed"):
        values = frame[name]
        part = values.map(lambda x, n=name: "" if np.isnan(x) else f" {n}={int(x)}")
        repeated = pd.Series([p.strip() in t for p, t in zip(part, text, strict=True)], index=text.index)
        text = text + part.where(~repeated | (part == ""), "")
    params = frame["problem_params"].where(frame["problem_params"].notna(), "{}")
    numbered = params.groupby(text).transform(lambda s: pd.factorize(s)[0] if s.nunique() > 1 else -1)
    return text + numbered.map(lambda i: "" if i < 0 else f" #{i + 1}")


def _upper(frame: pd.DataFrame, prefix: str) -> pd.Series:
    """The upper end of a time's interval: median plus half the interquartile range; 10% if unknown."""
    low, median = frame[f"{prefix}_s"], frame[f"{prefix}_median_s"]
    spread = frame["steady_spread_s"] / 2.0
    if prefix == "backward":  # the spread is stored for the forward pass: scale it to the longer time
        spread = spread * (median / frame["steady_median_s"]).clip(lower=1.0)
    high = median + spread.fillna(0.0)
    unknown = median.isna() | (frame["repeats"].fillna(1.0) < 2)
    return np.maximum(high.where(~unknown, 1.1 * low), low)


def _mixing_notes(frame: pd.DataFrame) -> list[str]:
    notes = []
    groups = frame["group"].nunique()
    if groups > 1:
        notes.append(
            f"The rows come from {groups} machines or sets of library versions; each has its own verdict and "
            "its own figures, and no time of one is compared with a time of another."
        )
    commits = frame["git_commit"].dropna().unique()
    if len(commits) > 1:
        notes.append(
            f"The rows were made at {len(commits)} commits: {', '.join(c[:10] for c in commits[:5])}."
        )
    return notes
