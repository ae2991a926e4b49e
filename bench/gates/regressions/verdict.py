"""Decide better, same, worse or cannot tell by a bootstrap interval of the paired change and limits that matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

# For each metric: how its change is shown, the change that matters, and the value up to which all count as equal.
METRICS = {
    "time": ("ratio", 0.05, 0.0),
    "gradient time": ("ratio", 0.05, 0.0),
    "argmax gradient time": ("ratio", 0.05, 0.0),
    "certified gap": ("decades", 0.5, 1e-13),
    "gradient error": ("decades", 0.5, 1e-12),
    "argmax gradient error": ("decades", 0.5, 1e-10),
}
# An interval that crosses a limit of what matters says nothing when it is wider than this many limits, or when its
# middle lies beyond the limit.
WIDE = 3.0


@dataclass(frozen=True)
class Verdict:
    """Hold what one metric of one cell did from BASE to HEAD. For ratios 1 is no change, for decades 0."""

    cell: str
    metric: str
    base: float
    head: float
    change: float
    low: float
    high: float
    verdict: str  # "better", "same", "worse", "cannot tell" or "not comparable"
    reason: str = ""
    control: tuple[float, float] | None = None  # the interval of BASE against itself, of the same kind


def controlled(found: Verdict, control: Verdict) -> Verdict:
    """Return the verdict after a control: a change that BASE also shows against itself is no change.

    Args:
        found: HEAD against BASE.
        control: BASE against a second process of BASE, measured in the same turns.

    Returns:
        The verdict with the interval of the control.
    """
    found = replace(found, control=(control.low, control.high))
    apart = found.low > control.high if found.verdict == "worse" else found.high < control.low
    if found.verdict not in ("worse", "better") or apart:
        return found
    return replace(found, verdict="cannot tell", reason="base differs as much from itself")


def interval(
    groups: Sequence[np.ndarray], level: float = 0.99, draws: int = 4000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the median of paired differences and its bootstrap interval.

    `groups` holds one array of differences per launch of the two processes. The launches are resampled first, then the
    rounds within each, because two processes of the same code differ in speed by their memory layout.
    """
    rng = np.random.default_rng(seed)
    table = np.asarray(groups)  # [launches, rounds]
    launches, rounds = table.shape
    which = rng.integers(launches, size=(draws, launches, 1))
    medians = np.median(table[which, rng.integers(rounds, size=(draws, launches, rounds))], axis=(1, 2))
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(medians, [tail, 100.0 - tail])
    return float(np.median(table)), float(low), float(high)


def decide(low: float, high: float, limits: tuple[float, float]) -> str:
    """Return what an interval of the change means, given the limits beyond which a change matters.

    An interval beyond a limit is `worse` or `better`, and one between the limits is `same`. An interval that crosses a
    limit is `cannot tell`, since the change may matter or not; but a narrow one with its middle between the limits is
    `same`, so that noise does not hide a change of 2 % beside a limit of 5 %.

    Example:
        >>> limits = (-0.05, 0.05)
        >>> decide(-0.01, 0.02, limits), decide(0.2, 0.3, limits), decide(0.01, 0.06, limits)
        ('same', 'worse', 'same')
        >>> decide(-1.6, 1.4, limits), decide(0.04, 0.18, limits)
        ('cannot tell', 'cannot tell')
    """
    if low > limits[1]:
        return "worse"
    if high < limits[0]:
        return "better"
    if limits[0] <= low and high <= limits[1]:
        return "same"
    narrow = high - low <= WIDE * (limits[1] - limits[0]) / 2
    return "same" if narrow and limits[0] <= (low + high) / 2 <= limits[1] else "cannot tell"


def judge(
    cell: str,
    metric: str,
    base: Sequence[Sequence[float]],
    head: Sequence[Sequence[float]],
    level: float = 0.99,
    matters: float | None = None,
) -> Verdict:
    """Return the verdict from paired samples: `base[i][j]` and `head[i][j]` were neighbours in launch i."""
    kind, threshold, floor = METRICS[metric]
    threshold = threshold if matters is None or kind != "ratio" else matters
    pairs = [(np.asarray(b, float), np.asarray(h, float)) for b, h in zip(base, head, strict=True)]
    centre_base = float(np.median(np.concatenate([b for b, _ in pairs])))
    centre_head = float(np.median(np.concatenate([h for _, h in pairs])))
    if not all(np.isfinite(b).all() and np.isfinite(h).all() for b, h in pairs):
        verdict = "worse" if np.isfinite(centre_base) and not np.isfinite(centre_head) else "not comparable"
        nan = float("nan")
        return Verdict(
            cell, metric, centre_base, centre_head, nan, nan, nan, verdict, "a value is not finite"
        )
    scale = np.log if kind == "ratio" else np.log10
    tiny = max(floor, 1e-300)
    groups = [scale(np.maximum(h, tiny)) - scale(np.maximum(b, tiny)) for b, h in pairs]
    change, low, high = interval(groups, level)
    limits = (np.log1p(-threshold), np.log1p(threshold)) if kind == "ratio" else (-threshold, threshold)
    verdict = decide(low, high, limits)
    shown = np.exp if kind == "ratio" else float
    return Verdict(
        cell,
        metric,
        centre_base,
        centre_head,
        float(shown(change)),
        float(shown(low)),
        float(shown(high)),
        verdict,
    )
