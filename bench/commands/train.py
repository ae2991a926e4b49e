"""Implement `gfy train`: train one energy network on one dataset, with progress, checkpoints and a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.commands.options import DataDir


def train(
    dataset: Annotated[
        str, typer.Option("--dataset", help="Name the dataset as `gfy data list` shows it.")
    ] = "yeast",
    energy: Annotated[
        str, typer.Option(help="Train unary-linear, unary-rectifier, pairwise, spen or concave-spen.")
    ] = "pairwise",
    loss: Annotated[
        str, typer.Option(help="Use the loss gfy, energy, cross_entropy, perceptron, squared or margin.")
    ] = "gfy",
    gradient: Annotated[
        str, typer.Option(help="Differentiate by envelope, implicit or unrolled.")
    ] = "envelope",
    solver: Annotated[
        str, typer.Option(help="Use auto, or a solver as `gfy list solvers` shows it.")
    ] = "auto",
    rank: Annotated[int, typer.Option(min=1, help="Set the rank of the pairwise interaction.")] = 1,
    regularizer: Annotated[str, typer.Option(help="Regularize by gini or shannon.")] = "gini",
    rate: Annotated[float, typer.Option(min=1e-9, help="Set Adam's learning rate.")] = 6e-4,
    penalty: Annotated[
        float, typer.Option(min=0.0, help="Set the weight decay, lambda of lambda / 2 |theta|^2.")
    ] = 0.0316,
    gain: Annotated[
        float, typer.Option(min=0.0, help="Set the scale of the interaction's first draw.")
    ] = 1.0,
    epochs: Annotated[int, typer.Option(min=1, help="Use every training example this many times.")] = 100,
    decay: Annotated[bool, typer.Option("--decay", help="Decrease the rate linearly to zero.")] = False,
    batch: Annotated[int, typer.Option(min=1, help="Use this many examples per training step.")] = 32,
    seed: Annotated[int, typer.Option(help="Draw the first weights and the batches from this seed.")] = 0,
    tol: Annotated[float, typer.Option(help="Solve the inner problem to this tolerance.")] = 1e-4,
    max_steps: Annotated[int, typer.Option(min=1, help="Take at most this many steps per inner solve.")] = 50,
    patience: Annotated[
        int,
        typer.Option(
            min=0, help="Stop after this many reports without a better held-out accuracy, or never with 0."
        ),
    ] = 0,
    every: Annotated[
        int, typer.Option(min=1, help="Report and write a checkpoint after this many epochs.")
    ] = 10,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in --out.")] = False,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option("--out", help="Save the network in this folder.")] = Path("model"),
) -> None:
    """Train one energy network on a dataset and save it.

    The network is trained on three quarters of the training part. The last quarter measures its accuracy meanwhile, and
    the test part is used at the end.

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
