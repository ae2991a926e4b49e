"""Read an ARFF file (dense or sparse rows) as a table of numbers with named columns.

A tokenizer reads the names, and not a regular expression over the line, because Mulan's files quote
names that hold spaces and escaped apostrophes ('Swainson\\'s Thrush').

Shapes: n rows, c columns -> values float64 [n, c].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Attribute:
    """Describe one column by its name and, where it is nominal, its categories in order."""

    name: str
    categories: tuple[str, ...] | None = None

    def number(self, token: str) -> float:
        """Return the token as a number; a category that is not a number is replaced by its position."""
        if token == "?":
            return float("nan")
        if self.categories is None:
            value = float(token)
            if not math.isfinite(value):
                raise ValueError(f"'{token}' is not a finite number; a missing value is written ?")
            return value
        if token not in self.categories:
            raise ValueError(f"'{token}' is not one of {', '.join(self.categories)}")
        try:
            return float(token)
        except ValueError:
            return float(self.categories.index(token))


@dataclass(frozen=True)
class Table:
    """Hold an ARFF relation: values [n, c], one attribute per column."""

    attributes: tuple[Attribute, ...]
    values: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)


def read_arff(path: str | Path) -> Table:
    """Read a whole ARFF file; a line that cannot be read is named by its number."""
    path = Path(path)
    with path.open(encoding="utf-8", errors="replace") as lines:
        return parse_arff(lines, str(path))


def parse_arff(lines: Iterable[str], source: str = "<arff>") -> Table:
    """Parse ARFF text given line by line."""
    attributes: list[Attribute] = []
    rows: list[np.ndarray] = []
    in_data = False
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("%"):
            continue
        try:
            if in_data:
                rows.append(_row(line, attributes))
            elif line.lower().startswith("@attribute"):
                attributes.append(_attribute(line))
            elif line.lower().startswith("@data"):
                in_data = True
            elif not line.lower().startswith("@relation"):
                raise ValueError("expected @relation, @attribute or @data")
        except ValueError as error:
            raise GfyValueError(f"{source}, line {number}: {error}") from error
    if not in_data:
        raise GfyValueError(f"{source} has no @data section: it is not a whole ARFF file")
    values = np.stack(rows) if rows else np.zeros((0, len(attributes)))
    return Table(tuple(attributes), values)


def _attribute(line: str) -> Attribute:
    tokens = _tokens(line[len("@attribute") :], separators=" \t")
    name = next(tokens, None)
    if name is None:
        raise ValueError("an @attribute without a name")
    kind = " ".join(tokens).strip()
    if kind.startswith("{"):
        # The type may itself be quoted, so it is cut from the raw line, after the first brace.
        inside = line[line.index("{", line.index(kind[0])) + 1 : line.rindex("}")]
        return Attribute(name, tuple(_tokens(inside, separators=",")))
    if kind.lower() not in ("numeric", "real", "integer"):
        raise ValueError(f"attribute '{name}' has type '{kind}'; numeric and nominal ones can be read")
    return Attribute(name)


def _row(line: str, attributes: list[Attribute]) -> np.ndarray:
    if line.startswith("{"):
        return _sparse_row(line, attributes)
    tokens = line.split(",") if "'" not in line and '"' not in line else list(_tokens(line, separators=","))
    if len(tokens) != len(attributes):
        raise ValueError(f"{len(tokens)} values for {len(attributes)} attributes")
    return np.array([a.number(t.strip()) for a, t in zip(attributes, tokens, strict=True)])


def _sparse_row(line: str, attributes: list[Attribute]) -> np.ndarray:
    if not line.endswith("}"):
        raise ValueError("a sparse row must end with }")
    values = np.zeros(len(attributes))
    for entry in _tokens(line[1:-1], separators=","):
        place, _, token = entry.strip().partition(" ")
        if not 0 <= int(place) < len(attributes):
            raise ValueError(f"column {place} of {len(attributes)} attributes")
        values[int(place)] = attributes[int(place)].number(token.strip())
    return values


def _tokens(text: str, separators: str) -> Iterator[str]:
    """Split at separators, reading 'quoted' or "quoted" pieces whole and undoing backslashes."""
    token: list[str] = []
    quote = ""
    started = escaped = False
    for letter in text:
        if escaped:
            token.append(letter)
            escaped = False
        elif letter == "\\":
            escaped = True
        elif quote:
            if letter == quote:
                quote = ""
            else:
                token.append(letter)
        elif letter in "'\"" and (not token or token[-1].isspace()):
            # an apostrophe inside a word opens no quote
            quote, started = letter, True
        elif letter in separators:
            if started:
                yield "".join(token).strip()
            token, started = [], False
        else:
            token.append(letter)
            started = started or not letter.isspace()
    if quote:
        raise ValueError(f"an opening {quote} is never closed")
    if started:
        yield "".join(token).strip()
