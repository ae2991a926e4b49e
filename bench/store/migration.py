"""Convert rows and files of the first schema to this one.

The first schema kept the parameters of the gradient mode inside `solver_params`, the fingerprint of the problem's file
inside `problem_params`, and the settings and figures of the pass with a gradient inside `extra`; and it had four ways
to make a key. Here they become columns, and `keys.key_of` makes the key.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from bench.store.files import check_header, fault, schema_of
from bench.store.keys import complete, content_hash
from bench.store.schema import COLUMNS, SCHEMA, RecordsError

# Each name inside `extra` in the first schema is mapped to its column in this one.
_FROM_EXTRA = {
    "attempt": "attempt", "repeat": "repeat_asked", "timeout": "timeout_s", "eager_s": "eager_s",
    "one_program_for_all_tolerances": "one_program", "backward_samples": "backward_samples",
    "backward_spread_s": "backward_spread_s", "backward_trace_s": "backward_trace_s",
    "backward_compile_s": "backward_compile_s", "backward_first_s": "backward_first_s",
    "backward_temp_bytes": "backward_temp_bytes", "backward_peak_host_bytes": "backward_peak_host_bytes",
}  # fmt: skip
_FACTS_OF_TRAINING = (
    "features",
    "rows",
    "hidden",
    "prior_hidden",
    "initialisation",
    "optimiser",
    "selection",
)
_RECIPES = (1, 2, 3)  # the recipes of the multilabel tables while the first schema was written


def migrated(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the first schema as a complete row of this one; its key is made again."""
    given = {name: value for name, value in row.items() if name in COLUMNS and name not in ("key", "schema")}
    given |= {
        name: json.loads(given[name]) if given.get(name) is not None else None
        for name in ("problem_params", "solver_params", "extra")
    }
    _lift(given)
    if row["kind"] == "multilabel":
        _multilabel(given, str(row["key"]))
    elif row["kind"] == "imitation":
        _imitation(given)
    return complete(given)


def _lift(row: dict[str, Any]) -> None:
    """Move what every kind of row may have hidden to its column."""
    extra = row["extra"]
    if isinstance(extra, dict) and row["kind"] == "compare":
        row |= {column: extra.pop(name) for name, column in _FROM_EXTRA.items() if name in extra}
        if told := extra.pop("reference", None):
            row["grad_reference"] = f"{told['solver']}, {told['mode']}"
            row["grad_reference_gap"], row["grad_reference_residual"] = told["gap"], told["residual"]
    if isinstance(row["solver_params"], dict):
        row["gradient_params"] = row["solver_params"].pop("gradient", None)
    if isinstance(row["problem_params"], dict):
        row["problem_source"] = row["problem_params"].pop("source", None)


def _multilabel(row: dict[str, Any], old_key: str) -> None:
    """Move loss, spread and the paper's figure to columns; separate what determines the cell from what was found."""
    params, extra = row["problem_params"], row["extra"]
    if params.get("study"):
        _study(row)
        return
    row["loss"] = params.pop("loss", None) or extra.get("loss")
    extra.pop("loss", None)
    row["score_sd"], row["score_paper"] = extra.pop("sd", None), extra.pop("paper", None)
    extra["training"] = {name: params.pop(name) for name in _FACTS_OF_TRAINING if name in params}
    params |= {"recipe": _recipe(row, old_key), "solver": "auto"}


def _recipe(row: Mapping[str, Any], old_key: str) -> int | str:
    """Return the version of the recipe, which the first schema had in the key alone."""
    params = row["problem_params"]
    effort = {name: params.get(name) for name in ("epochs", "penalties", "rates", "seeds", "decay")}
    cell = {
        "dataset": row["problem"], "energy": row["energy"], "loss": row["loss"], "gradient": row["gradient"],
        "rank": row["rank"] or 1, "regularizer": row["regularizer"], "solver": "auto",
        "effort": effort | {"batch": row["batch"]},
    }  # fmt: skip
    for recipe in _RECIPES:
        if content_hash({"kind": "multilabel", "recipe": recipe, **cell}) == old_key:
            return recipe
    return f"earlier ({old_key[:12]})"


def _study(row: dict[str, Any]) -> None:
    params = row["problem_params"]
    row["loss"] = "gfy"
    if params["study"] == "time":
        row["kind"] = "training"
    if params["study"] == "recipe":  # these rows were measured with the paper's effort only
        constant = params["variant"] == "constant rate"
        effort = {"penalties": 5, "rates": 10, "seeds": [0, 1, 2], "decay": not constant}
        params |= effort | {"recipe": _RECIPES[-1]}


def _imitation(row: dict[str, Any]) -> None:
    """Move spread and compile time to columns; the simulator's versions, which determine a return, join the rest."""
    params, extra = row["problem_params"], row["extra"]
    row["score_sd"], row["compile_s"] = extra.pop("sd", None), extra.pop("compile_s", None)
    known = json.loads(row["versions"])
    params |= {name: known.get(name) for name in ("gymnasium", "mujoco")}


class Migrated(NamedTuple):
    """Count what became of the rows of a file."""

    rows: int
    dropped: int  # older rows of cells that have a newer row


def migrate(path: str | PathLike[str], out: str | PathLike[str] | None = None) -> Migrated:
    """Rewrite a store of the first schema in this one, in its place or as another file.

    The new file is written completely beside the old one and then put in its place, so that one of the two is there if
    the process is killed. A store that has this schema already is also written again, without the space that replaced
    rows took.

    Args:
        path: The store.
        out: Where to write; the store itself where this is None. A file that is there is not overwritten.

    Returns:
        How many rows were written, and how many gave way to a newer row of the same cell.

    Raises:
        RecordsError: The file is no store, cannot be read or written, or `out` is there already.
    """
    from bench.store.read import stored_rows
    from bench.store.store import Store

    source, target = Path(path), Path(path if out is None else out)
    if not source.is_file():
        raise RecordsError(f"There is no result file {source}.")
    if out is not None and target.exists():
        raise RecordsError(f"{target} exists and is left as it is: choose another folder with --out.")
    check_header(source)
    try:
        with closing(sqlite3.connect(source, timeout=60.0, isolation_level=None)) as connection:
            schema = schema_of(connection, source)
            found = list(stored_rows(connection)) if schema else []
            if out is None:  # the rows in the write-ahead log must be in the file before it is replaced
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise fault(source, error) from error
    rows = found if schema == SCHEMA else [migrated(row) for row in found]
    newest = {row["key"]: row for row in sorted(rows, key=lambda row: str(row["created"]))}
    half = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with Store(half) as store:
            store.put_many(newest.values())
        os.replace(half, target)
    except OSError as error:
        raise RecordsError(f"{target} could not be written ({error}).") from error
    finally:
        for name in (half.name, f"{half.name}-wal", f"{half.name}-shm"):
            half.with_name(name).unlink(missing_ok=True)
    return Migrated(len(newest), len(rows) - len(newest))
