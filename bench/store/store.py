"""Write the result file of a run: rows are put, found by key, and survive a kill.

Every `put` is a transaction of its own in SQLite's write-ahead log with `synchronous = NORMAL`. A row that was put is
still there after the process is killed at any moment, and no row is ever stored in part. Only a power failure may lose
the rows of the last moments, but never the file; the same command then measures those cells again. To wait for the disk
at every row (`FULL`) would take about 20 times as long.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.store.files import check_header, check_name, create, fault, grow, schema_of
from bench.store.keys import complete
from bench.store.read import frame_of
from bench.store.schema import COLUMNS, SCHEMA, RecordsError

if TYPE_CHECKING:
    import pandas as pd

_NAMES = ", ".join(f'"{n}"' for n in COLUMNS)
_INSERT = f"INSERT OR REPLACE INTO rows ({_NAMES}) VALUES ({', '.join('?' for _ in COLUMNS)})"


class Store:
    """Open or create the result file of one or many runs: `put` rows, query `has` and `get`, read `frame`.

    Several processes at once, and several threads of one process, may use it. Opening takes no longer for a store of
    many rows than for an empty one.

    Args:
        path: The file; it and its folder are made where they are missing.

    Raises:
        RecordsError: The file is not a store, is damaged, has another schema, or cannot be written.

    Example:
        >>> from bench.store import Store
        >>> with Store("results.sqlite") as store:
        ...     key = store.put({"kind": "compare", "status": "ok", "problem": "toy", "solver": "DualNewton"})
        ...     assert store.has(key)
        ...     len(store)
        1
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        check_name(self.path)
        if self.path.is_dir():
            raise RecordsError(
                f"{self.path} is a folder; a result store is a file, for example results.sqlite."
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                check_header(self.path)
        except OSError as error:
            raise RecordsError(
                f"{self.path} cannot be used ({error}): choose another place with --out."
            ) from error
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=60.0, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise fault(self.path, error) from error

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """Let one thread at a time use the connection; what SQLite says becomes a sentence."""
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise fault(self.path, error) from error

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA busy_timeout = 60000")
        schema = schema_of(self._connection, self.path)
        if schema not in (0, SCHEMA):
            raise RecordsError(
                f"{self.path} has schema {schema}, older than the {SCHEMA} that is written now: "
                f"`gfy records migrate {self.path}` rewrites it, or choose another file."
            )
        if schema == 0:
            run("PRAGMA page_size = 1024")  # bytes; rows of 1 to 3 kB then leave the least space unused
            run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        # A file that cannot be written raises here and not after the first measurement.
        run("BEGIN IMMEDIATE")  # of two programs that create the file, the second finds the table
        if schema_of(self._connection, self.path) == 0:
            create(self._connection)
        grow(self._connection)
        run("DELETE FROM rows WHERE 0")
        run("COMMIT")

    def put(self, row: Mapping[str, Any]) -> str:
        """Store one row in one transaction (a row of the same key is replaced), and return its key."""
        full = complete(row)
        with self._alone() as connection:
            # A statement outside BEGIN is its own transaction: after a kill the row is there completely or
            # not at all.
            connection.execute(_INSERT, list(full.values()))
        return str(full["key"])

    def put_many(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Store some rows in one transaction: all of them are there afterwards, or none; return how many."""
        full = [list(complete(row).values()) for row in rows]
        with self._alone() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(_INSERT, full)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return len(full)

    def has(self, key: str) -> bool:
        """Return whether a row of this key is stored."""
        with self._alone() as connection:
            return connection.execute("SELECT 1 FROM rows WHERE key = ?", (key,)).fetchone() is not None

    def get(self, key: str) -> dict[str, Any] | None:
        """Return one stored row as a dictionary (JSON columns stay text), or None."""
        with self._alone() as connection:
            row = connection.execute(f"SELECT {_NAMES} FROM rows WHERE key = ?", (key,)).fetchone()
            return None if row is None else dict(zip(COLUMNS, row, strict=True))

    def __len__(self) -> int:
        with self._alone() as connection:
            return int(connection.execute("SELECT count(*) FROM rows").fetchone()[0])

    def frame(self) -> pd.DataFrame:
        """Return all rows, oldest first, with one column for each of `COLUMNS`."""
        with self._alone() as connection:
            return frame_of(connection)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
