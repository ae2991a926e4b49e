"""Fill one cell as the paper does: choose a setting on held-out examples, refit on all, test three seeds.

The setting with the best mean held-out accuracy at the last epoch is chosen; the test part is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.load import load
from bench.datasets.splits import Dataset, development_split, normalised
from bench.experiments.common.metrics import metrics, right_decisions
from bench.experiments.common.objectives import predicting_problem
from bench.experiments.common.training import Recipe, Settings, Trainer
from bench.experiments.multilabel.cells import Cell, Effort, paper_accuracy
from bench.measure.certification import judged
from bench.measure.clock import Stopwatch

Report = Callable[[str, int, int], None]


def run_cell(cell: Cell, data_dir: str | Path | None = None, report: Report | None = None) -> dict[str, Any]:
    """Select, refit, test; returns the columns of the cell's row."""
    tell = report or (lambda stage, done, of: None)
    dataset = load(cell.dataset, data_dir)
    recipe = cell.recipe(dataset.features, dataset.labels)
    settings = cell.effort.settings()
    watch = Stopwatch()
    held_out, curve = select(recipe, settings, cell.effort, dataset, tell)
    chosen = int(held_out.mean(axis=0).argmax())
    selected = watch.processor_s
    final = _refit(recipe, settings.at(chosen), cell.effort.seeds, dataset, tell)
    refitted = watch.processor_s
    accuracy = 100 * np.array([m["accuracy"] for m in final["metrics"]])
    return {
        **cell.columns,
        **_known(recipe, dataset),
        "status": "ok",
        "score": float(accuracy.mean()),
        "score_name": "test accuracy (%)",
        "score_sd": float(accuracy.std(ddof=1)) if len(accuracy) > 1 else 0.0,
        "score_paper": paper_accuracy(cell),
        **final["certificate"],
        "extra": {
            "accuracy": accuracy.tolist(),
            "training": _training(recipe, dataset, len(held_out)),
            "chosen": settings.as_dict(chosen),
            "held_out_accuracy": float(100 * held_out.mean(axis=0)[chosen]),
            "held_out_grid": np.round(100 * held_out.mean(axis=0), 3).tolist(),
            "held_out_curve": np.round(100 * curve[:, chosen], 3).tolist(),
            "metrics": {
                name: float(np.mean([m[name] for m in final["metrics"]])) for name in final["metrics"][0]
            },
            "right_decisions": final["right"].tolist(),
            "seconds": watch.processor_s,
            "selection_seconds": selected,
            "refit_seconds": refitted - selected,
            "wall_seconds": watch.wall_s,
        },
    }


def select(
    recipe: Recipe, settings: Settings, effort: Effort, dataset: Dataset, tell: Report | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Held-out accuracy of every voting seed and setting at the last epoch [S, H], and its course [blocks, H]."""
    fitted, held_out = normalised(*development_split(dataset))
    seeds = effort.votes(len(held_out))
    trainer = Trainer(recipe, settings, seeds)
    course = []
    for done, carry in trainer.run(fitted.X, fitted.Y, block=max(1, recipe.epochs // 5)):
        if tell is not None:
            tell(f"{len(settings)} settings x {len(seeds)} seeds", done, recipe.epochs)
        course.append(trainer.accuracy(carry.params, held_out.X, held_out.Y))
    return course[-1], np.stack(course).mean(axis=1)


def _refit(
    recipe: Recipe, setting: Settings, seeds: tuple[int, ...], dataset: Dataset, tell: Report
) -> dict[str, Any]:
    train, test = normalised(dataset.train, dataset.test)
    trainer = Trainer(recipe, setting, seeds)
    (done, carry), *_ = trainer.run(train.X, train.Y, block=recipe.epochs)
    tell("refit", done, recipe.epochs)
    P = trainer.predict(carry.params, test.X)[:, 0]
    params = {name: np.asarray(leaf)[0, 0] for name, leaf in carry.params.items()}
    return {
        "metrics": [metrics(p, test.Y) for p in P],
        "right": sum(right_decisions(p, test.Y) for p in P),
        "certificate": certificate(recipe, params, test.X, P[0]),
    }


def certificate(
    recipe: Recipe, params: dict[str, np.ndarray], X: np.ndarray, P: np.ndarray
) -> dict[str, Any]:
    """How far the solver that training used is from optimal on these examples, judged in float64."""
    import jax

    import gfy

    with jax.enable_x64(True):
        wide = {name: jax.numpy.asarray(leaf, jax.numpy.float64) for name, leaf in params.items()}
        v = recipe.model.input(wide, jax.numpy.asarray(X, jax.numpy.float64))
        problem = predicting_problem(recipe.model, recipe.loss)
        return judged([gfy.certify(problem, v, jax.numpy.asarray(P, jax.numpy.float64))])


def _known(recipe: Recipe, dataset: Dataset) -> dict[str, Any]:
    """The columns that follow from the cell and its data."""
    return {
        "domain": "box",
        "k": dataset.labels,
        "solver": recipe.inner_solver().name,
        "backend": "jax",
        "device": "cpu",
        "dtype": "float32",
        "tol": recipe.tol,
        "max_steps": recipe.max_steps,
    }


def _training(recipe: Recipe, dataset: Dataset, votes: int) -> dict[str, Any]:
    """What else there is to know of the training: sizes, and how many seeds voted on the setting."""
    return {
        "features": dataset.features,
        "rows": [len(dataset.train), len(dataset.test)],
        "hidden": recipe.model.hidden,
        "prior_hidden": recipe.model.prior_hidden,
        "initialisation": "Glorot uniform",
        "optimiser": "Adam",
        "selection": votes,
    }
