"""Compare the recipe of the multilabel tables with its alternatives, one after another, on held-out examples.

The paper leaves the schedule, the epochs, the first draws and the prior's width open. Each trial here changes one
of them, trains the whole grid on the fitted part and keeps the best held-out accuracy; no test part is read. One
choice holds for all datasets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.datasets.load import load
from bench.experiments.common import fill as common
from bench.experiments.common.training import Recipe
from bench.experiments.multilabel.cells import Cell, Effort
from bench.experiments.multilabel.protocol import select
from bench.measure.clock import Stopwatch
from bench.plan import matrix
from bench.store import Store, key_of

DATASETS = ("yeast", "birds", "emotions")
# This is part of a trial's identity; it is raised when the training changes in a way that no other field shows.
RECIPE = 3


@dataclass(frozen=True)
class Trial:
    """Describe one deviation from the recipe in use; empty changes are the recipe itself."""

    energy: str
    choice: str
    effort: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    gain: float = 1.0

    def columns(self, dataset: str, effort: Effort) -> dict[str, Any]:
        """Return what identifies the trial in the store; a changed trial needs another name."""
        spent = asdict(replace(effort, **self.effort))
        return {
            "kind": "multilabel",
            "problem": dataset,
            "family": "multilabel-recipe",
            "energy": self.energy,
            "regularizer": "gini",
            "batch": spent.pop("batch"),
            "loss": "gfy",
            "gradient": "envelope",
            "problem_params": {"study": "recipe", "variant": self.choice, "recipe": RECIPE, **spent},
        }

    def changed(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the trial's changes; the width of the unary network stands for min(100, d / 3)."""
        model = {name: getattr(recipe.model, v) if v == "hidden" else v for name, v in self.model.items()}
        return replace(recipe, model=replace(recipe.model, **model), **self.recipe)


TRIALS = (
    Trial("unary-rectifier", "as used"),
    Trial("unary-rectifier", "constant rate", {"decay": False}),
    Trial("pairwise", "as used"),
    Trial("pairwise", "constant rate", {"decay": False}),
    Trial("pairwise", "200 epochs", {"epochs": 200}),
    Trial("pairwise", "interaction drawn 3 times as large", gain=3.0),
    Trial("spen", "as used"),
    Trial("spen", "constant rate", {"decay": False}),
    Trial("spen", "prior starts at zero", model={"prior_start": "zero"}),
    Trial("spen", "prior starts with both signs", model={"prior_start": "signed"}),
    Trial("spen", "prior of min(100, d / 3) units", model={"prior_units": "hidden"}),
    Trial("spen", "48 inner steps", recipe={"max_steps": 48}),
    Trial("concave-spen", "as used"),
    Trial("concave-spen", "prior of min(100, d / 3) units", model={"prior_units": "hidden"}),
)


def settle(
    store: Store,
    datasets: Sequence[str],
    effort: Effort,
    data_dir: Path | None,
    say: Callable[[str], None],
    trials: Sequence[Trial] = TRIALS,
) -> list[dict[str, Any]]:
    """Measure the trials that are not stored yet; one line per trial and dataset."""
    asked = {key_of(t.columns(name, effort)): (t, name) for name in datasets for t in trials}
    rows = {key: store.get(key) for key in asked}
    groups = [
        matrix.Group(f"{name} {t.energy} {t.choice}", (part,), common.SETTINGS)
        for key, (t, name) in asked.items()
        if (row := rows[key]) is None or row["status"] != "ok"
        for part in [matrix.Cell(t.columns(name, effort), work=partial(_row, t, name, effort, data_dir))]
    ]

    def done(cell: matrix.Cell, row: dict[str, Any]) -> None:
        trial, name = asked[cell.name]
        what = row["reason"] if row["status"] != "ok" else f"held-out accuracy {row['score']:.2f} %"
        say(f"{name}: {trial.energy}, {trial.choice}: {what}")

    common.fill(store, groups, done, say=say)
    found = [store.get(key) for key in asked]
    return [json.loads(row["extra"]) for row in found if row is not None and row["status"] == "ok"]


def _row(
    trial: Trial, dataset: str, effort: Effort, data_dir: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return the columns of one trial."""
    data = load(dataset, data_dir)
    spent = replace(effort, **trial.effort)
    recipe = trial.changed(Cell(dataset, trial.energy, effort=spent).recipe(data.features, data.labels))
    settings = spent.settings(trial.gain)
    watch = Stopwatch()
    votes = select(recipe, settings, spent, data.train)
    score = votes.mean[votes.chosen]
    chosen = settings.as_dict(votes.chosen)
    line = {
        "dataset": dataset, "energy": trial.energy, "choice": trial.choice,
        "held_out_accuracy": round(score, 3), "votes": len(spent.seeds),
        "penalty": float(f"{chosen['penalty']:.3g}"), "rate": float(f"{chosen['rate']:.3g}"),
        "seconds": round(watch.processor_s, 1),
    }  # fmt: skip
    return {
        **trial.columns(dataset, effort), "status": "ok", "domain": "box", "k": data.labels,
        "solver": recipe.inner_solver().name, "backend": "jax", "device": "cpu",
        "dtype": "float32", "tol": recipe.tol, "max_steps": recipe.max_steps,
        "score": score, "score_name": "held-out accuracy (%)", "extra": line,
    }  # fmt: skip
