"""Compare two runs: what changed beyond noise between two commits, settings or machines.

Rows of the two are paired where everything that determines them but machine, versions and commit is equal.
A time has changed where the intervals of the two rows do not overlap; on two machines every time is first
divided by the median ratio of the pairs, so that a machine being slower is said once and not in every line. The ratios
that are shown are those of the stored times.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bench.store import RecordsError
from reports.answers.tables import Cell, Table
from reports.data.labels import parsed
from reports.data.load import Rows, load
from reports.data.numbers import seconds, small

PAIR = ("kind", "problem", "family", "k", "batch", "rank", "seed", "problem_params", "solver", "gradient",
        "backend", "device", "dtype", "tol", "score_name")  # fmt: skip
TIMES = (("steady", "forward"), ("backward", "loss and gradient"))
ORDER = ("broken", "failing otherwise", "slower", "less accurate", "mended", "faster", "more accurate")
OWN_CODE = ("gfy", "solver")  # fingerprints of our files among the versions: what changed is what is asked
CHANGED = 1.1  # two runs of one program differ more than the repeats of one run
WORSE_GAP = 10.0  # a certificate moves by less than this from one rounding to another


@dataclass(frozen=True)
class Comparison:
    """Hold what was compared and what changed; `pairs` has one line per paired row and time."""

    names: tuple[str, str]
    rows: tuple[Rows, Rows]
    merged: pd.DataFrame
    pairs: pd.DataFrame
    changes: pd.DataFrame
    only: tuple[int, int]
    factor: dict[str, float]
    same_machine: bool

    @property
    def headline(self) -> str:
        moved = self.changes.drop_duplicates(["key_a", "verdict"])
        counts = moved["verdict"].value_counts()
        paired, changed = len(self.merged), moved["key_a"].nunique()
        said = f"{changed:,} changed beyond noise ({', '.join(f'{n} {v}' for v, n in counts.items())})"
        said = f"{said}, {paired - changed:,} did not" if changed else "nothing changed beyond noise"
        where = (
            ""
            if self.same_machine
            else (
                " The runs are from different machines or library versions: times are compared after "
                "dividing by the "
                "median ratio (" + ", ".join(f"{k} {v:.3g}" for k, v in self.factor.items()) + ")."
            )
        )
        total = tuple(paired + n for n in self.only)
        left = f" A has {total[0]:,} rows, {self.only[0]:,} without a partner; B has {total[1]:,}, {self.only[1]:,}."
        return f"{paired:,} paired rows: {said}.{where}{left}"


def compare(a: Path, b: Path) -> Comparison:
    """Pair the rows of two files; say what is faster, slower, broken, mended, more or less accurate."""
    first, second = _marked(load([a]), "A"), _marked(load([b]), "B")
    left, right = (_newest(r.frame) for r in (first, second))
    merged = left.merge(right, on="pair", suffixes=("_a", "_b"), how="inner")
    if merged.empty:
        raise RecordsError(
            f"{a} and {b} have no problem, solver and tolerance in common: nothing can be compared."
        )
    same = _same_machine(merged)
    pairs, factor = _times(merged, same)
    changes = pd.concat(
        [pairs[pairs["verdict"] != "same"], _statuses(merged), _accuracy(merged)], ignore_index=True
    )
    only = (len(left) - len(merged), len(right) - len(merged))
    return Comparison(_names(a, b), (first, second), merged, pairs, changes, only, factor, same)


def _names(a: Path, b: Path) -> tuple[str, str]:
    """Return the shortest names that distinguish the two files."""
    if a.name != b.name:
        return a.name, b.name
    one, two = a.absolute().parts, b.absolute().parts
    depth = next((n for n in range(2, min(len(one), len(two)) + 1) if one[-n:] != two[-n:]), 1)
    return "/".join(one[-depth:]), "/".join(two[-depth:])


def _marked(rows: Rows, mark: str) -> Rows:
    """Put a letter before each key, since the same cell measured twice has one key."""
    frame = rows.frame
    return Rows(frame.assign(key=mark + frame["key"], id=mark + frame["id"]), rows.notes, rows.sources)


def _newest(frame: pd.DataFrame) -> pd.DataFrame:
    # The stored text of each column makes the pair: numbers as written, None as the word.
    pair = ["\x1f".join(map(str, line)) for line in zip(*(frame[c] for c in PAIR), strict=True)]
    return frame.assign(pair=pair).drop_duplicates("pair", keep="last")


def _same_machine(merged: pd.DataFrame) -> bool:
    """Return whether both rows of every pair come from one machine with one set of libraries."""
    columns = (merged[f"{name}_{mark}"] for name in ("machine", "versions") for mark in "ab")
    return all(
        one == two and _libraries(a) == _libraries(b) for one, two, a, b in set(zip(*columns, strict=True))
    )


def _libraries(versions: str | None) -> dict[str, object]:
    return {name: value for name, value in parsed(versions).items() if name not in OWN_CODE}


def _times(merged: pd.DataFrame, same: bool) -> tuple[pd.DataFrame, dict[str, float]]:
    parts, factor = [], {}
    for prefix, label in TIMES:
        a, b = merged[f"{prefix}_s_a"], merged[f"{prefix}_s_b"]
        use = (a > 0) & (b > 0) & (merged["status_a"] == "ok") & (merged["status_b"] == "ok")
        if not use.any():
            continue
        part = merged[use]
        raw = part[f"{prefix}_s_b"] / part[f"{prefix}_s_a"]
        scale = 1.0 if same else float(np.exp(np.median(np.log(raw))))
        factor[label] = scale
        low_b, high_b = part[f"{prefix}_s_b"] / scale, part[f"{prefix}_high_s_b"] / scale
        low_a, high_a = part[f"{prefix}_s_a"], part[f"{prefix}_high_s_a"]
        slower = (low_b > high_a) & (low_b > CHANGED * low_a)
        faster = (high_b < low_a) & (CHANGED * low_b < low_a)
        verdict = np.select([slower, faster], ["slower", "faster"], "same")
        parts.append(_lines(part, f"time, {label}", low_a, part[f"{prefix}_s_b"], raw, verdict))
    empty = _lines(
        merged.iloc[:0], "time", merged["steady_s_a"].iloc[:0], merged["steady_s_b"].iloc[:0], [], []
    )
    return pd.concat(parts, ignore_index=True) if parts else empty, factor


def _statuses(merged: pd.DataFrame) -> pd.DataFrame:
    part = merged[merged["status_a"] != merged["status_b"]]
    verdict = np.where(
        part["status_b"] == "ok", "mended", np.where(part["status_a"] == "ok", "broken", "failing otherwise")
    )
    return _lines(part, "status", part["status_a"], part["status_b"], np.nan, verdict)


def _accuracy(merged: pd.DataFrame) -> pd.DataFrame:
    parts = []
    for column, label in (("gap_rel", "certified gap"), ("grad_error", "gradient error")):
        a, b = merged[f"{column}_a"], merged[f"{column}_b"]
        ratio = b.clip(lower=1e-15) / a.clip(lower=1e-15)
        limit = merged["tol_b"].fillna(1e-12) if column == "gap_rel" else 1e-9
        worse = (ratio > WORSE_GAP) & (b > limit)
        better = (ratio < 1 / WORSE_GAP) & (
            a > (merged["tol_a"].fillna(1e-12) if column == "gap_rel" else 1e-9)
        )
        part = merged[worse | better]
        verdict = np.where(worse[part.index], "less accurate", "more accurate")
        parts.append(_lines(part, label, a[part.index], b[part.index], ratio[part.index], verdict))
    return pd.concat(parts, ignore_index=True)


def _lines(
    part: pd.DataFrame, what: str, a: object, b: object, ratio: object, verdict: object
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "verdict": verdict, "what": what, "instance": part["instance_a"], "solver": part["solver_a"],
            "gradient": part["gradient_a"], "backend": part["backend_a"], "device": part["device_a"],
            "dtype": part["dtype_a"], "tol": part["tol_a"], "a": a, "b": b, "ratio": ratio,
            "key_a": part["id_a"], "key_b": part["id_b"],
        }
    )  # fmt: skip


def change_table(result: Comparison, limit: int = 200) -> Table:
    """Return the changes: what broke or got worse first, then by the size of the ratio."""
    size = result.changes["ratio"].astype(float).map(lambda r: abs(np.log(r)) if r and r > 0 else np.inf)
    weight = result.changes["verdict"].map({verdict: i for i, verdict in enumerate(ORDER)})
    order = result.changes.assign(size=size, weight=weight).sort_values(
        ["weight", "size"], ascending=[True, False], kind="stable"
    )
    cells = []
    for line in order.itertuples():
        show = seconds if line.what.startswith("time") else (str if line.what == "status" else small)
        tol = f"{line.tol:.0e}" if line.tol == line.tol else "-"
        words = [
            line.verdict,
            line.what,
            line.instance,
            line.solver,
            line.gradient,
            line.backend,
            line.dtype,
            tol,
        ]
        ratio = float(line.ratio)
        cells.append([
            *(Cell(str(w)) for w in words), Cell(show(line.a), rows=(line.key_a,)),
            Cell(show(line.b), rows=(line.key_b,)),
            Cell("-" if not np.isfinite(ratio) else f"{ratio:.3g}", value=ratio),
        ])  # fmt: skip
    columns = [
        "change",
        "what",
        "problem",
        "solver",
        "gradient",
        "backend",
        "dtype",
        "tol",
        "A",
        "B",
        "B / A",
    ]
    note = f"A is {result.names[0]}, B is {result.names[1]}"
    return Table(
        "changes", "What changed beyond noise", columns, cells, note, [False] * 8 + [True] * 3, limit
    )
