"""Turn bars into stored rows: one for every contender that was timed, one for every line with value and bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.gates.bars.ladder import Contender
from bench.gates.bars.line import Line, describe
from bench.store import Store
from bench.store.environment import row_facts


def rows(lines: Sequence[Line], load: float | None, loaded: bool) -> Iterator[dict[str, Any]]:
    """Return the rows of some lines; a line's own row has the solver `bar` and its value as the score."""
    where = row_facts() | {"kind": "bars", "load": load, "loaded": loaded}
    seen: set[int] = set()  # the lines of one race share their contenders
    for line in lines:
        facts = line.workload.columns if line.workload else {"problem": line.bar_name}
        for contender in line.contenders:
            if contender.samples and id(contender) not in seen:
                seen.add(id(contender))
                yield where | facts | _timing(contender) | {"score_name": f"time in bar {line.bar_name}"}
        yield (
            where
            | facts
            | {
                "status": "unsupported" if line.missing else "ok",
                "reason": line.missing or None,
                "solver": "bar",
                "score": line.value,
                "score_name": f"{line.bar_name}: {line.what}",
                "extra": {
                    "sense": line.sense,
                    "bar": line.bar,
                    "verdict": line.verdict,
                    "detail": line.detail,
                    "why": line.reason,
                },
            }
        )


def _timing(contender: Contender) -> dict[str, Any]:
    return {
        "status": "ok" if contender.gap is None or contender.gap <= contender.target else "not converged",
        "reason": contender.note or None,
        "solver": contender.name,
        "backend": contender.backend or None,
        "dtype": "float64",
        "tol": contender.tol,
        "gap_rel": contender.gap,
        "steady_s": contender.seconds,
        "steady_median_s": contender.median,
        "steady_spread_s": contender.spread,
        "repeats": len(contender.samples),
        "samples": [s * contender.scale for s in contender.samples],
        "extra": describe(contender),
    }


def save(path: str, lines: Sequence[Line], load: float | None, loaded: bool) -> int:
    """Put the rows into a store and return how many there were."""
    with Store(path) as store:
        return sum(1 for row in rows(lines, load, loaded) if store.put(row))
