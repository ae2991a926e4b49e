"""Handle finished result files: export them, merge those of several machines, verify them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bench.store.files import check_name, schema_of
from bench.store.keys import key_of
from bench.store.media import csv_text
from bench.store.read import load, misfits, opened, plain_rows, read
from bench.store.schema import COLUMNS, KINDS, SCHEMA, STATUSES, RecordsError
from bench.store.store import Store

File = str | PathLike[str]


def export(sources: Sequence[File], out: File, force: bool = False) -> int:
    """Write the rows of some stores as one Parquet or CSV file (by its ending); return how many rows."""
    target = Path(out)
    if target.suffix not in (".parquet", ".csv"):
        raise RecordsError(f"{target} must end in .parquet or .csv: the ending chooses the format.")
    check_name(target)
    if target.exists() and not force:
        raise RecordsError(
            f"{target} exists and is left as it is: add --force to replace it, or choose another name."
        )
    frame = load(sources)
    # It gets its final name when it is complete, so that there is never a part of an export.
    half = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.suffix == ".csv":
            texts = ["source", *(name for name, kind in COLUMNS.items() if kind in ("TEXT", "JSON"))]
            shown = {name: frame[name].map(csv_text, na_action="ignore") for name in texts}
            frame.assign(**shown).to_csv(half, index=False)
        else:
            frame.to_parquet(half, index=False)
        os.replace(half, target)
    except ImportError as error:
        raise RecordsError(
            "Parquet needs pyarrow: `python -m pip install pyarrow`, or export to .csv."
        ) from error
    except OSError as error:
        raise RecordsError(f"{target} could not be written ({error}).") from error
    finally:
        with suppress(OSError):  # it was never made
            half.unlink()
    return len(frame)


class Merged(NamedTuple):
    added: int
    replaced: int
    kept: int


def better(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Return whether a second row of the same cell should replace the first: finished, then quiet, then newer."""

    def rank(row: dict[str, Any]) -> tuple[bool, bool, str]:
        return row["status"] in ("ok", "not converged"), not row["loaded"], str(row["created"])

    return rank(new) > rank(old)


def merge(out: File, sources: Sequence[File]) -> Merged:
    """Merge the rows of several stores into one; of two rows of one cell the better is kept."""
    frames = [read(source) for source in sources]
    chosen: dict[str, dict[str, Any]] = {}
    added = replaced = kept = 0
    with Store(out) as store:
        for row in (row for frame in frames for row in plain_rows(frame)):
            key = str(row["key"])
            old = chosen.get(key) or store.get(key)
            if old is None:
                added += 1
            elif better(row, old):
                replaced += 1
            else:
                kept += 1
                continue
            chosen[key] = row
        store.put_many(chosen.values())
    return Merged(added, replaced, kept)


def verify(path: File) -> list[str]:
    """Return everything that is wrong with a store, one sentence each; the list is empty when it is sound."""
    with opened(path) as connection:  # `opened` checks the header, program, schema, tables and columns
        answers = [r[0] for r in connection.execute("PRAGMA integrity_check")]
        schema = schema_of(connection, Path(path))
        faults = [f"The file is damaged: {answer}." for answer in answers if answer != "ok"]
        faults += misfits(connection)
    if schema not in (0, SCHEMA):  # the keys of the first schema cannot be computed again
        faults.append(
            f"The file has schema {schema}, not {SCHEMA}: `gfy records migrate {path}` rewrites it."
        )
    if faults:
        return faults  # the rows of such a file cannot be checked one by one
    frame = read(path)
    for row in plain_rows(frame):
        faults += row_faults(row)
    return faults + _machine_faults(frame)


def row_faults(row: dict[str, Any]) -> list[str]:
    """Return everything that is wrong with one row by itself, one sentence each."""
    name = str(row["key"])[:12]
    faults = []
    if row["schema"] != SCHEMA:
        faults.append(f"Row {name} has schema {row['schema']}, not {SCHEMA}.")
    if row["status"] not in STATUSES or row["kind"] not in KINDS:
        faults.append(f"Row {name} has the unknown status {row['status']!r} or kind {row['kind']!r}.")
    for column, kind in COLUMNS.items():
        if kind == "JSON" and row[column] is not None:
            try:
                json.loads(row[column])
            except (ValueError, RecursionError):
                faults.append(f"Row {name} holds broken JSON in {column!r}.")
                return faults
    if row["kind"] in KINDS and row["key"] != key_of(row):
        faults.append(
            f"Row {name} does not hash to its key: what identifies it was changed after it was measured."
        )
    if not row["problem"]:
        faults.append(f"Row {name} is an orphan: it names no problem.")
    if row["status"] == "ok" and row["kind"] == "compare" and row["gap"] is None:
        faults.append(f"Row {name} says ok without a certified gap.")
    return faults + [f"Row {name} {fault}" for fault in _figure_faults(row)]


def _figure_faults(row: dict[str, Any]) -> list[str]:
    """Return the figures of a row that contradict each other, since one of them was changed after it was measured."""
    faults = []
    samples = json.loads(row["samples"]) if row["samples"] else []
    if not isinstance(samples, list) or not all(isinstance(x, int | float) for x in samples):
        return ["has samples that are not a list of numbers."]
    if samples and row["steady_s"] is not None and abs(min(samples) - row["steady_s"]) > 1e-6 * min(samples):
        faults.append(
            f"says that it took {row['steady_s']:.3g} s, but its shortest sample is {min(samples):.3g} s."
        )
    for steady, median in (("steady_s", "steady_median_s"), ("backward_s", "backward_median_s")):
        if None not in (row[steady], row[median]) and row[steady] > row[median] * (1 + 1e-9):
            faults.append(f"has a shortest time {steady} above its median.")
    if None not in (row["gap"], row["gap_rel"]) and row["gap_rel"] > row["gap"] * (1 + 1e-9):
        faults.append(f"has a relative gap {row['gap_rel']:.1e} above its gap {row['gap']:.1e}.")
    return faults


def _machine_faults(frame: pd.DataFrame) -> list[str]:
    measured = frame[frame.machine.notna()]
    described = measured.groupby("machine").machine_info.nunique()
    return [
        f"Machine {name} is described in {count} ways: rows of different machines share a name."
        if count
        else f"The rows of machine {name} are orphans: none of them describes it."
        for name, count in described.items()
        if count != 1
    ]
