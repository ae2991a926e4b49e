"""Draw time, certified gap and gradient error of a cell over its commits, with the changes marked."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from bench.store.history import METRICS
from reports.answers.history import FLOOR, Change, known
from reports.figures import base

TITLES = {"steady_s": "solve (s)", "backward_s": "loss and gradient (s)", "gap_rel": "certified gap",
          "grad_error": "gradient error"}  # fmt: skip


def draw(cell: str, part: pd.DataFrame, found: Sequence[Change], number: int) -> base.Drawn | None:
    """Draw one panel per metric that was measured at two commits or more; return None where there is none."""
    shown = [metric for metric in METRICS if len(known(part, metric)) > 1]
    if not shown:
        return None
    with base.style():
        figure, axes = base.panels(len(shown), across=len(shown), each=2.4)
        commits = [str(commit)[:8] for commit in part.git_commit]
        where = {commit: place for place, commit in enumerate(part.git_commit)}
        for ax, metric in zip(axes, shown, strict=True):
            rows = known(part, metric)
            at = [where[commit] for commit in rows.git_commit]
            ax.plot(at, rows[metric].astype(float).clip(lower=FLOOR), marker="o", color=base.INK)
            for change in (c for c in found if c.metric == metric):
                ax.axvline(where[change.commit] - 0.5, color=base.MUTED, lw=1.2, ls="--")
            base.log_axes(ax, "y")
            step = max(1, len(commits) // 6)
            ax.set_xticks(range(0, len(commits), step), commits[::step], rotation=60)
            ax.set_title(TITLES[metric])
    told = "; ".join(f"{TITLES[c.metric]} x {c.factor:.3g} at {c.commit[:8]}" for c in found) or "no change"
    data = part[["created", "git_commit", *shown]]
    caption = "One point per commit, in the order of time; a dashed line stands where the level changed."
    alt = f"History of {cell} over {len(part)} commits: {told}."
    return base.Drawn(f"history-{number}", cell, caption, alt, figure, data, wide=True)
