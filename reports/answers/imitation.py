"""Compute what the imitation experiment shows from stored rows: one line per seed, a table with intervals, a verdict.

Only rows of kind "imitation" are read. Where a seed was evaluated more than once (with more episodes
later), the evaluation with the most episodes counts, and the newest of those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from reports.data.labels import parsed

COLUMNS = ["task", "model", "setting", "trajectories", "seed", "episodes", "return", "sd", "normalised"]
HYPER = ["rate", "hidden", "gamma", "l2", "steps", "batch", "noise"]
TIMES = ["runs", "train_s", "evaluation_s", "policy_s", "simulation_s"]


def seeds_frame(stored: pd.DataFrame, search: bool = False) -> pd.DataFrame:
    """Return one line per seed (`COLUMNS`, then hyper-parameters, certificate, times, the row's id) from
    stored rows."""
    lines: list[dict[str, Any]] = []
    chosen = stored[(stored["kind"] == "imitation") & (stored["status"] == "ok")]
    for row in chosen.to_dict("records"):
        params, extra = parsed(row["problem_params"]), parsed(row["extra"])
        if params["model"] == "random" or (params["setting"] == "search") != search:
            continue
        lines.append(
            {
                "task": row["problem"],
                "model": params["model"],
                "setting": params["setting"],
                "trajectories": params["trajectories"],
                "seed": int(row["seed"]),
                "episodes": params["episodes"],
                "return": row["score"],
                "sd": row["score_sd"],
                "normalised": extra["normalised"],
                **{name: params.get(name, 0.0) if name == "noise" else params[name] for name in HYPER},
                "expert": extra["expert"],
                "random": extra["random"],
                "length": extra["length"],
                "loss": extra["loss"],
                "gap": row["gap"],
                "load": row["load"],
                **{name: extra[name] for name in TIMES},
                "created": row["created"],
                "commit": row["git_commit"],
                "dirty": row["git_dirty"],
                "id": row.get("id", row["key"]),
            }
        )
    names = [*COLUMNS, *HYPER, "expert", "random", "length", "loss", "gap", "load", *TIMES, "created"]
    names += ["commit", "dirty", "id"]
    frame = pd.DataFrame(lines, columns=names)
    if frame.empty:
        return frame
    identity = ["task", "model", "setting", "trajectories", "seed"] + (HYPER if search else [])
    frame = frame.sort_values(["episodes", "created"], kind="stable").drop_duplicates(identity, keep="last")
    return frame.sort_values(["setting", "task", "trajectories", "model", "seed"]).reset_index(drop=True)


@dataclass(frozen=True)
class Interval:
    """Hold a mean, the standard deviation over seeds, and a 95% interval of the mean."""

    mean: float
    sd: float
    low: float
    high: float
    count: int


def interval(values: np.ndarray) -> Interval:
    """Return Student's 95% interval of a mean over seeds, without bounds for a single seed."""
    values = np.asarray(values, dtype=float)
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Interval(mean, 0.0, -math.inf, math.inf, n)
    sd = float(np.std(values, ddof=1))
    half = student(n - 1) * sd / math.sqrt(n)
    return Interval(mean, sd, mean - half, mean + half, n)


def difference(first: np.ndarray, second: np.ndarray) -> Interval:
    """Return mean(first) - mean(second) with Welch's 95% interval: seeds of the two models are separate runs."""
    a, b = interval(first), interval(second)
    if a.count < 2 or b.count < 2:
        return Interval(a.mean - b.mean, 0.0, -math.inf, math.inf, min(a.count, b.count))
    va, vb = a.sd**2 / a.count, b.sd**2 / b.count
    total = va + vb
    freedom = (
        total**2 / (va**2 / (a.count - 1) + vb**2 / (b.count - 1)) if total > 0 else a.count + b.count - 2
    )
    half = student(freedom) * math.sqrt(total)
    gap = a.mean - b.mean
    return Interval(gap, math.sqrt(total), gap - half, gap + half, min(a.count, b.count))


def student(freedom: float) -> float:
    """Return the 97.5% point of Student's t."""
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))


def verdict(gap: Interval) -> str:
    """Return which model is better beyond the noise of the seeds."""
    if gap.low > 0:
        return "pairwise"
    return "unary" if gap.high < 0 else "tie"


def comparison(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one line per (setting, task, trajectories) with both models, their intervals and the difference."""
    lines = []
    for (setting, task, count), part in frame.groupby(["setting", "task", "trajectories"], sort=True):
        by = dict(list(part.groupby("model")))
        line: dict[str, Any] = {"setting": setting, "task": task, "trajectories": count}
        for model, one in by.items():
            got = interval(one["return"].to_numpy())
            line |= {
                f"{model}_mean": got.mean,
                f"{model}_sd": got.sd,
                f"{model}_low": got.low,
                f"{model}_high": got.high,
                f"{model}_seeds": got.count,
                f"{model}_episodes": int(one["episodes"].min()),
                f"{model}_normalised": float(one["normalised"].mean()),
            }
        line |= {"expert": float(part["expert"].iloc[0]), "random": float(part["random"].iloc[0])}
        if set(by) >= {"unary", "pairwise"}:
            gap = difference(by["pairwise"]["return"].to_numpy(), by["unary"]["return"].to_numpy())
            line |= {"gap": gap.mean, "gap_low": gap.low, "gap_high": gap.high, "better": verdict(gap)}
        lines.append(line)
    return pd.DataFrame(lines)
