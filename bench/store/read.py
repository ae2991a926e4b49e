"""Read result files as pandas frames, without changing the files. A file of the first schema is read as its
migrated rows."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.store.files import check_header, check_name, fault, present, schema_of
from bench.store.media import visible
from bench.store.migration import migrated
from bench.store.schema import COLUMNS, SCHEMA, RecordsError

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {"REAL": "float64", "INTEGER": "Int64", "TEXT": "object", "JSON": "object"}


def typed(rows: Iterable[Iterable[Any]]) -> pd.DataFrame:
    """Return a frame with the store's columns and fixed types, also when it has no rows at all."""
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(COLUMNS), dtype=object)
    return frame.astype({name: _TYPES[kind] for name, kind in COLUMNS.items()})


def plain_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Return the rows of a frame as dictionaries of the store's columns, with None for what is missing."""
    shown = frame[[name for name in COLUMNS if name in frame]].astype(object)
    for values in shown.where(shown.notna(), None).to_dict("records"):
        yield {str(name): value for name, value in values.items()}


def frame_of(connection: sqlite3.Connection) -> pd.DataFrame:
    """Return all rows of an open store of this schema, oldest first; a column that the file lacks has no values."""
    known = set(present(connection))
    names = ", ".join(f'"{n}"' if n in known else f'NULL AS "{n}"' for n in COLUMNS)
    return typed(connection.execute(f"SELECT {names} FROM rows ORDER BY created, key").fetchall())


def stored_rows(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Return all rows of an open store as its own file has them, oldest first."""
    names = present(connection)
    for values in connection.execute("SELECT * FROM rows ORDER BY created, key"):
        yield dict(zip(names, values, strict=True))


@contextmanager
def opened(path: str | PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Open a store for reading, its header and schema checked; nothing is changed or left beside the file.

    SQLite creates files beside a store when it reads a write-ahead log. A store without a log is therefore read as a
    file that does not change, and a store with a log that no program has open is read from a copy.
    """
    path = Path(path)
    check_name(path)
    if path.is_dir():
        stores = sorted(p.name for p in path.glob("*.sqlite"))
        inside = f"it holds {', '.join(stores[:5])}" if stores else "it holds no *.sqlite"
        raise RecordsError(f"{path} is a folder; name a result file in it: {inside}.")
    if not path.is_file():
        raise RecordsError(f"There is no result file {path}: `gfy compare --out FOLDER` makes one.")
    try:
        check_header(path)
        log, shared = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
        pending = log.exists() and log.stat().st_size > 0
    except OSError as error:
        raise RecordsError(f"{path} cannot be read ({error}).") from error
    try:
        with ExitStack() as stack:
            file, options = path, "mode=ro" if pending else "mode=ro&immutable=1"
            if pending and not (shared.exists() and os.access(path.parent, os.W_OK)):
                file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gfy-"))) / "copy.sqlite"
                shutil.copyfile(path, file)
                shutil.copyfile(log, file.with_name(file.name + "-wal"))
            connection = sqlite3.connect(f"{file.absolute().as_uri()}?{options}", uri=True, timeout=60.0)
            stack.callback(connection.close)
            schema_of(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise fault(path, error) from error


def misfits(connection: sqlite3.Connection) -> list[str]:
    """Return a sentence for each value that is not of the type of its column."""
    found = []
    known = set(present(connection))
    for name, kind in COLUMNS.items():
        if name in known:
            kinds = {"REAL": ("real", "integer"), "INTEGER": ("integer",)}.get(kind, ("text",))
            wanted = ", ".join(f"'{k}'" for k in (*kinds, "null"))
            query = f'SELECT key, "{name}" FROM rows WHERE typeof("{name}") NOT IN ({wanted})'
            found += [
                f"Row {visible(str(key)[:12])} holds {visible(repr(value)[:60])} in {name!r}, which takes {kind}."
                for key, value in connection.execute(query)
            ]
    return found


def read(path: str | PathLike[str]) -> pd.DataFrame:
    """Return the rows of one store without changing it, also from a folder that cannot be written."""
    with opened(path) as connection:
        schema = schema_of(connection, Path(path))
        wrong = misfits(connection) if schema else []
        if wrong:
            raise RecordsError(f"{path} was edited by hand: {wrong[0]} `gfy records verify` lists all of it.")
        if schema == SCHEMA:
            return frame_of(connection)
        rows = [migrated(row) for row in stored_rows(connection)] if schema else []
    rows.sort(key=lambda row: (row["created"], row["key"]))
    return typed([row[name] for name in COLUMNS] for row in rows)


def load(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> pd.DataFrame:
    """Return the rows of one or several result files in one frame; the column `source` names the file.

    Args:
        paths: One file, or several.

    Returns:
        A frame with the columns of `COLUMNS` and `source`.

    Raises:
        RecordsError: No file is named, or one of them cannot be read.

    Example:
        >>> from bench.store import Store, load
        >>> with Store("results.sqlite") as store:
        ...     key = store.put({"kind": "compare", "status": "ok", "problem": "toy", "solver": "DualNewton"})
        >>> load("results.sqlite")[["problem", "solver", "source"]].values.tolist()
        [['toy', 'DualNewton', 'results.sqlite']]
    """
    import pandas as pd

    files = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    if not files:
        raise RecordsError("No result file was named: give at least one, for example results.sqlite.")
    frames = [read(file).assign(source=str(file)) for file in files]
    return pd.concat(frames, ignore_index=True)
