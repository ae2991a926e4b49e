"""Better, same or worse: a bootstrap interval of the paired change, held against what would matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# metric -> (how its change is shown, the change that matters, what is too small to matter at all)
METRICS = {
    "time": ("ratio", 0.05, 0.0),
    "gradient time": ("ratio", 0.05, 0.0),
    "certified gap": ("decades", 0.5, 1e-13),
    "gradient error": ("decades", 0.5, 1e-12),
}


@dataclass(frozen=True)
class Verdict:
    """What one metric of one cell did from BASE to HEAD. For ratios 1 is no change, for decades 0."""

    cell: str
    metric: str
    base: float
    head: float
    change: float
    low: float
    high: float
    verdict: str  # "better", "same", "worse" or "not comparable"
    reason: str = ""


def interval(
    groups: Sequence[np.ndarray], level: float = 0.99, draws: int = 4000, seed: int = 0
) -> tuple[float, float, float]:
    """The median of paired differences and its bootstrap interval.

    `groups` holds one array of differences a launch of the two processes: launches are resampled first, then
    the rounds within, because two processes of the very same code differ by their memory layout.
    """
    rng = np.random.default_rng(seed)
    table = np.asarray(groups)  # [launches, rounds]
    launches, rounds = table.shape
    which = rng.integers(launches, size=(draws, launches, 1))
    medians = np.median(table[which, rng.integers(rounds, size=(draws, launches, rounds))], axis=(1, 2))
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(medians, [tail, 100.0 - tail])
    return float(np.median(table)), float(low), float(high)


def judge(
    cell: str,
    metric: str,
    base: Sequence[Sequence[float]],
    head: Sequence[Sequence[float]],
    level: float = 0.99,
    matters: float | None = None,
) -> Verdict:
    """The verdict from paired samples: `base[i][j]` and `head[i][j]` were neighbours in launch i."""
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
    verdict = "worse" if low > limits[1] else "better" if high < limits[0] else "same"
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
