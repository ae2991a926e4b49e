"""Define what a bar states: the measured number beside the number it must reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.gates.bars.ladder import Contender
from bench.problems.base import Named


@dataclass(frozen=True)
class Line:
    """Hold one measured number and its bar: at least (`sense` ">=") or at most ("<=") `bar`."""

    bar_name: str
    what: str
    value: float
    sense: str
    bar: float
    detail: str = ""
    workload: Named | None = None
    contenders: tuple[Contender, ...] = ()
    missing: str = ""  # why it could not be measured; such a line counts as short
    reason: str = ""  # the known reason for which the bar allows the line to fall short

    @property
    def holds(self) -> bool:
        if self.missing or math.isnan(self.value):
            return False
        return self.value >= self.bar if self.sense == ">=" else self.value <= self.bar

    @property
    def verdict(self) -> str:
        """Return "ok", "why" (short, for a reason that the bar allows) or "SHORT"."""
        return "ok" if self.holds else "why" if self.reason and not self.missing else "SHORT"


@dataclass(frozen=True)
class Scale:
    """Say how much to measure: the bars are stated for `full`, and `tiny` shows that everything runs."""

    tiny: bool = False
    rounds: int = 7
    slice_s: float = 0.25
    device: str = "cpu"
    backends: tuple[str, ...] = ("jax", "torch")

    def size(self, full: int, tiny: int) -> int:
        return tiny if self.tiny else full


@dataclass(frozen=True)
class Bar:
    """Hold a named measurement that returns its lines."""

    name: str
    claim: str
    measure: Callable[[Scale], list[Line]] = field(repr=False)


def fastest(contenders: Iterable[Contender]) -> Contender | None:
    """Return the quickest of those that were timed."""
    timed = [c for c in contenders if c.samples]
    return min(timed, key=lambda c: c.seconds, default=None)


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if math.isfinite(seconds) else "-"


def describe(contender: Contender) -> dict[str, Any]:
    """Return what a stored row keeps of a contender beyond its columns."""
    found = {"ours": contender.ours, "scale": contender.scale, "note": contender.note}
    return found if contender.gap is None else {**found, "target": contender.target}
