"""Read result files into one tidy frame: checked, typed, and with machines and library versions kept apart.

A file may be a store (`results.sqlite`), or a CSV or Parquet export of one. What a file lacks is either
filled with "not measured" and said in `Rows.notes`, or, where a report makes no sense without it, refused
in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from bench.store import COLUMNS, KINDS, SCHEMA, RecordsError
from bench.store import load as load_stores
from bench.store.migration import migrated
from bench.store.read import plain_rows
from reports.data.labels import labelled

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
    """Hold measured rows, one line each, and what a reader should know about how they were read."""

    frame: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)

    @property
    def compared(self) -> pd.DataFrame:
        """Return the rows that measure a solver on an inner problem, without trainings and simulations."""
        return self.frame[self.frame["kind"].isin([name for name, kind in KINDS.items() if kind.compares])]


def load(paths: Iterable[Path]) -> Rows:
    """Read stores and exports into one frame; of two rows with the same key the newest is kept."""
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
    return _of_this_schema(frame).assign(source=str(file))


def _of_this_schema(frame: pd.DataFrame) -> pd.DataFrame:
    """Return an export of a store of the first schema as the rows that a migration would make of it."""
    if (
        not {"schema", "kind", "key", "status", "versions"} <= set(frame.columns)
        or not (frame["schema"] == 1).all()
    ):
        return frame
    return pd.DataFrame([migrated(row) for row in plain_rows(frame)], columns=list(COLUMNS))


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
    frame = labelled(frame.reset_index(drop=True))
    return Rows(frame, notes + _mixing_notes(frame))


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    typed: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        column = frame[name] if name in frame.columns else pd.Series([None] * len(frame), index=frame.index)
        if kind in ("REAL", "INTEGER"):
            typed[name] = pd.to_numeric(column, errors="coerce").astype("float64")
        else:
            text = column.astype(object).where(column.notna(), None)
            if pd.api.types.infer_dtype(text, skipna=True) not in ("string", "empty"):
                text = text.map(lambda x: x if x is None or isinstance(x, str) else str(x))
            typed[name] = text.astype(object)
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


def _mixing_notes(frame: pd.DataFrame) -> list[str]:
    notes = []
    # the studies of `gfy theory` compare no times: it does not matter where they ran
    groups = frame.loc[frame["kind"] == "compare", "group"].nunique()
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
