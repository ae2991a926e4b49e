"""Train one network from the command line, and predict with it: the plain case of `training`."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.load import load
from bench.datasets.splits import Scaler, development_split
from bench.experiments.common.metrics import decode, metrics
from bench.experiments.common.training import Carry, Recipe, Settings, Trainer
from bench.experiments.train.saved import Saved, predict, read, save
from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Plan:
    """Hold the options of `gfy train`."""

    dataset: str
    recipe: Callable[[int, int], Recipe]
    setting: Settings
    seed: int = 0
    patience: int = 0
    every: int = 10
    resume: bool = False
    data_dir: Path | None = None
    out: Path = Path("model")


def run(plan: Plan, say: Callable[[str], None]) -> dict[str, float]:
    """Train, report and write checkpoints; return the metrics on the test part."""
    dataset = load(plan.dataset, plan.data_dir)
    fitted, held_out = development_split(dataset)
    scaler = Scaler.fit(fitted.X)
    recipe = plan.recipe(dataset.features, dataset.labels)
    trainer = Trainer(recipe, plan.setting, (plan.seed,))
    facts = {
        "dataset": plan.dataset, "seed": plan.seed, "loss": recipe.loss, "gradient": recipe.gradient,
        "solver": recipe.solver, "tol": recipe.tol, "max_steps": recipe.max_steps, "epochs": recipe.epochs,
        "decay": recipe.decay,
        "batch": recipe.batch, **plan.setting.as_dict(0),
    }  # fmt: skip
    start, first, best, waited = _resumed(plan, recipe, facts) if plan.resume else (None, 0, -1.0, 0)
    begun = time.perf_counter()
    blocks = trainer.run(scaler(fitted.X), fitted.Y, start, first, plan.every)
    while not (plan.patience and waited >= plan.patience):
        found = next(blocks, None)
        if found is None:
            break
        done, carry = found
        score = float(trainer.accuracy(carry.params, scaler(held_out.X), held_out.Y)[0, 0])
        seconds = time.perf_counter() - begun
        say(f"epoch {done:4d} of {recipe.epochs}: held-out accuracy {100 * score:.2f} %, {seconds:.1f} s")
        waited = 0 if score > best else waited + 1
        best = max(best, score)
        reached = {"epoch": done, "best": best, "waited": waited}
        _checkpoint(plan, recipe, carry, scaler, dataset.train.labels, {**facts, **reached})
    else:
        say(f"no better held-out accuracy in {waited} reports: stopped early")
    saved, _ = read(plan.out)
    result = metrics(predict(saved, dataset.test.X), dataset.test.Y)
    say(f"saved in {plan.out}; on the test part:")
    for name, value in result.items():
        say(f"  {name:16s} {100 * value:6.2f} %")
    return result


def _checkpoint(
    plan: Plan, recipe: Recipe, carry: Carry, scaler: Scaler, labels: tuple[str, ...], facts: dict[str, Any]
) -> None:
    params = {name: np.asarray(leaf)[0, 0] for name, leaf in carry.params.items()}
    moments = {
        f"{kind}.{name}": np.asarray(leaf)[0, 0]
        for kind, tree in zip(("first", "second"), carry.moments, strict=True)
        for name, leaf in tree.items()
    }
    moments["count"] = np.asarray(carry.count)
    save(plan.out, Saved(recipe.model, params, scaler, labels, facts), moments)


def _resumed(plan: Plan, recipe: Recipe, facts: dict[str, Any]) -> tuple[Carry, int, float, int]:
    """Return the state of a checkpoint, if it is one of the same training: the network with Adam's moments, the epochs
    done, the best held-out accuracy, and the number of reports since it."""
    import jax.numpy as jnp

    saved, moments = read(plan.out, own_solver=recipe.solver)
    before = {name: saved.training.get(name) for name in facts}
    differing = [name for name in facts if name != "epochs" and before[name] != facts[name]]
    if saved.model != recipe.model:
        differing.append("model")
    if differing:
        name = differing[0]
        raise GfyValueError(
            f"the checkpoint in {plan.out} was trained with another {name} ({before.get(name, saved.model)}): "
            "give the same options, or another --out"
        )
    sizes = {
        f"{kind}.{name}": leaf.shape for kind in ("first", "second") for name, leaf in saved.params.items()
    }
    if {name: leaf.shape for name, leaf in moments.items()} != {**sizes, "count": ()}:
        raise GfyValueError(
            f"the network in {plan.out} is no checkpoint (Adam's moments are not there, or are not those of its "
            "parameters): train again without --resume"
        )
    epoch, best, waited = _reached(plan.out, saved.training)

    def wide(leaf: np.ndarray) -> Any:
        return jnp.asarray(leaf)[None, None]

    params = {name: wide(leaf) for name, leaf in saved.params.items()}
    first, second = (
        {name: wide(moments[f"{kind}.{name}"]) for name in params} for kind in ("first", "second")
    )
    return Carry(params, (first, second), jnp.asarray(moments["count"])), epoch, best, waited


def _reached(folder: Path, training: dict[str, Any]) -> tuple[int, float, int]:
    """Return epoch, best held-out accuracy and reports since it; older checkpoints hold the epoch alone."""
    epoch, best, waited = training.get("epoch"), training.get("best", -1.0), training.get("waited", 0)
    whole = all(isinstance(number, int) and number >= 0 for number in (epoch, waited))
    if not whole or isinstance(best, bool) or not isinstance(best, int | float) or not -1.0 <= best <= 1.0:
        raise GfyValueError(
            f"the checkpoint in {folder} has epoch {epoch!r}, best {best!r} and waited {waited!r}; they must be a "
            "whole number, an accuracy of at most 1 and a whole number"
        )
    return int(epoch or 0), float(best), int(waited)


def predict_with(
    folder: Path,
    dataset: str | None,
    features: Path | None,
    probabilities: bool,
    data_dir: Path | None,
    out: Path | None,
    say: Callable[[str], None],
) -> None:
    """Predict a file of features or a dataset's test part, and write CSV with the labels' names in the first line."""
    saved, _ = read(folder)
    if features is not None:
        try:
            X, Y = np.loadtxt(features, delimiter=",", ndmin=2), None
        except (OSError, ValueError) as error:
            raise GfyValueError(
                f"{features} cannot be read as numbers separated by commas ({error})"
            ) from error
    else:
        test = load(dataset or saved.training["dataset"], data_dir).test
        X, Y = test.X, test.Y
    P = predict(saved, X)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(saved.labels)
    writer.writerows(
        [[f"{p:.6g}" for p in row] for row in P] if probabilities else decode(P).astype(int).tolist()
    )
    if out is None:
        say(text.getvalue().rstrip("\n"))
        return
    out.write_text(text.getvalue(), encoding="utf-8")
    say(f"{len(P)} predictions in {out}")
    for name, value in (metrics(P, Y) if Y is not None else {}).items():
        say(f"  {name:16s} {100 * value:6.2f} %")
