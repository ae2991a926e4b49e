"""Label what tables and figures group by: short names that distinguish solvers, problems, machines and versions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Add row ids, machine groups, solver and gradient labels, problem names and interval ends."""
    out = frame.copy()
    length = 10
    while length < 64 and out["key"].str[:length].duplicated().any():
        length += 6
    out["id"] = out["key"].str[:length]
    out["group"] = _groups(out)
    named = {"solver_call": out["solver"], "solver": out["solver"], "gradient": out["gradient"]}
    # Trainings and studies are shown apart from comparisons: what they write down is no variant of a solver.
    of_kind = [part.index for _, part in out.groupby("kind", sort=False, dropna=False)]
    for column, names in named.items():
        params = out["gradient_params" if column == "gradient" else "solver_params"]
        quoted = column == "solver_call"
        labels = [_variants(names[at], params[at], quoted) for at in of_kind]
        out[column] = pd.concat(labels) if labels else names
    out["mode"] = out["gradient"].map(lambda g: g.partition("(")[0])
    out["instance"] = _instances(out)
    for prefix in ("steady", "backward", "argmax_grad"):
        out[f"{prefix}_high_s"] = _upper(out, prefix)
    return out


def _variants(names: pd.Series, stored: pd.Series, quoted: bool = False) -> pd.Series:
    """Return each name with those parameters in which the rows of that name differ: FrankWolfe(variant=away)."""
    pairs = pd.Series(list(zip(names, stored, strict=True)), index=names.index, dtype=object)
    by_name: dict[str, dict[str | None, dict[str, Any]]] = {}
    for name, text in dict.fromkeys(pairs):
        by_name.setdefault(name, {})[text] = parsed(text)
    label = {}
    for name, found in by_name.items():
        keys = sorted({k for p in found.values() for k in p})
        keys = [k for k in keys if len({json.dumps(p.get(k), sort_keys=True) for p in found.values()}) > 1]
        for text, p in found.items():
            inside = ", ".join(f"{k}={p[k]!r}" if quoted else f"{k}={p[k]}" for k in keys if k in p)
            label[name, text] = f"{name}({inside})" if inside else str(name)
    return pd.Series([label[pair] for pair in pairs], index=names.index, dtype=object)


def _groups(frame: pd.DataFrame) -> pd.Series:
    """Return one label for each machine, and for each set of library versions where a machine has several.

    Two rows may each name libraries that the other does not use; only a library named by both in different
    versions keeps them apart. The fingerprint of a solver's own file speaks of that solver alone.
    """
    versions = frame["versions"].where(frame["versions"].notna(), "{}")
    texts = pd.Series(list(zip(versions, frame["solver"], strict=True)), index=frame.index, dtype=object)
    label = frame["machine"].astype(object).copy()
    for machine, of_machine in texts.groupby(frame["machine"], sort=False):
        number = _compatible(list(dict.fromkeys(of_machine)))
        if max(number.values()) > 0:
            names = {text: f"{machine}, versions {i + 1}" for text, i in number.items()}
            label.loc[of_machine.index] = [names[text] for text in of_machine]
    return label


def _compatible(texts: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
    merged: list[dict[str, Any]] = []
    number = {}
    for text, solver in texts:
        mine = {
            (f"solver {solver}" if n == "solver" else n): v for n, v in parsed(text).items() if v is not None
        }
        fits = (i for i, other in enumerate(merged) if all(other.get(n, v) == v for n, v in mine.items()))
        i = next(fits, len(merged))
        if i == len(merged):
            merged.append({})
        merged[i] |= mine
        number[text, solver] = i
    return number


def parsed(text: str | None) -> dict[str, Any]:
    """Return a stored JSON object; it is empty where there is none or it is not one."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _instances(frame: pd.DataFrame) -> pd.Series:
    """Return the shortest readable name for each measured problem: same name, same numbers."""
    text = frame["problem"].astype(object)
    for name in ("k", "rank", "batch", "seed"):
        several = frame[name].groupby(text).transform("nunique") > 1
        part = frame[name].map(lambda x, n=name: "" if np.isnan(x) else f" {n}={int(x)}")
        text = text + part.where(several, "")
    params = frame["problem_params"].where(frame["problem_params"].notna(), "{}")
    several = params.groupby(text).transform("nunique") > 1
    if not several.any():
        return text
    number = params.groupby(text).transform(lambda s: pd.factorize(s)[0] + 1)
    return text + number.map(lambda i: f" #{i}").where(several, "")


def _upper(frame: pd.DataFrame, prefix: str) -> pd.Series:
    """Return the upper end of a time's interval: median plus half the interquartile range, or plus 10% if unknown."""
    missing = pd.Series(np.nan, index=frame.index)
    low, median = frame[f"{prefix}_s"], frame.get(f"{prefix}_median_s", missing)
    spread = frame.get(f"{prefix}_spread_s", missing) / 2.0
    if prefix != "steady":  # where only the forward pass has a spread it is scaled to the longer time
        scaled = frame["steady_spread_s"] / 2.0 * (median / frame["steady_median_s"]).clip(lower=1.0)
        spread = spread.fillna(scaled)
    high = median + spread.fillna(0.0)
    unknown = median.isna() | (frame["repeats"].fillna(1.0) < 2)
    return np.maximum(high.where(~unknown, 1.1 * low), low)
