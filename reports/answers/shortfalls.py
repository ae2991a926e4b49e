"""Say what the held-out votes tell of a cell of the multilabel tables: how sure the choice of its setting was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reports.answers.multilabel import Effort, parsed, trained

HELD_OUT = 4  # a quarter of the training part is held out


def reasons(frame: pd.DataFrame, short: pd.DataFrame, effort: Effort) -> list[str]:
    """Return one sentence or more per cell that falls short, from stored votes; cells without votes are left out.

    Args:
        frame: Rows of a store.
        short: Lines of `lines(frame)`, one per cell.
        effort: What was spent on each.

    Returns:
        Lines of a Markdown list. Nothing of the test part is used but the figure itself and its spread over seeds.

    Example:
        >>> found, effort = lines(frame)
        >>> reasons(frame, found[found["difference"] < -0.5], effort)
    """
    rows, _ = trained(frame)
    by_id = {str(row.get("id", row["key"])): row for row in rows.to_dict("records")}
    said = []
    for line in short.drop_duplicates(["dataset", "energy", "loss", "gradient"]).itertuples():
        row = by_id[str(line.id)]
        extra = parsed(row["extra"])
        if extra.get("held_out_votes"):
            said.append(
                f"- {line.dataset} {line.energy} {line.loss} {line.gradient}: {_told(row, extra, effort)}"
            )
    return said


def _told(row: dict[str, Any], extra: dict[str, Any], effort: Effort) -> str:
    votes = {int(place): np.asarray(cast, float) for place, cast in extra["held_out_votes"].items()}
    means = {place: float(cast.mean()) for place, cast in votes.items()}
    top = max(means.values())
    decisions = {"held-out": -(-extra["training"]["rows"][0] // HELD_OUT) * int(row["k"]),
                 "test": extra["training"]["rows"][1] * int(row["k"])}  # fmt: skip
    error = {
        part: 100 * (share / 100 * (1 - share / 100) / decisions[part]) ** 0.5
        for part, share in (("held-out", top), ("test", float(row["score"])))
    }
    near = sum(mean >= top - error["held-out"] for mean in means.values())
    best = [place for place, mean in means.items() if mean > top - 1e-3]
    last = extra["held_out_curve"][-1]  # of the first seed at the chosen setting
    chosen = min(best, key=lambda place: abs(votes[place][0] - last))
    spread = votes[chosen]
    text = [
        f"{near} of {len(means)} finalists lie within one standard error ({error['held-out']:.2f} points, "
        f"{decisions['held-out']} decisions) of the best held-out accuracy, {top:.2f}; the seeds of the chosen one "
        f"reach {spread.min():.2f} to {spread.max():.2f} there. The test part has {decisions['test']} decisions, a "
        f"standard error of {error['test']:.2f} points for one network."
    ]
    if len(best) > 1:
        text.append(
            f"{len(best)} settings tie for the best, and the choice between them is one of order alone."
        )
    rate = chosen % effort.rates
    if rate in (0, effort.rates - 1):
        end = "smallest" if rate == 0 else "largest"
        text.append(
            f"The chosen rate is the {end} of the grid{_untrained(extra, effort) if rate == 0 else '.'}"
        )
    micro = (extra.get("metrics") or {}).get("micro_f1")
    if micro is not None and micro < 0.2:
        text.append(
            f"Its networks predict hardly any label (micro F1 of {100 * micro:.1f} %): held-out accuracy prefers that "
            "where labels are rare."
        )
    return " ".join(text)


def _untrained(extra: dict[str, Any], effort: Effort) -> str:
    """Return what the grid says of larger rates, where the smallest one is best."""
    grid = np.asarray(extra["held_out_grid"], float).reshape(effort.penalties, effort.rates)
    chosen, rows = extra.get("chosen") or {}, extra["training"]["rows"][0]
    text = (
        f", and the first seed's best held-out accuracy falls from {grid[:, 0].max():.2f} there to "
        f"{grid[:, -1].max():.2f} at the largest: the more the network is trained, the worse it is."
    )
    if effort.decay and "rate" in chosen:
        steps = effort.epochs * (rows // effort.batch)
        text += (
            f" Its {steps} steps of Adam, of about the rate each or less, move a weight by "
            f"{0.5 * float(chosen['rate']) * steps:.2g} at most: the figure is that of first draws."
        )
    return text
