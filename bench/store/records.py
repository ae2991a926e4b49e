"""Where every measured row is kept: one SQLite file, one transaction a row, so that no finished row is lost.

A row is a flat dictionary with the columns of `COLUMNS`. Its key is the SHA-256 of the columns that determine
it (`IDENTITY`), so a second run knows what is missing and two files can be merged. Standard library
and pandas only: the reports are built from this module without any numerical framework.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
APPLICATION_ID = 0x47465931  # "GFY1", in the header of every store: how a foreign SQLite file is told apart
STATUSES = ("ok", "not converged", "timeout", "crashed", "not finite", "unsupported")
KINDS = (
    "compare", "multilabel", "imitation", "bars", "asv", "pytest", "calibration", "dc", "structured",
)  # fmt: skip

COLUMNS: dict[str, str] = {
    "key": "TEXT", "schema": "INTEGER", "kind": "TEXT", "status": "TEXT", "reason": "TEXT", "created": "TEXT",
    "problem": "TEXT", "family": "TEXT", "energy": "TEXT", "regularizer": "TEXT", "domain": "TEXT",
    "k": "INTEGER", "batch": "INTEGER", "rank": "INTEGER", "seed": "INTEGER", "problem_params": "JSON",
    "solver": "TEXT", "solver_params": "JSON", "gradient": "TEXT", "backend": "TEXT", "device": "TEXT",
    "dtype": "TEXT", "tol": "REAL", "max_steps": "INTEGER",
    "gap": "REAL", "gap_rel": "REAL", "residual": "REAL", "feasibility": "REAL", "value": "REAL",
    "distance": "REAL", "concave": "INTEGER", "steps": "REAL", "steps_max": "REAL", "converged": "REAL",
    "grad_error": "REAL", "grad_cosine": "REAL", "grad_bound": "REAL",
    "trace_s": "REAL", "compile_s": "REAL", "first_s": "REAL", "steady_s": "REAL", "steady_median_s": "REAL",
    "steady_spread_s": "REAL", "backward_s": "REAL", "backward_median_s": "REAL", "repeats": "INTEGER",
    "samples": "JSON", "break_even": "REAL", "temp_bytes": "INTEGER", "peak_host_bytes": "INTEGER",
    "peak_device_bytes": "INTEGER",
    "load": "REAL", "loaded": "INTEGER", "machine": "TEXT", "machine_info": "JSON", "versions": "JSON",
    "git_commit": "TEXT", "git_dirty": "INTEGER", "score": "REAL", "score_name": "TEXT", "extra": "JSON",
}  # fmt: skip
IDENTITY = (
    "kind", "problem", "family", "energy", "regularizer", "domain", "k", "batch", "rank", "seed",
    "problem_params", "solver", "solver_params", "gradient", "backend", "device", "dtype", "tol", "max_steps",
    "machine", "versions", "score_name",
)  # fmt: skip
BY_COMMIT = ("asv", "pytest", "bars")  # kinds that exist once a commit: there the commit is part of the key


class RecordsError(ValueError):
    """A store, a row or an export that cannot be used; the message is one sentence for a person."""


def canonical(value: Any) -> str:
    """JSON text that is equal for equal values: sorted keys, no spaces, NaN written as null."""
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist") and not isinstance(value, (str, bytes)):  # numpy scalars and arrays
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def coerce(name: str, value: Any) -> Any:
    """A column's value as SQLite stores it; a value of the wrong kind gets a sentence."""
    kind = COLUMNS[name]
    if value is None:
        return None
    try:
        if kind == "JSON":
            return canonical(json.loads(value) if isinstance(value, str) else value)
        if kind == "TEXT":
            return str(value)
        number = float(value)
        if math.isnan(number):
            return None
        return number if kind == "REAL" else int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordsError(f"Column {name!r} holds {kind} values; {value!r} is not one ({error}).") from None


def key_of(row: Mapping[str, Any]) -> str:
    """The content hash of what determines a row: measuring the same cell again gives the same key."""
    names = (*IDENTITY, "git_commit") if row.get("kind") in BY_COMMIT else IDENTITY
    return hashlib.sha256(canonical({n: coerce(n, row.get(n)) for n in names}).encode()).hexdigest()


def complete(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with every column in its stored form, checked; key, schema and time are filled in."""
    unknown = sorted(set(row) - set(COLUMNS))
    if unknown:
        raise RecordsError(f"Unknown column(s) {', '.join(unknown)}: put what has no column into 'extra'.")
    full = {name: coerce(name, row.get(name)) for name in COLUMNS}
    for name, allowed in (("kind", KINDS), ("status", STATUSES)):
        if full[name] not in allowed:
            raise RecordsError(f"Column {name!r} is {full[name]!r}; it must be one of {', '.join(allowed)}.")
    full["schema"] = SCHEMA
    full["key"] = full["key"] or key_of(full)
    full["created"] = full["created"] or datetime.now(UTC).isoformat(timespec="milliseconds")
    return full


def _create_sql() -> str:
    required = {"schema", "kind", "status", "created"}
    parts = []
    for name, kind in COLUMNS.items():
        tail = " PRIMARY KEY NOT NULL" if name == "key" else " NOT NULL" if name in required else ""
        parts.append(f'"{name}" {"TEXT" if kind == "JSON" else kind}{tail}')
    return f"CREATE TABLE rows ({', '.join(parts)})"


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn what SQLite says of a file into what a person can do about it."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        low = text.lower()
        if "full" in low or "disk i/o" in low or "too big" in low:
            message = (
                f"No room left to write {path} ({text}): the rows already stored are safe and readable; "
                "free some space and give the same command again to go on."
            )
        elif "readonly" in low or "unable to open" in low:
            message = f"{path} cannot be written ({text}): choose a folder you may write to with --out."
        elif "locked" in low or "busy" in low:
            message = (
                f"{path} stayed locked by another program for a minute ({text}): try again when it has ended."
            )
        elif "malformed" in low or "not a database" in low:
            message = (
                f"{path} is damaged ({text}): it is left as it is; restore a copy or choose another file."
            )
        else:
            message = f"{path} could not be used ({text})."
        raise RecordsError(message) from error


def _inspect(connection: sqlite3.Connection, path: Path) -> bool:
    """True for a store of ours, False for a database with nothing in it; a sentence for anything else."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = [r[0] for r in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if application == 0 and version == 0 and not tables:
        return False
    if application != APPLICATION_ID:
        raise RecordsError(
            f"{path} is a database of another program: it is left as it is; choose another file."
        )
    if version > SCHEMA:
        raise RecordsError(
            f"{path} has schema {version}, newer than the {SCHEMA} this version reads: update gfy-suite."
        )
    if version < SCHEMA:
        raise RecordsError(
            f"{path} has schema {version}, older than the {SCHEMA} this version reads: export it to CSV with "
            "the version that wrote it, or measure again into a new file."
        )
    present = {r[1] for r in connection.execute("PRAGMA table_info(rows)")}
    missing = [name for name in COLUMNS if name not in present]
    if missing:
        raise RecordsError(
            f"{path} lacks the column(s) {', '.join(missing)}: it is damaged or was edited by hand."
        )
    return True


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(16)
    if head and head != b"SQLite format 3\x00":
        raise RecordsError(f"{path} is not a result store (not an SQLite file): it is left as it is.")


class Store:
    """The result file of one or many runs: open or create it, `put` rows, ask `has`, read `frame`.

    Safe for several processes at once (SQLite's write-ahead log) and for several threads of one process.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        if self.path.is_dir():
            raise RecordsError(
                f"{self.path} is a folder; a result store is a file, for example results.sqlite."
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                _check_header(self.path)
        except OSError as error:
            raise RecordsError(
                f"{self.path} cannot be used ({error}): choose another place with --out."
            ) from error
        with sentences(self.path):
            self._connection = sqlite3.connect(
                self.path, timeout=60.0, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA busy_timeout = 60000")
        if not _inspect(self._connection, self.path):
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("BEGIN IMMEDIATE")  # whoever comes second finds the table made
            if not _inspect(self._connection, self.path):
                self._connection.execute(_create_sql())
                self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._connection.execute(f"PRAGMA user_version = {SCHEMA}")
            self._connection.execute("COMMIT")
        else:  # a file that cannot be written is told now, not after the first measurement
            self._connection.execute("DELETE FROM rows WHERE 0")
        self._connection.execute("PRAGMA synchronous = FULL")

    def put(self, row: Mapping[str, Any]) -> str:
        """Store one row in one transaction (a row of the same key is replaced); returns its key."""
        full = complete(row)
        names = ", ".join(f'"{n}"' for n in COLUMNS)
        marks = ", ".join("?" for _ in COLUMNS)
        with self._lock, sentences(self.path):
            # A statement outside BEGIN is its own transaction: there whole after a kill, or not at all.
            self._connection.execute(
                f"INSERT OR REPLACE INTO rows ({names}) VALUES ({marks})", [full[n] for n in COLUMNS]
            )
        return str(full["key"])

    def has(self, key: str) -> bool:
        with self._lock, sentences(self.path):
            return self._connection.execute("SELECT 1 FROM rows WHERE key = ?", (key,)).fetchone() is not None

    def get(self, key: str) -> dict[str, Any] | None:
        """One stored row as a dictionary (JSON columns stay text), or None."""
        with self._lock, sentences(self.path):
            cursor = self._connection.execute("SELECT * FROM rows WHERE key = ?", (key,))
            row = cursor.fetchone()
            return None if row is None else dict(zip([d[0] for d in cursor.description], row, strict=True))

    def delete(self, key: str) -> None:
        with self._lock, sentences(self.path):
            self._connection.execute("DELETE FROM rows WHERE key = ?", (key,))

    def __len__(self) -> int:
        with self._lock, sentences(self.path):
            return int(self._connection.execute("SELECT count(*) FROM rows").fetchone()[0])

    def frame(self) -> pd.DataFrame:
        """All rows, one column each of `COLUMNS`, oldest first."""
        with self._lock, sentences(self.path):
            return _read(self._connection)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(connection: sqlite3.Connection) -> pd.DataFrame:
    names = ", ".join(f'"{n}"' for n in COLUMNS)
    rows = connection.execute(f"SELECT {names} FROM rows ORDER BY created, key").fetchall()
    return typed(rows)


def typed(rows: Iterable[Iterable[Any]]) -> pd.DataFrame:
    """A frame with the store's columns and fixed types, also when it has no rows at all."""
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(COLUMNS), dtype=object)
    kinds = {"REAL": "float64", "INTEGER": "Int64", "TEXT": "object", "JSON": "object"}
    return frame.astype({name: kinds[kind] for name, kind in COLUMNS.items()})


def read(path: str | PathLike[str]) -> pd.DataFrame:
    """The rows of one store without changing it, also from a folder that cannot be written."""
    path = Path(path)
    if not path.is_file():
        raise RecordsError(f"There is no result file {path}: `gfy compare --out FOLDER` makes one.")
    try:
        _check_header(path)
    except OSError as error:
        raise RecordsError(f"{path} cannot be read ({error}).") from error
    try:
        return _read_file(path, path)
    except RecordsError as error:
        if not isinstance(error.__cause__, sqlite3.OperationalError) or "cannot be written" not in str(error):
            raise
    with tempfile.TemporaryDirectory(prefix="gfy-") as folder:  # a write-ahead log needs a writable folder
        copy = Path(folder) / "copy.sqlite"
        shutil.copyfile(path, copy)
        log = path.with_name(path.name + "-wal")
        if log.exists():
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
        return _read_file(copy, path)


def _read_file(file: Path, shown: Path) -> pd.DataFrame:
    with sentences(shown):
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=60.0)
        try:
            return _read(connection) if _inspect(connection, shown) else typed([])
        finally:
            connection.close()


def load(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> pd.DataFrame:
    """The rows of one or several result files under each other; the column `source` names the file."""
    import pandas as pd

    files = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    if not files:
        raise RecordsError("No result file was named: give at least one, for example results.sqlite.")
    frames = [read(file).assign(source=str(file)) for file in files]
    return pd.concat(frames, ignore_index=True)
