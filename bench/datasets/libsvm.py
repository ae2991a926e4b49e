"""Read a LIBSVM multilabel file: each line is `label,label feature:value feature:value ...`.

A line that starts with a space has no label. Features are numbered from 1, labels from 0; a file may
be compressed (.bz2, .gz, .xz), as they are published.

Shapes: n lines, d features, k labels -> X [n, d] float64, Y [n, k] of 0 and 1.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from bench.datasets.mulan import Part
from gfy.errors import GfyValueError

LARGEST = 2**31  # numbers; a table in memory may have at most this many


def open_text(path: str | Path) -> IO[str]:
    """Open a text file, uncompressing it by its suffix."""
    openers: dict[str, Any] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
    opener = openers.get(Path(path).suffix)
    return opener(path, "rt", encoding="ascii") if opener else open(path, encoding="ascii")


def read_libsvm(path: str | Path, features: int | None = None, labels: int | None = None) -> Part:
    """Read a multilabel file; give `features` and `labels` so that two parts agree in shape."""
    try:
        with open_text(path) as lines:
            return parse_libsvm(lines, str(path), features, labels)
    except FileNotFoundError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeError) as error:
        raise GfyValueError(f"{path} is damaged or is no LIBSVM text: {error}") from error


def parse_libsvm(
    lines: Iterable[str], source: str = "<libsvm>", features: int | None = None, labels: int | None = None
) -> Part:
    """Parse multilabel LIBSVM text given line by line."""
    chosen: list[list[int]] = []
    entries: list[list[tuple[int, float]]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            row_labels, row_entries = _line(line)
        except ValueError as error:
            raise GfyValueError(f"{source}, line {number}: {error}") from error
        chosen.append(row_labels)
        entries.append(row_entries)
    top_label = max((max(row) for row in chosen if row), default=-1) + 1
    top_feature = max((index for row in entries for index, _ in row), default=-1) + 1
    k, d = labels or top_label, features or top_feature
    if top_label > k or top_feature > d:
        raise GfyValueError(
            f"{source} holds {top_label} labels and {top_feature} features; {k} and {d} were expected"
        )
    if len(chosen) * (d + k) > LARGEST:
        raise GfyValueError(
            f"{source} would be a table of {len(chosen)} rows and {d + k} columns: too large to hold"
        )
    X, Y = np.zeros((len(chosen), d)), np.zeros((len(chosen), k))
    for i, (row_labels, row_entries) in enumerate(zip(chosen, entries, strict=True)):
        Y[i, row_labels] = 1.0
        for index, value in row_entries:
            X[i, index] = value
    names = tuple(f"f{j + 1}" for j in range(d)), tuple(f"label{j}" for j in range(k))
    return Part(X, Y, *names)


def _line(line: str) -> tuple[list[int], list[tuple[int, float]]]:
    fields = line.split()
    row_labels: list[int] = []
    if not line[0].isspace() and ":" not in fields[0]:
        # Some published files write labels as 1.0, which is read as a float and then made an int.
        row_labels = [_index(token, "label") for token in fields.pop(0).split(",")]
    row_entries = []
    for field in fields:
        index, colon, value = field.partition(":")
        if not colon:
            raise ValueError(f"'{field}' is not of the form feature:value")
        place = _index(index, "feature")
        if place < 1:
            raise ValueError(f"feature {place}: LIBSVM features are numbered from 1")
        if not math.isfinite(float(value)):
            raise ValueError(f"feature {place} is {value}, which is not a finite number")
        row_entries.append((place - 1, float(value)))
    return row_labels, row_entries


def _index(token: str, what: str) -> int:
    number = float(token)
    if not 0 <= number < 2**31 or number != int(number):
        raise ValueError(f"'{token}' is not a {what} number")
    return int(number)
