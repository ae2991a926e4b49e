"""`gfy predict` writes the labels that a saved network gives as CSV, and their score where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.commands.options import DataDir


def predict(
    model: Annotated[Path, typer.Argument(help="Read the network that `gfy train` saved in this folder.")],
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="Predict this dataset's test part (default: the trained one's)."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            help="Read unscaled features from this CSV file, one example per line, without a header.",
        ),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write p* instead of the decoded labels.")
    ] = False,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write this CSV file (default: print to the screen).")
    ] = None,
) -> None:
    """Predict with a saved network; labels are decoded by p > 1/2, which is calibrated for the Hamming loss.

    Examples:

      gfy predict model

      gfy predict model --features new.csv --probabilities --out predictions.csv
    """
    from bench.experiments.train.single import predict_with

    predict_with(model, dataset, features, probabilities, data_dir, out, typer.echo)
