"""Compute Dolan-Moré performance profiles: the share of problems solved in so many times the best time.

Reference: Dolan and Moré, "Benchmarking optimization software with performance profiles", 2002. Problems that
nobody solved are left out of the share and counted apart, as are those to which a choice does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.answers.choices import Choice, Grid


@dataclass(frozen=True)
class Profile:
    """Hold a step function: the factors at which the share rises, and the share from there on."""

    choice: Choice
    factor: np.ndarray
    share: np.ndarray

    def at(self, factor: float) -> float:
        """Return the share of problems solved within `factor` of the fastest."""
        i = int(np.searchsorted(self.factor, factor, side="right"))
        return float(self.share[i - 1]) if i else 0.0


def profiles(table: Grid) -> list[Profile]:
    """Return one profile per choice, the one with the largest area first."""
    someone = table.solved.any(axis=0)
    times = np.where(table.solved, table.time, np.inf)[:, someone]
    if times.shape[1] == 0:
        return []
    number = table.applies[:, someone].sum(axis=1)
    ratio = times / times.min(axis=0)
    out = []
    for choice, line, count in zip(table.choices, ratio, number, strict=True):
        reached = np.sort(line[np.isfinite(line)])
        if len(reached):
            out.append(Profile(choice, reached, np.arange(1, len(reached) + 1) / count))
    return sorted(out, key=lambda p: -area(p))


def area(profile: Profile, largest: float = 100.0) -> float:
    """Return the area under the profile in log10(factor) up to `largest`, one number to order curves by."""
    factor = np.clip(profile.factor, 1.0, largest)
    share = np.concatenate([[0.0], profile.share])
    edges = np.concatenate([[0.0], np.log10(factor), [np.log10(largest)]])
    return float(np.sum(share * np.diff(edges)))
