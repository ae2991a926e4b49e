"""Arrange the stored trainings of the multilabel experiment as lines of the paper's three tables, and its studies.

A table's lines follow from the rows: energies under one loss and gradient, gradients of one energy and loss, losses of
one energy. Rows of an earlier protocol, or of a shorter run than the longest one stored, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bench.store import RecordsError
from reports.data.labels import parsed

COLUMNS = ("table", "dataset", "energy", "loss", "gradient", "accuracy", "sd", "paper", "seconds")
TABLES = ("energies", "gradients", "losses")
STUDIES = ("significance", "tolerance", "time", "gain", "recipe", "finalists")
# How the paper orders its lines and its columns; what is not named here comes after.
ENERGIES = ("unary-linear", "unary-rectifier", "pairwise", "spen", "concave-spen")
LOSSES = ("gfy", "energy", "cross_entropy", "perceptron")
DATASETS = ("yeast", "scene", "birds", "emotions", "cal500", "mediamill-reduced")
OURS = ("pairwise", "gfy", "envelope")
# What is told of the predictions beside the paper's accuracy, as fractions in the rows and in % here.
MEASURES = ("micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming")


@dataclass(frozen=True)
class Effort:
    """Say how much was spent on every cell of the tables."""

    epochs: int
    batch: int
    penalties: int
    rates: int
    seeds: int
    decay: bool
    finalists: int = 0  # settings on which all seeds vote; 0 where each seed voted on every setting

    @property
    def settings(self) -> int:
        return self.penalties * self.rates

    @property
    def short(self) -> bool:
        """Return whether it is less than the paper's grid of 5 penalties by 10 rates and its 3 seeds."""
        return self.penalties < 5 or self.rates < 10 or self.seeds < 3


def trained(frame: pd.DataFrame) -> tuple[pd.DataFrame, Effort | None]:
    """Return the good rows of the newest protocol and the largest effort, one per cell, and that effort."""
    rows = frame[
        (frame["kind"] == "multilabel") & (frame["family"] == "multilabel") & (frame["status"] == "ok")
    ].sort_values("created", kind="stable")
    if rows.empty:
        return rows, None
    params = rows["problem_params"].map(parsed)
    protocols = params.map(_protocol)
    latest = max(
        reversed(protocols.tolist()), key=lambda one: one[0]
    )  # of several written ones the last used
    newest = protocols.map(lambda one: one == latest)
    rows, params = rows[newest], params[newest]
    efforts = [_effort(p, int(b)) for p, b in zip(params, rows["batch"], strict=True)]
    most = max(efforts, key=lambda e: (e.epochs * e.settings * e.seeds, e.epochs))
    rows = rows[[e == most for e in efforts]]
    return rows.drop_duplicates(["problem", "energy", "loss", "gradient"], keep="last"), most


def _protocol(params: dict[str, Any]) -> tuple[float, str]:
    """Return what a row was made under: the digest of a written protocol, or before there was one the
    recipe's number."""
    if "protocol" in params:
        return float("inf"), str(params["protocol"])
    return float(params["recipe"]) if isinstance(params.get("recipe"), int) else 0.0, ""


def _effort(params: dict[str, Any], batch: int) -> Effort:
    numbers = (params["epochs"], batch, params["penalties"], params["rates"], len(params["seeds"]))
    return Effort(*numbers, bool(params["decay"]), int(params.get("finalists", 0)))


def lines(
    frame: pd.DataFrame, datasets: Sequence[str] = (), tables: Sequence[str] = ()
) -> tuple[pd.DataFrame, Effort | None]:
    """Return one line per table, model and dataset, in the paper's order; all stored lines where nothing is named.

    Args:
        frame: Rows of a store, or tidy rows.
        datasets: Only these; all where empty.
        tables: Only these of `TABLES`; all where empty.

    Returns:
        The lines (`COLUMNS`, then `MEASURES`, difference, held_out, penalty, rate, inner_gap, votes, the row's id) and
        the effort spent on each; None where there are no rows.
    """
    rows, effort = trained(frame)
    if datasets:
        rows = rows[rows["problem"].isin(datasets)]
    found = [
        _line(table, row)
        for table in (tables or TABLES)
        for row in sorted(rows[_belongs(rows, table)].to_dict("records"), key=_place)
    ]
    names = [
        *COLUMNS,
        *MEASURES,
        "difference",
        "held_out",
        "penalty",
        "rate",
        "inner_gap",
        "votes",
        "id",
    ]
    return pd.DataFrame(found, columns=names), effort


def _belongs(rows: pd.DataFrame, table: str) -> pd.Series:
    of_loss, plain = rows["loss"] == "gfy", rows["gradient"] == "envelope"
    if table == "energies":
        return of_loss & plain
    if table == "gradients":
        several = rows[of_loss].groupby("energy")["gradient"].nunique()
        return of_loss & rows["energy"].isin(several[several > 1].index)
    several = rows.groupby("energy")["loss"].nunique()
    return rows["energy"].isin(several[several > 1].index) & (plain | ~of_loss)


def _at(name: str, order: tuple[str, ...]) -> tuple[int, str]:
    return order.index(name) if name in order else len(order), name


def _of_dataset(row: dict[str, Any]) -> tuple[int, str]:
    return _at(row["problem"], DATASETS)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the place of a row in a table: by energy, loss, gradient and dataset."""
    return (_at(row["energy"], ENERGIES), _at(row["loss"], LOSSES), row["gradient"], _of_dataset(row))


def _line(table: str, row: dict[str, Any]) -> dict[str, Any]:
    extra = parsed(row["extra"])
    paper = row["score_paper"] if pd.notna(row["score_paper"]) else None
    return {
        "table": table,
        "dataset": row["problem"],
        "energy": row["energy"],
        "loss": row["loss"],
        "gradient": row["gradient"],
        "accuracy": round(row["score"], 3),
        "sd": round(row["score_sd"], 3),
        "paper": paper,
        "seconds": round(extra["seconds"], 1),
        **{name: _percent(extra.get("metrics") or {}, name) for name in MEASURES},
        "difference": None if paper is None else round(row["score"] - paper, 2),
        "held_out": round(extra["held_out_accuracy"], 2),
        "penalty": extra["chosen"]["penalty"],
        "rate": extra["chosen"]["rate"],
        "inner_gap": row["gap"] if row["concave"] else None,
        "votes": (extra.get("training") or {}).get("selection"),
        "id": row.get("id", row["key"]),
    }


def _percent(measured: dict[str, Any], name: str) -> float | None:
    return round(100 * measured[name], 3) if name in measured else None


def seeds(frame: pd.DataFrame, datasets: Sequence[str] = ()) -> pd.DataFrame:
    """Return one line per cell and seed: its test accuracy and the other measures, in %."""
    rows, _ = trained(frame)
    rows = rows[rows["problem"].isin(datasets)] if datasets else rows
    found = [
        {"dataset": row["problem"], "energy": row["energy"], "loss": row["loss"], "gradient": row["gradient"],
         "seed": one["seed"], **{name: _percent(one, name) for name in ("accuracy", *MEASURES)}, "row": row["key"]}
        for row in sorted(rows.to_dict("records"), key=_place)
        for one in parsed(row["extra"]).get("seeds", [])
    ]  # fmt: skip
    names = ["dataset", "energy", "loss", "gradient", "seed", "accuracy", *MEASURES, "row"]
    return pd.DataFrame(found, columns=names)


def study(frame: pd.DataFrame, name: str, datasets: Sequence[str] = ()) -> pd.DataFrame:
    """Return the lines of one study, the newest of each variant and dataset."""
    if name == "significance":
        return significance(frame, datasets)
    rows = frame[frame["kind"].isin(["multilabel", "training"]) & (frame["family"] == f"multilabel-{name}")]
    rows = rows[rows["problem"].isin(datasets)] if datasets else rows
    rows = rows.sort_values("created", kind="stable")
    rows = rows.assign(variant=rows["problem_params"].map(lambda text: parsed(text).get("variant")))
    rows = rows.drop_duplicates(["problem", "energy", "variant"], keep="last")
    told = [
        (row["problem"], parsed(row["extra"])) for row in sorted(rows.to_dict("records"), key=_of_dataset)
    ]
    return pd.DataFrame(
        [{"dataset": name} | {k: v for k, v in x.items() if k != "curve"} for name, x in told]
    )


def significance(frame: pd.DataFrame, datasets: Sequence[str] = ()) -> pd.DataFrame:
    """Compare pairwise with the GFY loss and envelope gradients against every other cell of its dataset."""
    rows, effort = trained(frame)
    found: list[dict[str, Any]] = []
    if effort is None:
        return pd.DataFrame(found)
    for dataset in sorted(rows["problem"].unique(), key=lambda name: _at(name, DATASETS)):
        if datasets and dataset not in datasets:
            continue
        right = {}
        for row in sorted(rows[rows["problem"] == dataset].to_dict("records"), key=_place):
            decisions = np.array(parsed(row["extra"])["right_decisions"], dtype=float)
            right[row["energy"], row["loss"], row["gradient"]] = (
                100 * decisions / (int(row["k"]) * effort.seeds)
            )
        for cell, scores in right.items():
            if cell != OURS and OURS in right:
                test = {k: round(v, 5) for k, v in paired_bootstrap(right[OURS], scores).items()}
                named = dict(zip(("energy", "loss", "gradient"), cell, strict=True))
                found.append({"dataset": dataset, **named, **test})
    return pd.DataFrame(found)


def paired_bootstrap(a: np.ndarray, b: np.ndarray, draws: int = 10_000, seed: int = 0) -> dict[str, float]:
    """Test whether the mean of a is above that of b, example by example; a, b [n] are scores of the same examples.

    Returns the mean difference, its 95% interval, and how often a resampled difference is not above zero.
    """
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise RecordsError(f"paired scores must be two lists of one length; got {a.shape} and {b.shape}")
    difference = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    rng = np.random.default_rng(seed)
    means = np.concatenate([
        difference[rng.integers(0, len(difference), size=(chunk, len(difference)))].mean(axis=1)
        for chunk in [500] * (draws // 500) + ([draws % 500] if draws % 500 else [])
    ])  # fmt: skip
    low, high = np.percentile(means, [2.5, 97.5])
    return {
        "difference": float(difference.mean()),
        "low": float(low),
        "high": float(high),
        "p_value": float((1 + (means <= 0).sum()) / (1 + draws)),
    }
