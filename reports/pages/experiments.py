"""The paper's experiments beside its numbers: multilabel tables and imitation, from their CSV files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from bench.store import RecordsError
from reports.answers.tables import Cell, Table

MULTILABEL = ("table", "dataset", "energy", "loss", "gradient", "accuracy", "sd", "paper", "seconds")
IMITATION = ("task", "model", "setting", "trajectories", "seed", "episodes", "return", "sd", "normalised")
TITLES = {
    "energies": "Multilabel accuracy (%) by energy",
    "gradients": "Multilabel accuracy (%) by gradient mode",
    "losses": "Multilabel accuracy (%) by loss",
}


@dataclass
class Experiments:
    """Experiment results at hand; empty frames where there are none."""

    multilabel: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(MULTILABEL)))
    imitation: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(IMITATION)))


def split(results: list[Path]) -> tuple[list[Path], Experiments]:
    """Tell result stores from experiment tables, also those lying beside a store under their usual names."""
    stores, found = [], Experiments()
    beside = [r.parent / name for r in results for name in ("multilabel.csv", "imitation.csv")]
    for path in dict.fromkeys([*results, *(b for b in beside if b.is_file())]):
        kind = _kind(path)
        if kind == "multilabel":
            found.multilabel = _joined(found.multilabel, path)
        elif kind == "imitation":
            found.imitation = _joined(found.imitation, path)
        else:
            stores.append(path)
    return stores, found


def _joined(known: pd.DataFrame, path: Path) -> pd.DataFrame:
    more = pd.read_csv(path)
    return pd.concat([known, more], ignore_index=True) if len(known) else more


def _kind(path: Path) -> str:
    if path.suffix.lower() != ".csv" or not path.is_file():
        return "rows"
    try:
        columns = set(pd.read_csv(path, nrows=0).columns)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise RecordsError(f"{path} cannot be read as CSV ({error}).") from error
    if set(MULTILABEL) <= columns:
        return "multilabel"
    return "imitation" if set(IMITATION) <= columns else "rows"


def multilabel_tables(data: pd.DataFrame) -> list[Table]:
    """One table a table of the paper: ours, with the paper's figure in brackets; best of ours in bold."""
    out = []
    for name, part in data.groupby("table", sort=False):
        datasets = list(dict.fromkeys(part["dataset"]))
        model = part["energy"] + ", " + part["loss"] + ", " + part["gradient"]
        top = part.groupby("dataset")["accuracy"].max()
        cells = []
        for label, lines in part.groupby(model, sort=False):
            cells.append(
                [Cell(str(label)), *(_accuracy(lines[lines["dataset"] == d], top[d]) for d in datasets)]
            )
        title = TITLES.get(str(name), f"Multilabel accuracy (%), {name}")
        note = "mean and standard deviation over seeds; the paper's figure in brackets"
        columns = ["energy, loss, gradient", *datasets]
        out.append(Table(f"multilabel-{name}", title, columns, cells, note, [False] + [True] * len(datasets)))
    return out


def _accuracy(line: pd.DataFrame, top: float) -> Cell:
    if line.empty:
        return Cell("-")
    row = line.iloc[0]
    text = f"{row['accuracy']:.2f}" + (f" ± {row['sd']:.2f}" if pd.notna(row["sd"]) else "")
    text += f" ({row['paper']:.2f})" if pd.notna(row["paper"]) else ""
    return Cell(
        text,
        bool(row["accuracy"] == top),
        rows=(f"multilabel-{line.index[0]}",),
        value=float(row["accuracy"]),
    )


def imitation_table(data: pd.DataFrame) -> Table | None:
    """Mean and deviation over seeds of each model, setting and number of trajectories."""
    if data.empty:
        return None
    keys = ["task", "setting", "trajectories", "model"]
    grouped = data.groupby(keys, sort=True)
    top = grouped["normalised"].mean().groupby(level=[0, 1, 2]).max()
    cells = []
    for key, part in grouped:
        mean, sd, number = part["normalised"].mean(), part["normalised"].std(ddof=1), part["seed"].nunique()
        rows = tuple(f"imitation-{i}" for i in part.index)
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
