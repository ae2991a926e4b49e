"""Answer each question from the rows: every answer is computed, none is written by hand."""

from __future__ import annotations

import pandas as pd

from reports.answers.imitation import comparison

WANTED = 0.9  # normalised score of the tuned pairwise model asked for on these tasks
WANTED_ON = ("Hopper-v5", "Walker2d-v5", "Ant-v5")
OVERHEAD = 0.3  # how much of the evaluation the inner solve may add
MOST = 11


def lines(frame: pd.DataFrame) -> list[str]:
    """Return one sentence per (setting, task, trajectories): both models, their difference and its interval."""
    said = []
    for row in comparison(frame).to_dict("records"):
        models = [
            f"{m} {row[f'{m}_mean']:.0f} ± {row[f'{m}_sd']:.0f} ({row[f'{m}_normalised']:.3f})"
            for m in ("unary", "pairwise")
            if row.get(f"{m}_mean") == row.get(f"{m}_mean") and f"{m}_mean" in row
        ]
        count = f"{row['trajectories']} {'trajectory' if row['trajectories'] == 1 else 'trajectories'}"
        text = f"{row['task']}, {count}, {row['setting']}: {', '.join(models)}"
        if isinstance(row.get("better"), str):
            bounds = f"[{row['gap_low']:+.0f}, {row['gap_high']:+.0f}]"
            text += f"; difference {row['gap']:+.0f} {bounds}: {row['better']}"
        said.append(text)
    return said


def lead(frame: pd.DataFrame) -> str:
    """Return what the experiment shows, in three sentences; fewer where a comparison has no rows."""
    said = []
    for setting, where in (
        ("paper", "At the paper's settings"),
        ("tuned", "Where both models are tuned alike"),
    ):
        table = _both(frame, setting)
        if len(table):
            ahead = int((table["gap"] >= 0).sum())
            sure, lost = (table[table["better"] == who]["task"].tolist() for who in ("pairwise", "unary"))
            said.append(
                f"{where}, with {MOST} trajectories, the pairwise model's mean return is at least the unary one's on "
                f"{ahead} of {len(table)} tasks, and beyond the 95 % interval it is better on {_names(sure)} and worse "
                f"on {_names(lost)}" + (" (the paper: better on 3 of 4)." if setting == "paper" else ".")
            )
    part = frame[
        (frame["setting"] == "tuned") & (frame["trajectories"] == MOST) & (frame["model"] == "pairwise")
    ]
    scores = part.groupby("task")["normalised"].mean()
    if len(scores):
        each = ", ".join(f"{score:.0%} on {task}" for task, score in scores.items())
        said.append(f"The tuned pairwise model reaches {each} of the way from random actions to the expert.")
    return " ".join(said)


def origin(frame: pd.DataFrame) -> str:
    """Return a sentence on the rows from a checkout with uncommitted changes; it is empty without rows."""
    if frame.empty:
        return ""
    dirty = frame[frame["dirty"] != 0]
    if dirty.empty:
        return "All rows come from clean commits."
    clean = frame[frame["dirty"] == 0]
    commits = ", ".join(sorted({str(commit)[:8] for commit in dirty["commit"]}))
    text = (
        f"{len(dirty)} of these {len(frame)} rows come from a checkout with changes that are in no commit (on top of "
        f"{commits}), so that nobody can run exactly their code again"
    )
    if clean.empty:
        return text + "."
    cells = clean.groupby(["setting", "task", "trajectories", "model"]).size().index
    named = "; ".join(f"{task} {model} {setting} {count}" for setting, task, count, model in cells)
    return f"{text}; from a clean commit are (task, model, setting, trajectories): {named}."


def findings(frame: pd.DataFrame) -> list[str]:
    """Return the questions of the experiment and what the stored rows answer."""
    return [*_paper(frame), *_tuned(frame), *_overhead(frame), *_steps(frame)]


def _both(frame: pd.DataFrame, setting: str) -> pd.DataFrame:
    part = frame[(frame["setting"] == setting) & (frame["trajectories"] == MOST)]
    table = comparison(part) if len(part) else part
    return table[table["better"].notna()] if "better" in table else table.iloc[:0]


def _paper(frame: pd.DataFrame) -> list[str]:
    table = _both(frame, "paper")
    if table.empty:
        return []
    ahead = table[table["gap"] >= 0]["task"].tolist()
    sure = table[table["better"] == "pairwise"]["task"].tolist()
    lost = table[table["better"] == "unary"]["task"].tolist()
    return [
        f"- Does pairwise beat unary at the paper's settings ({MOST} trajectories)? Its mean is at least as "
        f"high on {len(ahead)} of {len(table)} tasks ({_names(ahead)}); beyond the 95% interval it is better "
        f"on {_names(sure)} and worse on {_names(lost)}. The paper reports an improvement on 3 of 4."
    ]


def _tuned(frame: pd.DataFrame) -> list[str]:
    said = []
    table = _both(frame, "tuned")
    if len(table):
        sure = table[table["better"] == "pairwise"]["task"].tolist()
        lost = table[table["better"] == "unary"]["task"].tolist()
        said.append(
            f"- And when both are tuned alike? Pairwise is better beyond the interval on {_names(sure)}, "
            f"unary on {_names(lost)}, of {len(table)} tasks."
        )
    part = frame[
        (frame["setting"] == "tuned") & (frame["trajectories"] == MOST) & (frame["model"] == "pairwise")
    ]
    scores = part.groupby("task")["normalised"].mean()
    if len(scores):
        met = [task for task in WANTED_ON if scores.get(task, 0.0) >= WANTED]
        each = ", ".join(f"{task} {score:.3f}" for task, score in scores.items())
        absent = [task for task in WANTED_ON if task not in scores]
        said.append(
            f"- Does the tuned pairwise model reach {WANTED:.0%} of the expert on {_names(list(WANTED_ON))} "
            f"({MOST} trajectories)? On {_names(met)}. Normalised scores: {each}."
            + (f" Not run yet: {_names(absent)}." if absent else "")
        )
    return said


def overhead(frame: pd.DataFrame) -> dict[str, float]:
    """Return per task the pairwise policy's extra time per step, as a part of the unary model's whole evaluation.

    Medians over cells, at the paper's settings: one cell timed while others worked would say little.
    """
    part = frame[frame["setting"] == "paper"]
    steps = part["runs"] * part["episodes"] * part["length"]
    timed = part.assign(
        policy=part["policy_s"] / steps, whole=(part["policy_s"] + part["simulation_s"]) / steps
    )
    cost = timed.groupby(["task", "model"])[["policy", "whole"]].median()
    found = {}
    for task in part["task"].unique():
        if (task, "unary") in cost.index and (task, "pairwise") in cost.index:
            unary, pairwise = cost.loc[(task, "unary")], cost.loc[(task, "pairwise")]
            found[str(task)] = float((pairwise["policy"] - unary["policy"]) / unary["whole"])
    return found


def _overhead(frame: pd.DataFrame) -> list[str]:
    found = overhead(frame)
    if not found:
        return []
    each = ", ".join(f"{task} {share:+.1%}" for task, share in found.items())
    verdict = "within" if max(found.values()) <= OVERHEAD else "beyond"
    return [f"- What does the inner solve add to the evaluation's time? {each}: {verdict} {OVERHEAD:.0%}."]


def _steps(frame: pd.DataFrame) -> list[str]:
    counts = frame.groupby("setting")[["episodes", "steps"]].agg(["min", "max"])
    each = []
    for setting, row in counts.iterrows():
        low, high = row["episodes", "min"], row["episodes", "max"]
        episodes = f"{low}" if low == high else f"{low} to {high}"
        each.append(f"{setting}: {episodes} episodes per seed, {row['steps', 'max']} training steps")
    return [
        f"- How much was run? {'; '.join(each)}. The paper's protocol is 10 seeds of 100 episodes: "
        "`gfy reproduce imitation`, which takes up the stored rows and policies and does what is missing."
    ]


def _names(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
