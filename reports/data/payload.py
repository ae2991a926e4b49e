"""Encode the rows for the page's own script: columns of codes or numbers, compressed, few bytes per row."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from bench.store import COLUMNS, FIELDS
from reports.data.links import Links

ROW_LIMIT = 20_000  # a phone scrolls, sorts and filters this many without trouble
MAIN = (
    "family", "k", "solver", "gradient", "backend", "dtype", "tol", "gap_rel", "steady_s", "backward_s",
    "argmax_grad_s", "status", "batch", "rank", "device", "steps", "grad_error", "compile_s", "score", "machine",
)  # fmt: skip
TEXT_LIMIT = 300  # characters of one value; what experiments write down at length would be half of the page
EXTRA_LIMIT = 100  # characters of the column `extra`, whose texts differ from row to row
HIDDEN = {"key", "samples", "backward_samples", "p_digest"}  # long; they are in the CSV file


def embedded(frame: pd.DataFrame, links: Links, limit: int = ROW_LIMIT) -> pd.DataFrame:
    """Return the rows the page holds: all, or those its numbers link to and an even sample of the others."""
    if len(frame) <= limit:
        return frame
    wanted = frame["id"].isin(links.rows)
    room = max(0, limit - int(wanted.sum()))
    others = np.flatnonzero(~wanted.to_numpy())
    picked = others[np.linspace(0, len(others) - 1, min(room, len(others))).astype(int)] if room else []
    keep = wanted.to_numpy().copy()
    keep[picked] = True
    return frame[keep]


def payload(frame: pd.DataFrame, links: Links, numbers: pd.Series | None = None) -> str:
    """Return the rows `packed`; `numbers` gives the kind of problem of a row by its id, where it has one; then the
    machine of each row is told too, so that no chart mixes machines."""
    frame = frame.sort_values(
        "status", key=lambda status: status != "ok", kind="stable"
    )  # measured rows come first
    names = [c for c in (*MAIN, *(n for n in COLUMNS if n not in MAIN)) if c in frame and c not in HIDDEN]
    # A column nobody measured would be an empty column to scroll past.
    names = [c for c in names if frame[c].notna().any()]
    where = {row: i for i, row in enumerate(frame["id"])}
    columns = {
        name: _column(frame[name], EXTRA_LIMIT if name == "extra" else TEXT_LIMIT) for name in ["id", *names]
    }
    sets = [[where[r] for r in rows if r in where] for rows in links.sets]
    about = {name: _about(name) for name in names}
    content = {
        "n": len(frame), "main": [c for c in MAIN if c in names], "columns": columns, "sets": sets, "about": about,
    }  # fmt: skip
    if numbers is not None:
        content["kinds"] = frame["id"].map(numbers).fillna(-1).astype(int).tolist()
        codes, groups = pd.factorize(frame["group"])
        content["groups"] = {"d": groups.tolist(), "c": codes.tolist()}
    return packed(content)


def packed(content: Any) -> str:
    """Return JSON as base64 of its zlib stream: a fifth of its bytes, and nothing in it can end a script element.

    Every browser since 2023 unpacks it without a library (`templates/data.js`).
    """
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def _about(name: str) -> str:
    """Return the description of a column: its meaning, its unit, and which direction is better."""
    field = FIELDS[name]
    better = f"{field.better} is better" if field.better else ""
    return "; ".join(part for part in (field.about, field.unit and f"in {field.unit}", better) if part)


def _column(values: pd.Series, limit: int = TEXT_LIMIT) -> dict[str, Any]:
    if pd.api.types.is_numeric_dtype(values):
        return {"v": [_number(x) for x in values.tolist()]}
    codes, distinct = pd.factorize(values)
    if len(distinct) > 0.5 * len(values) and len(values) > 20:
        return {"v": [None if x is None or x != x else _cut(str(x), limit) for x in values]}
    return {"d": [_cut(str(x), limit) for x in distinct], "c": codes.tolist()}


def _cut(text: str, limit: int) -> str:
    """Return the beginning of a long text; the CSV file has all of it."""
    return text if len(text) <= limit else text[:limit] + " … (all of it is in rows.csv)"


def _number(value: float) -> float | int | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e15:
        return int(value)
    return float(f"{value:.6g}")


def csv_columns(frame: pd.DataFrame) -> Iterable[str]:
    return [c for c in COLUMNS if c in frame]
