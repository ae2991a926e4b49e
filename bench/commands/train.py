"""Implement `gfy train`: train one energy network on one dataset, with progress, checkpoints and a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    dataset: Annotated[str, typer.Option("--dataset", help="As `gfy data list` names it.")] = "yeast",
    energy: Annotated[
        str, typer.Option(help="unary-linear, unary-rectifier, pairwise, spen or concave-spen.")
    ] = "pairwise",
    loss: Annotated[
        str, typer.Option(help="gfy, energy, cross_entropy, perceptron, squared or margin.")
    ] = "gfy",
    gradient: Annotated[str, typer.Option(help="envelope, implicit or unrolled.")] = "envelope",
    solver: Annotated[str, typer.Option(help="auto, or a solver as `gfy list solvers` names it.")] = "auto",
    rank: Annotated[int, typer.Option(min=1, help="Rank of the pairwise interaction.")] = 1,
    regularizer: Annotated[str, typer.Option(help="gini or shannon.")] = "gini",
    rate: Annotated[float, typer.Option(help="Adam's learning rate.")] = 6e-4,
    penalty: Annotated[float, typer.Option(help="Weight decay: lambda of lambda / 2 |theta|^2.")] = 0.0316,
    gain: Annotated[float, typer.Option(help="Scale of the interaction's first draw.")] = 1.0,
    epochs: Annotated[int, typer.Option(min=1)] = 100,
    decay: Annotated[bool, typer.Option("--decay", help="Let the rate fall linearly to zero.")] = False,
    batch: Annotated[int, typer.Option(min=1, help="Examples per training step.")] = 32,
    seed: Annotated[int, typer.Option()] = 0,
    tol: Annotated[float, typer.Option(help="Tolerance of the inner solve.")] = 1e-4,
    max_steps: Annotated[int, typer.Option(min=1, help="Most steps of the inner solve.")] = 50,
    patience: Annotated[
        int,
        typer.Option(
            min=0, help="Stop after so many reports without a better held-out accuracy; 0 never stops."
        ),
    ] = 0,
    every: Annotated[int, typer.Option(min=1, help="Epochs between two reports and checkpoints.")] = 10,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Folder of the datasets.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the saved network.")] = Path("model"),
) -> None:
    """Train one energy network on a dataset and save it.

    Three quarters of the training part are trained on, the last quarter is watched, and the test part is used at
    the end.

    Examples:

      gfy train --dataset yeast --energy pairwise --loss gfy --gradient envelope --out model

      gfy train --dataset emotions --energy concave-spen --rate 1e-3 --epochs 50
    """
    from bench.experiments.common.models import Model
    from bench.experiments.common.training import Recipe, one_setting
    from bench.experiments.train.single import Plan, run

    def recipe(features: int, labels: int) -> Recipe:
        model = Model(energy, features, labels, rank, regularizer)
        return Recipe(model, loss, gradient, solver, epochs, batch, tol, max_steps, decay)

    plan = Plan(
        dataset, recipe, one_setting(penalty, rate, gain), seed, patience, every, resume, data_dir, out
    )
    run(plan, typer.echo)
