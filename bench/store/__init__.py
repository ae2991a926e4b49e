"""Keep measured rows in one SQLite file, with one transaction per row, so that no finished row is lost.

A row is a flat dictionary with the columns of `schema.COLUMNS`; `keys.key_of` makes its key from what its kind says
identifies it, so that a second run knows what is missing and two files can be merged. This package needs the standard
library and pandas only, so that reports are built from it without any numerical framework.
"""

from bench.store.keys import canonical, complete, content_hash, key_of
from bench.store.read import load, read
from bench.store.schema import COLUMNS, FIELDS, KINDS, SCHEMA, STATUSES, RecordsError
from bench.store.store import Store

__all__ = [
    "COLUMNS",
    "FIELDS",
    "KINDS",
    "SCHEMA",
    "STATUSES",
    "RecordsError",
    "Store",
    "canonical",
    "complete",
    "content_hash",
    "key_of",
    "load",
    "read",
]
