"""Handle the SQLite file behind a store: recognise it, make it, open it, and say in a sentence where that fails."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.store.media import visible
from bench.store.schema import APPLICATION_ID, COLUMNS, REQUIRED, SCHEMA, RecordsError

FIRST_SCHEMA = 1  # files of an older schema are not read


def fault(path: Path, error: sqlite3.Error) -> RecordsError:
    """Turn what SQLite says of a file into what a person can do about it."""
    text = str(error)
    low = text.lower()
    if "full" in low or "disk i/o" in low or "too big" in low:
        return RecordsError(
            f"No room left to write {path} ({text}): the rows already stored are safe and readable; "
            "free some space and give the same command again to go on."
        )
    if "readonly" in low or "unable to open" in low:
        return RecordsError(
            f"{path} cannot be written ({text}): choose a folder you may write to with --out."
        )
    if "locked" in low or "busy" in low:
        return RecordsError(
            f"{path} stayed locked by another program for a minute ({text}): try again when it has ended."
        )
    if "malformed" in low or "not a database" in low:
        return RecordsError(
            f"{path} is damaged ({text}): it is left as it is; restore a copy or choose another file."
        )
    return RecordsError(f"{path} could not be used ({text}).")


def check_name(path: Path) -> None:
    """Refuse a name that no file can have: one with a null byte, or a longer one than the system allows."""
    try:
        path.lstat()
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            reason = error if isinstance(error, ValueError) else error.strerror
            raise RecordsError(
                f"{visible(str(path))} cannot be used ({reason}): choose another name."
            ) from error


def check_header(path: Path) -> None:
    """Refuse a file that is no SQLite file at all."""
    with path.open("rb") as file:
        head = file.read(16)
    if head and head != b"SQLite format 3\x00":
        raise RecordsError(f"{path} is not a result store (not an SQLite file): it is left as it is.")


def schema_of(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema of a store, 0 for an empty database, and raise a sentence for anything else."""
    with _snapshot(connection):  # another program may be making the file at this moment
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        things = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
    if application == 0 and version == 0 and not things:
        return 0
    if application != APPLICATION_ID:
        raise RecordsError(
            f"{path} is a database of another program: it is left as it is; choose another file."
        )
    if version > SCHEMA:
        raise RecordsError(
            f"{path} has schema {version}, newer than the {SCHEMA} this version reads: update gfy-suite."
        )
    if version < FIRST_SCHEMA:
        raise RecordsError(
            f"{path} has schema {version}, older than the {FIRST_SCHEMA} this version reads: measure again into a "
            "new file."
        )
    for kind, name in things:
        if kind in ("trigger", "view") or (
            kind == "table" and name != "rows" and not name.startswith("sqlite_")
        ):
            raise RecordsError(
                f"{path} holds the {kind} {name!r}: a store holds one table of rows and nothing that runs; it is left "
                "as it is."
            )
    missing = [name for name in REQUIRED if name not in present(connection)]
    if missing:
        raise RecordsError(
            f"{path} lacks the column(s) {', '.join(missing)}: it is damaged or was edited by hand."
        )
    return version


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Group several reads of one state of the file."""
    inside = connection.in_transaction
    if not inside:
        connection.execute("BEGIN")
    try:
        yield
    finally:
        if not inside:
            connection.execute("ROLLBACK")


def present(connection: sqlite3.Connection) -> list[str]:
    """Return the columns that the file has, in its order."""
    return [str(r[1]) for r in connection.execute("PRAGMA table_info(rows)")]


def create(connection: sqlite3.Connection) -> None:
    """Make the table of rows in an empty database."""
    connection.execute(f"CREATE TABLE rows ({', '.join(map(_declared, COLUMNS))})")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def grow(connection: sqlite3.Connection) -> None:
    """Add the columns that were declared after the file was made; its rows have no value there."""
    known = set(present(connection))
    for name in COLUMNS:
        if name not in known:
            connection.execute(f"ALTER TABLE rows ADD COLUMN {_declared(name)}")


def _declared(name: str) -> str:
    kind = "TEXT" if COLUMNS[name] == "JSON" else COLUMNS[name]
    tail = " PRIMARY KEY NOT NULL" if name == "key" else " NOT NULL" if name in REQUIRED else ""
    return f'"{name}" {kind}{tail}'
