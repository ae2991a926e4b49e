"""The recipe of the multilabel tables beside its alternatives: one comparison after another, on held-out examples.

The paper leaves the schedule, the epochs, the first draws and the prior's width open. Each trial here changes one
of them, trains the whole grid on the fitted part and keeps the best held-out accuracy; no test part is read. One
choice holds for all datasets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.datasets.load import load
from bench.experiments.common.training import Recipe
from bench.experiments.multilabel.cells import RECIPE, Cell, Effort
from bench.experiments.multilabel.protocol import select
from bench.store import Store, key_of

DATASETS = ("yeast", "birds", "emotions")


@dataclass(frozen=True)
class Trial:
    """One deviation from the recipe in use; empty changes are the recipe itself."""

    energy: str
    choice: str
    effort: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    gain: float = 1.0

    def columns(self, dataset: str, effort: Effort) -> dict[str, Any]:
        """What identifies the trial in the store; its choice is its name, so a changed trial needs another one."""
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
        """The recipe with the trial's changes; the width of the unary network stands for min(100, d / 3)."""
        model = {name: getattr(recipe.model, v) if v == "hidden" else v for name, v in self.model.items()}
        return replace(recipe, model=replace(recipe.model, **model), **self.recipe)


_BACKTRACKING = "ProjectedGradient(step_rule='backtracking')"
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
    Trial("spen", "24 inner steps", recipe={"max_steps": 24}),
    Trial("spen", "projected gradient, 12 steps", recipe={"solver": _BACKTRACKING}),
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
    """One line a trial and dataset; a stored trial is not run again."""
    from bench.measure.environment import row_facts

    found = []
    for dataset in datasets:
        for trial in trials:
            row = store.get(key_of(trial.columns(dataset, effort)))
            if row is None or row["status"] != "ok":
                row = {**_row(trial, dataset, effort, data_dir), **row_facts()}
                store.put(row)
                say(f"{dataset}: {trial.energy}, {trial.choice}: held-out accuracy {row['score']:.2f} %")
            extra = row["extra"]
            found.append(json.loads(extra) if isinstance(extra, str) else extra)
    return found


def _row(trial: Trial, dataset: str, effort: Effort, data_dir: Path | None) -> dict[str, Any]:
    data = load(dataset, data_dir)
    spent = replace(effort, **trial.effort)
    recipe = trial.changed(Cell(dataset, trial.energy, effort=spent).recipe(data.features, data.labels))
    settings = spent.settings(trial.gain)
    begun = time.process_time()
    held_out, _ = select(recipe, settings, spent, data)
    mean = 100 * held_out.mean(axis=0)
    best = int(mean.argmax())
    chosen = settings.as_dict(best)
    line = {
        "dataset": dataset, "energy": trial.energy, "choice": trial.choice,
        "held_out_accuracy": round(float(mean[best]), 3), "votes": len(held_out),
        "penalty": float(f"{chosen['penalty']:.3g}"), "rate": float(f"{chosen['rate']:.3g}"),
        "seconds": round(time.process_time() - begun, 1),
    }  # fmt: skip
    return {
        **trial.columns(dataset, effort), "status": "ok", "domain": "box", "k": data.labels,
        "solver": recipe.inner_solver().name, "backend": "jax", "device": "cpu",
        "dtype": "float32", "tol": recipe.tol, "max_steps": recipe.max_steps,
        "score": float(mean[best]), "score_name": "held-out accuracy (%)", "extra": line,
    }  # fmt: skip
