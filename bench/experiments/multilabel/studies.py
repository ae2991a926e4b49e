"""Study questions beyond the paper: significance, the accuracy of the inner solve, and which solver trains fastest.

    significance  paired bootstrap over test examples: each line of a table against the pairwise model (computed
                  by `reports` from the rows of the tables)
    tolerance     test accuracy when the inner solve is stopped early
    time          processor seconds until a held-out accuracy is reached, by gradient mode and by inner solver
    gain          held-out accuracy of the pairwise model for three sizes of the interaction's first draw
    recipe        held-out accuracy of each choice the paper leaves open (see `recipe.py`)
    finalists     test accuracy of all finalists of the pairwise cells: what did the choice among them cost or gain?

tolerance and time train the pairwise model at the setting its full table cell chose, so that cell must be stored.
finalists reads the test part after the choice has been made and stored; nothing is chosen by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.load import load
from bench.datasets.splits import development_split, normalised
from bench.experiments.common.models import Model
from bench.experiments.common.training import Recipe, Settings, Trainer, one_setting
from bench.experiments.multilabel import recipe as multilabel_recipe
from bench.experiments.multilabel.cells import Cell, Effort, plan
from bench.measure.clock import Stopwatch
from bench.store import Store
from gfy.errors import GfyValueError

STUDIES = ("significance", "tolerance", "time", "gain", "recipe", "finalists")
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
MODES = ("envelope", "implicit", "implicit-dense", "unrolled")
SOLVERS = (
    "DualNewton",
    "CoordinateAscent",
    "ProjectedGradient",
    "ProjectedNewton",
    "JaxoptProjectedGradient",
)
Say = Callable[[str], None]


def run_studies(
    studies: tuple[str, ...], datasets: tuple[str, ...], effort: Effort, store: Store, data_dir: Path | None, say: Say,
) -> None:  # fmt: skip
    """Run the studies named and store their rows; significance is read from the rows of the tables."""
    for name in studies:
        if name not in STUDIES:
            raise GfyValueError(f"study '{name}' is not known; there are {', '.join(STUDIES)}")
    for name in studies:
        if name == "recipe":
            multilabel_recipe.settle(store, datasets or multilabel_recipe.DATASETS, effort, data_dir, say)
        elif name != "significance":
            study = {"tolerance": tolerance, "time": time_to_score, "gain": gain, "finalists": finalists}[
                name
            ]
            for dataset in datasets or ("yeast",):
                study(store, dataset, effort, data_dir, say)


def chosen_setting(store: Store, dataset: str, effort: Effort) -> tuple[Cell, Settings]:
    """Return the pairwise cell of a dataset and the setting it chose."""
    cell = next(c for c in plan((dataset,), ("gradients",), effort) if c.gradient == "envelope")
    chosen = _told(store, cell, "gradients")["chosen"]
    return cell, one_setting(chosen["penalty"], chosen["rate"], chosen["gain"])


def _told(store: Store, cell: Cell, table: str) -> dict[str, Any]:
    """Return what the stored row of a cell says beside its columns."""
    row = store.get(cell.key)
    if row is None or row["status"] != "ok":
        raise GfyValueError(
            f"the study needs the stored cell '{cell.name}': "
            f"run `gfy reproduce multilabel --dataset {cell.dataset} --table {table}` first"
        )
    told: dict[str, Any] = json.loads(row["extra"])
    return told


def finalists(
    store: Store, dataset: str, effort: Effort, data_dir: Path | None, say: Say
) -> list[dict[str, Any]]:
    """Refit and test every finalist of the pairwise cells of the losses table, beside its votes."""
    data = load(dataset, data_dir)
    train, test = normalised(data.train, data.test)
    found = []
    for cell in plan((dataset,), ("losses",), effort):
        if cell.loss not in ("gfy", "cross_entropy"):
            continue
        told = _told(store, cell, "losses")
        votes = {int(place): cast for place, cast in told["held_out_votes"].items()}
        settings, recipe = effort.settings(), cell.recipe(data.features, data.labels)
        trainer = Trainer(recipe, settings.at(*votes), effort.seeds)
        ((_, carry),) = trainer.run(train.X, train.Y, block=recipe.epochs)
        tested = 100 * trainer.accuracy(carry.params, test.X, test.Y)
        for column, (place, cast) in enumerate(votes.items()):
            accuracy, setting = tested[:, column], settings.as_dict(place)
            line = {
                "dataset": dataset, "energy": cell.energy, "loss": cell.loss, "gradient": cell.gradient,
                "penalty": float(f"{setting['penalty']:.3g}"), "rate": float(f"{setting['rate']:.3g}"),
                "chosen": setting == told["chosen"], "held_out": round(float(np.mean(cast)), 3),
                "held_out_worst": min(cast),
                "test": round(float(accuracy.mean()), 3), "test_worst": round(float(accuracy.min()), 3),
                "test_best": round(float(accuracy.max()), 3), "held_out_examples": len(train) - int(0.75 * len(train)),
                "labels": data.labels,
            }  # fmt: skip
            found.append(line)
            _put(store, cell, recipe, "finalists", f"{cell.loss}/{place}", line, float(accuracy.mean()))
        low, high = tested.mean(axis=0).min(), tested.mean(axis=0).max()
        say(f"{cell.name}: {len(votes)} finalists reach {low:.2f} to {high:.2f} % on the test part")
    return found


def tolerance(
    store: Store, dataset: str, effort: Effort, data_dir: Path | None, say: Say
) -> list[dict[str, Any]]:
    """Train with projected gradients stopped at a tolerance, or after a few steps; predictions are always exact."""
    cell, setting = chosen_setting(store, dataset, effort)
    data = load(dataset, data_dir)
    train, test = normalised(data.train, data.test)
    exact = cell.recipe(data.features, data.labels)
    stops = [(tol, 200) for tol in TOLERANCES] + [(0.0, steps) for steps in (1, 2, 5)]
    found = []
    for tol, steps in stops:
        recipe = replace(
            exact, solver="ProjectedGradient(step_rule='backtracking')", tol=tol, max_steps=steps
        )
        trainer = Trainer(recipe, setting, effort.seeds)
        watch = Stopwatch()
        (_, carry), *_ = trainer.run(train.X, train.Y, block=recipe.epochs)
        seconds = watch.processor_s
        accuracy = 100 * Trainer(exact, setting, effort.seeds).accuracy(carry.params, test.X, test.Y)[:, 0]
        line = {
            "dataset": dataset,
            "tol": tol,
            "max_steps": steps,
            "accuracy": round(float(accuracy.mean()), 3),
        }
        found.append({**line, "sd": round(float(accuracy.std(ddof=1)), 3) if len(accuracy) > 1 else 0.0,
                      "seconds": round(seconds, 2)})  # fmt: skip
        _put(store, cell, recipe, "tolerance", f"{tol}/{steps}", found[-1], float(accuracy.mean()))
        say(f"{dataset}: inner tolerance {tol:g}, at most {steps} steps: {accuracy.mean():.2f} %")
    return found


def time_to_score(
    store: Store, dataset: str, effort: Effort, data_dir: Path | None, say: Say
) -> list[dict[str, Any]]:
    """Measure the seconds of one training, without compilation, until 99.5 % of the exact model's held-out accuracy."""
    import gfy

    cell, setting = chosen_setting(store, dataset, effort)
    data = load(dataset, data_dir)
    fitted, held_out = normalised(*development_split(data))
    base = cell.recipe(data.features, data.labels)
    dense = {"gradient_mode": gfy.Implicit(linear_solve="dense")}
    unrolled = {"gradient_mode": gfy.Unrolled(steps=50)}
    steps = "ProjectedGradient(step_rule='backtracking')"
    runs = {
        ("DualNewton", "envelope"): replace(base, gradient="envelope"),
        ("DualNewton", "implicit"): replace(base, gradient="implicit"),
        ("DualNewton", "implicit-dense"): replace(base, gradient="implicit", options=dense),
        ("ProjectedGradient", "unrolled"): replace(base, gradient="unrolled", solver=steps, options=unrolled),
    }
    for solver in SOLVERS[1:]:
        runs[(solver, "envelope")] = replace(base, solver=solver, max_steps=500)
    block = max(1, effort.epochs // 20)
    found, target = [], None
    for (solver, mode), recipe in runs.items():
        course = _course(recipe, setting, fitted, held_out, block)
        if target is None:
            target = 0.995 * course[-1][1]
        reached = next((seconds for seconds, score in course if score >= target), None)
        line = {
            "dataset": dataset, "solver": solver, "gradient": mode, "target": round(100 * target, 3),
            "seconds_to_target": None if reached is None else round(reached, 3),
            "seconds": round(course[-1][0], 3), "held_out_accuracy": round(100 * course[-1][1], 3),
        }  # fmt: skip
        found.append(line)
        curve = {"seconds": [round(x, 4) for x, _ in course], "score": [round(100 * y, 3) for _, y in course]}
        _put(store, cell, recipe, "time", f"{solver}/{mode}", {**line, "curve": curve}, reached)
        say(f"{dataset}: {solver}, {mode}: {line['seconds']} s, held out {line['held_out_accuracy']:.2f} %")
    return found


def _course(
    recipe: Recipe, setting: Settings, fitted: Any, held_out: Any, block: int
) -> list[tuple[float, float]]:
    """Return (processor seconds so far, held-out accuracy) after every block; the program is compiled beforehand."""
    trainer = Trainer(recipe, setting, (0,))
    warm = Trainer(replace(recipe, epochs=block), setting, (0,))
    warm._block = trainer._block  # it runs the same compiled program once, on a state that is not used
    list(warm.run(fitted.X, fitted.Y, block=block))
    course, spent = [], 0.0
    watch = Stopwatch()
    for _, carry in trainer.run(fitted.X, fitted.Y, block=block):
        spent += watch.processor_s
        course.append((spent, float(trainer.accuracy(carry.params, held_out.X, held_out.Y)[0, 0])))
        watch = Stopwatch()  # the evaluation on held-out examples is not timed
    return course


def gain(store: Store, dataset: str, effort: Effort, data_dir: Path | None, say: Say) -> list[dict[str, Any]]:
    """Train the pairwise model's whole grid for three sizes of the interaction's first draw."""
    data = load(dataset, data_dir)
    fitted, held_out = normalised(*development_split(data))
    cell = Cell(dataset, "pairwise", effort=effort)
    recipe = replace(
        cell.recipe(data.features, data.labels), model=Model("pairwise", data.features, data.labels)
    )
    found = []
    for size in (0.3, 1.0, 3.0):
        settings = effort.settings(size)
        trainer = Trainer(recipe, settings, effort.seeds)
        (_, carry), *_ = trainer.run(fitted.X, fitted.Y, block=effort.epochs)
        score = 100 * trainer.accuracy(carry.params, held_out.X, held_out.Y).mean(axis=0)
        best = int(score.argmax())
        line = {
            "dataset": dataset,
            **settings.as_dict(best),
            "held_out_accuracy": round(float(score[best]), 3),
        }
        found.append(line)
        _put(store, cell, recipe, "gain", str(size), line, float(score[best]))
        say(f"{dataset}: gain {size:g}: held-out accuracy {score[best]:.2f} %")
    return found


def _put(
    store: Store,
    cell: Cell,
    recipe: Recipe,
    study: str,
    variant: str,
    line: dict[str, Any],
    score: float | None,
) -> None:
    from bench.store.environment import row_facts

    store.put({
        "kind": "training" if study == "time" else "multilabel", "status": "ok", "problem": cell.dataset,
        "family": f"multilabel-{study}", "energy": cell.energy, "regularizer": cell.regularizer, "domain": "box",
        "rank": cell.rank, "loss": cell.loss, "batch": recipe.batch,
        "problem_params": {"study": study, "variant": variant, "epochs": recipe.epochs},
        "solver": recipe.inner_solver().name, "gradient": recipe.gradient, "backend": "jax", "device": "cpu",
        "dtype": "float32", "tol": recipe.tol, "max_steps": recipe.max_steps, "score": score, "score_name": study,
        "extra": line, **row_facts(),
    })  # fmt: skip
