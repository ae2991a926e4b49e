"""Write the imitation experiment in words and numbers: a Markdown page, a CSV file and a figure from stored rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from reports.answers.imitation import COLUMNS, comparison, seeds_frame
from reports.answers.tables import Cell, Table
from reports.data.sources import writing
from reports.pages.imitation_findings import findings, lead, origin

TITLES = {"paper": "At the paper's settings", "tuned": "Both models tuned on the same grid"}


def page(frame: pd.DataFrame, search: pd.DataFrame) -> str:
    """Return the whole page; `frame` and `search` come from `answers.imitation.seeds_frame`."""
    parts = [
        "# Imitation learning",
        "",
        *([lead(frame), ""] if len(frame) and lead(frame) else []),
        INTRODUCTION,
        "",
        "Written by `gfy reproduce imitation` from stored rows (`imitation.sqlite`).",
        "",
    ]
    if len(frame):
        parts += ["## What it shows", "", *findings(frame), "", origin(pd.concat([frame, search])), ""]
    table = comparison(frame) if len(frame) else None
    for setting, title in TITLES.items():
        if table is None or not (table["setting"] == setting).any():
            parts += [f"## {title}", "", "No rows yet.", ""]
            continue
        part = table[table["setting"] == setting]
        parts += [f"## {title}", "", *_settings(frame, setting), "", *_table(part), "", *_verdict(part), ""]
    parts += ["## What differs from the paper", "", *_differences(frame), ""]
    if len(search):
        parts += ["## The search", "", *_search(search), "", *_searched(search)]
    if len(frame):
        parts += ["## Where the time went", "", *_times(frame, search), ""]
    return "\n".join(parts).rstrip() + "\n"


INTRODUCTION = (
    "Behaviour cloning in gymnasium's MuJoCo tasks with a unary and a pairwise energy, the paper's second "
    "experiment. Each seed is one training run and its return the mean over its episodes; mean, standard "
    "deviation and 95% intervals (Student; Welch for differences) are over seeds, and every seed counts. The "
    "normalised score is 0 for uniform random actions and 1 for the mean of the demonstrations."
)


def _differences(frame: pd.DataFrame) -> list[str]:
    most = (
        f"{frame['steps'].max()} steps of {frame['batch'].max()} examples" if len(frame) else "equal numbers"
    )
    return [
        "- The demonstrations are of other experts (see the data's own notes); their returns are near the paper's.",
        "- The environments are gymnasium's v5, not v2; Ant is observed without contact forces (27 numbers).",
        "- The paper gives neither the number of training steps nor the batch size nor the initialisation: here "
        f"{most} for both models (unless the table says otherwise), Glorot-uniform weights.",
        "- The paper's rate for pairwise is a fifth of its rate for unary, so that at an equal number of steps the "
        "pairwise model is trained less far; its wider layers pull the other way. The tuned comparison has neither.",
        "- The search here is per task, on the grid below; its seeds are not among those reported.",
    ]


def _searched(search: pd.DataFrame) -> list[str]:
    """Return the sentence on what `--grid wide` would search and no row has tried, and nothing where all has rows."""
    missing = [
        f"{what} ({', '.join(without)})"
        for what, tried in (
            ("layers of 256 units", search["hidden"] >= 256),
            ("weight decay", search["l2"] > 0),
            ("noise on the observations", search["noise"] > 0),
        )
        if (without := sorted(set(search["task"]) - set(search.loc[tried, "task"])))
    ]
    return [f"Searched by `--grid wide`, and not run here: {'; '.join(missing)}.", ""] if missing else []


def _settings(frame: pd.DataFrame, setting: str) -> list[str]:
    part = frame[frame["setting"] == setting]
    if setting == "paper":
        first = part.sort_values("model", ascending=False).drop_duplicates("model")
        return [
            f"- {s.model}: rate {s.rate:g}, {s.hidden} hidden units, energy scale {s.gamma:g}, l2 {s.l2:g}"
            for s in first.itertuples()
        ]
    lines = ["| task | model | rate | hidden | energy scale | l2 | noise |", "|---|---|---|---|---|---|---|"]
    keys = ["task", "model", "rate", "hidden", "gamma", "l2", "noise"]
    for row in part[keys].drop_duplicates().itertuples(index=False):
        lines.append(
            f"| {row.task} | {row.model} | {row.rate:g} | {row.hidden} | {row.gamma:g} | {row.l2:g} | {row.noise:g} |"
        )
    return lines


def _table(part: pd.DataFrame) -> list[str]:
    lines = [
        "| task | trajectories | unary | pairwise | pairwise - unary [95%] | better "
        "| normalised: unary, pairwise | expert, random | seeds x episodes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in part.to_dict("records"):
        cells = [
            row["task"],
            str(row["trajectories"]),
            _mean(row, "unary"),
            _mean(row, "pairwise"),
            f"{row['gap']:+.0f} [{row['gap_low']:+.0f}, {row['gap_high']:+.0f}]"
            if _there(row, "gap")
            else "-",
            row["better"] if _there(row, "gap") else "-",
            ", ".join(
                f"{row[f'{m}_normalised']:.3f}" if _there(row, f"{m}_mean") else "-"
                for m in ("unary", "pairwise")
            ),
            f"{row['expert']:.0f}, {row['random']:.0f}",
            ", ".join(
                f"{row[f'{m}_seeds']:.0f} x {row[f'{m}_episodes']:.0f}"
                for m in ("unary", "pairwise")
                if _there(row, f"{m}_mean")
            ),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _there(row: dict[str, Any], name: str) -> bool:
    value = row.get(name)
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _mean(row: dict[str, Any], model: str) -> str:
    if not _there(row, f"{model}_mean"):
        return "-"
    return f"{row[f'{model}_mean']:.0f} ± {row[f'{model}_sd']:.0f}"


def _verdict(part: pd.DataFrame) -> list[str]:
    """Return what the rows with the most trajectories show, task by task."""
    if "better" not in part:
        return []
    both = part[part["better"].notna()]
    lines = []
    for count, group in both.groupby("trajectories"):
        names = {
            who: sorted(group.loc[group["better"] == who, "task"]) for who in ("pairwise", "unary", "tie")
        }
        ahead = int((group["gap"] >= 0).sum())
        said = [f"{who}: {', '.join(tasks)}" for who, tasks in names.items() if tasks]
        lines.append(
            f"- {count} trajectories: the pairwise mean is at or above the unary one on {ahead} of "
            f"{len(group)} tasks; better beyond the 95% interval (tie: neither): {'; '.join(said)}."
        )
    return lines


def _search(search: pd.DataFrame) -> list[str]:
    keys = ["task", "model", "rate", "hidden", "gamma", "l2", "noise"]
    means = search.groupby(keys, as_index=False)["return"].mean()
    lines = [
        f"Mean return of {search['seed'].nunique()} seeds on {search['trajectories'].iloc[0]} trajectories, "
        f"{search['episodes'].min()} episodes each, seeds apart from those reported above; best in bold.",
        "",
        "| task | model | rate | hidden | energy scale | l2 | noise | return |",
        "|---|---|---|---|---|---|---|---|",
    ]
    best = means.groupby(["task", "model"])["return"].transform("max")
    for row, top in zip(means.to_dict("records"), best, strict=True):
        value = f"**{row['return']:.0f}**" if row["return"] == top else f"{row['return']:.0f}"
        lines.append(
            f"| {row['task']} | {row['model']} | {row['rate']:g} | {row['hidden']} | {row['gamma']:g} "
            f"| {row['l2']:g} | {row['noise']:g} | {value} |"
        )
    return lines


def _times(frame: pd.DataFrame, search: pd.DataFrame) -> list[str]:
    programs = pd.concat([frame, search]).drop_duplicates(["train_s", "evaluation_s"])
    hours = (programs["train_s"] + programs["evaluation_s"]).sum() / 3600
    lines = [
        "Seconds of the program that trains and evaluates all runs of a cell together, by the clock; policy is the "
        "network and the inner solve of every step, simulation is MuJoCo. Load is the cores that others kept busy, "
        f"another cell beside this one (`--jobs`) among them. All {len(programs)} programs, the search's too: "
        f"{hours:.1f} hours if one came after the other.",
        "",
        "| setting | task | trajectories | model | runs | training | policy | simulation | policy share "
        "| load |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = ["setting", "task", "trajectories", "model"]
    for (setting, task, count, model), part in frame.groupby(keys):
        row = part.iloc[-1]
        share = row["policy_s"] / (row["policy_s"] + row["simulation_s"])
        lines.append(
            f"| {setting} | {task} | {count} | {model} | {row['runs']} | {row['train_s']:.0f} "
            f"| {row['policy_s']:.1f} | {row['simulation_s']:.1f} | {share:.1%} | {row['load']:.1f} |"
        )
    return lines


def imitation_table(seeds: pd.DataFrame) -> Table | None:
    """Return mean and deviation over seeds of each model, setting and number of trajectories; None without rows."""
    if seeds.empty:
        return None
    keys = ["task", "setting", "trajectories", "model"]
    grouped = seeds.groupby(keys, sort=True)
    top = grouped["normalised"].mean().groupby(level=[0, 1, 2]).max()
    cells = []
    for key, part in grouped:
        mean, sd, number = part["normalised"].mean(), part["normalised"].std(ddof=1), part["seed"].nunique()
        rows = tuple(part["id"])
        spread = f" ± {sd:.3f}" if pd.notna(sd) else ""
        cells.append(
            [*(Cell(str(k)) for k in key), Cell(f"{part['return'].mean():,.0f}", rows=rows),
             Cell(f"{mean:.3f}{spread}", bool(mean == top[key[:3]]), rows=rows, value=float(mean)),
             Cell(str(number))]
        )  # fmt: skip
    columns = ["task", "setting", "trajectories", "model", "return", "normalised", "seeds"]
    note = "normalised: 0 is a random policy, 1 the expert; mean and standard deviation over seeds"
    numeric = [False, False, True, False, True, True, True]
    return Table("imitation", "Imitation learning", columns, cells, note, numeric)


def write_imitation(stored: pd.DataFrame, folder: Path) -> list[Path]:
    """Write imitation.csv and .md, and with rows the figure as .svg and .png, into a folder; return the files."""
    from reports.figures import base, imitation

    frame, search = seeds_frame(stored), seeds_frame(stored, search=True)
    paths = {suffix: folder / f"imitation{suffix}" for suffix in (".csv", ".md", ".svg", ".png")}
    with writing(folder):
        rounded = frame[COLUMNS].round({"return": 2, "sd": 2, "normalised": 4})
        rounded.to_csv(paths[".csv"], index=False, lineterminator="\n")
        paths[".md"].write_text(page(frame, search), encoding="utf-8")
        with base.style():
            drawn = imitation.draw(frame)
        if drawn is None:
            return [paths[".csv"], paths[".md"]]
        base.save_picture(drawn, folder)
    return list(paths.values())
