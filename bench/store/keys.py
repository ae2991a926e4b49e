"""Bring rows into their stored form, and make their keys in one function.

The key of a row is the SHA-256 of its kind and of the identifying values that its kind declares. Values that are
missing are left out, so that a kind may declare a further column without changing the keys of the rows before it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from bench.store.schema import COLUMNS, KINDS, SCHEMA, STATUSES, RecordsError

# These are the control characters (line breaks and tabs are text), and the marks that are invisible or change
# the direction of the text after them.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def canonical(value: Any) -> str:
    """Return JSON text that is equal for equal values: sorted keys, no spaces, NaN written as null."""
    try:
        return _encode(value)
    except (TypeError, ValueError):  # numbers of NumPy, sets, NaN and infinities are first made plain
        return _encode(_plain(value))


_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode  # fmt: skip


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(whole(canonical(value)).encode()).hexdigest()


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


def visible(text: object) -> str:
    """Return a text in which half characters and control characters are shown as their escapes.

    Example:
        >>> visible("red: \\x1b[31m")
        'red: \\\\x1b[31m'
    """
    whole = str(text).encode("utf-8", "backslashreplace").decode()
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), whole)


def whole(text: str) -> str:
    """Return JSON text in which half a character is written as its escape, which JSON reads back."""
    return text.encode("utf-8", "backslashreplace").decode()


def coerce(name: str, value: Any) -> Any:
    """Return a column's value as SQLite stores it; raise a sentence for a value of the wrong kind."""
    kind = COLUMNS[name]
    if value is None:
        return None
    try:
        if kind == "JSON":
            return whole(canonical(json.loads(value) if isinstance(value, str) else value))
        if kind == "TEXT":
            return visible(value)
        number = float(value)
        if math.isnan(number):
            return None
        return number if kind == "REAL" else int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordsError(f"Column {name!r} holds {kind} values; {value!r} is not one ({error}).") from None


def identity_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that identify a row, in their stored form: those that its kind declares and that are present.

    Args:
        row: Columns by name; more than the identifying ones may be given.

    Returns:
        The kind and the identifying values; a number or a text as it is, JSON as canonical text.

    Raises:
        RecordsError: The row's kind is not known.

    Example:
        >>> from bench.store.keys import identity_of
        >>> identity_of({"kind": "imitation", "problem": "Hopper-v5", "seed": 3, "score": 1.0})
        {'kind': 'imitation', 'problem': 'Hopper-v5', 'seed': 3}
    """
    kind = row.get("kind")
    _check("kind", kind, KINDS)
    return _identity({"kind": kind} | {n: coerce(n, row.get(n)) for n in KINDS[str(kind)].identity})


def _identity(stored: Mapping[str, Any]) -> dict[str, Any]:
    names = ("kind", *KINDS[stored["kind"]].identity)
    return {name: stored[name] for name in names if stored[name] is not None}


def _check(name: str, value: Any, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise RecordsError(f"Column {name!r} is {value!r}; it must be one of {', '.join(allowed)}.")


def key_of(row: Mapping[str, Any]) -> str:
    """Return the key of a row; measuring the same cell again gives the same key.

    Args:
        row: Columns by name; more than the identifying ones may be given.

    Returns:
        The SHA-256 of `identity_of(row)`, 64 letters.

    Raises:
        RecordsError: The row's kind is not known.

    Example:
        >>> from bench.store import key_of
        >>> row = {"kind": "imitation", "problem": "Hopper-v5", "seed": 3}
        >>> key_of(row) == key_of(row | {"score": 1.0}), len(key_of(row))
        (True, 64)
    """
    return content_hash(identity_of(row))


def complete(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with every column in its stored form, checked; key, schema and time are filled in.

    Raises:
        RecordsError: A column is unknown, a value does not fit its column, or a key is given that is not the row's.
    """
    unknown = sorted(set(row) - set(COLUMNS))
    if unknown:
        raise RecordsError(f"Unknown column(s) {', '.join(unknown)}: put what has no column into 'extra'.")
    full: dict[str, Any] = dict.fromkeys(COLUMNS)
    full |= {name: coerce(name, value) for name, value in row.items() if value is not None}
    _check("kind", full["kind"], KINDS)
    _check("status", full["status"], STATUSES)
    full["schema"] = SCHEMA
    full["key"], given = content_hash(_identity(full)), full["key"]
    if given not in (None, full["key"]):
        raise RecordsError(
            f"The key {given[:12]} is not that of the row ({full['key'][:12]}): leave it out, it is made from the "
            f"columns that identify a row of kind {full['kind']!r}."
        )
    full["created"] = full["created"] or datetime.now(UTC).isoformat(timespec="milliseconds")
    return full
