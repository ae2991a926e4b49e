"""Fill one cell by the written protocol: choose a setting on held-out examples, refit on all, test every seed.

The first seed votes on every setting of the grid, the other seeds on the settings that it likes best; the setting with
the best mean is refitted on the whole training part, and the test part is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.datasets.load import load
from bench.datasets.mulan import Part
from bench.datasets.splits import Dataset, hold_out, normalised
from bench.experiments.common.metrics import metrics, right_decisions
from bench.experiments.common.objectives import predicting_problem
from bench.experiments.common.training import Recipe, Settings, Trainer
from bench.experiments.multilabel.cells import Cell, Effort, paper_accuracy
from bench.measure.certification import judged
from bench.measure.clock import Stopwatch

Report = Callable[[str, int, int], None]


def run_cell(cell: Cell, data_dir: str | Path | None = None, report: Report | None = None) -> dict[str, Any]:
    """Select, refit and test; return the columns of the cell's row."""
    tell = report or (lambda stage, done, of: None)
    dataset = load(cell.dataset, data_dir)
    recipe = cell.recipe(dataset.features, dataset.labels)
    settings = cell.effort.settings()
    watch = Stopwatch()
    votes = select(recipe, settings, cell.effort, dataset.train, tell)
    chosen = votes.chosen
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
            "training": _training(recipe, dataset, cell.effort),
            "chosen": settings.as_dict(chosen),
            "held_out_accuracy": float(votes.mean[chosen]),
            "held_out_grid": np.round(votes.first, 3).tolist(),
            "held_out_curve": np.round(votes.course[:, chosen], 3).tolist(),
            "held_out_votes": {str(place): np.round(x, 3).tolist() for place, x in votes.cast.items()},
            "seeds": [
                {"seed": seed, **m} for seed, m in zip(cell.effort.seeds, final["metrics"], strict=True)
            ],
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


class Votes(NamedTuple):
    """Hold held-out accuracy in %: of the first seed for every setting, and of every seed for the finalists.

    `first` [H] holds the accuracy of the first seed at every setting, and `course` [blocks, H] the same after each
    block of epochs. `cast` holds, by the place of each finalist, the accuracy of every seed [S], with the best mean
    first; `mean` holds these means.
    """

    first: np.ndarray
    course: np.ndarray
    cast: dict[int, np.ndarray]

    @property
    def mean(self) -> dict[int, float]:
        return {place: float(votes.mean()) for place, votes in self.cast.items()}

    @property
    def chosen(self) -> int:
        return next(iter(self.cast))


def select(
    recipe: Recipe, settings: Settings, effort: Effort, train: Part, tell: Report | None = None
) -> Votes:
    """Let the seeds vote on the settings by examples held out of the training part; no other part is read."""
    said = tell or (lambda stage, done, of: None)
    fitted, held_out = normalised(*hold_out(train, 0.25))
    course = []
    trainer = Trainer(recipe, settings, effort.seeds[:1])
    for done, carry in trainer.run(fitted.X, fitted.Y, block=max(1, recipe.epochs // 5)):
        said(f"{len(settings)} settings", done, recipe.epochs)
        course.append(100 * trainer.accuracy(carry.params, held_out.X, held_out.Y)[0])
    first = course[-1]
    places = settings.ranked(first)[: effort.finalists]
    cast = first[places][:, None]
    if len(effort.seeds) > 1:
        trainer = Trainer(recipe, settings.at(*places), effort.seeds[1:])
        ((_, carry),) = trainer.run(fitted.X, fitted.Y, block=recipe.epochs)
        said(f"{len(places)} finalists x {len(effort.seeds) - 1} seeds", recipe.epochs, recipe.epochs)
        cast = np.hstack([cast, 100 * trainer.accuracy(carry.params, held_out.X, held_out.Y).T])
    best = settings.at(*places).ranked(cast.mean(axis=1))
    return Votes(first, np.stack(course), {places[i]: cast[i] for i in best})


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
    """Return how far the solver that training used is from optimal on these examples, judged in float64."""
    import jax

    import gfy

    with jax.enable_x64(True):
        wide = {name: jax.numpy.asarray(leaf, jax.numpy.float64) for name, leaf in params.items()}
        v = recipe.model.input(wide, jax.numpy.asarray(X, jax.numpy.float64))
        problem = predicting_problem(recipe.model, recipe.loss)
        return judged([gfy.certify(problem, v, jax.numpy.asarray(P, jax.numpy.float64))])


def _known(recipe: Recipe, dataset: Dataset) -> dict[str, Any]:
    """Return the columns that follow from the cell and its data."""
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


def _training(recipe: Recipe, dataset: Dataset, effort: Effort) -> dict[str, Any]:
    """Return other facts of the training: sizes, and how many seeds voted on the finalists."""
    return {
        "features": dataset.features,
        "rows": [len(dataset.train), len(dataset.test)],
        "hidden": recipe.model.hidden,
        "prior_hidden": recipe.model.prior_hidden,
        "selection": len(effort.seeds),
    }
