"""`gfy predict` writes the labels that a saved network gives as CSV, and their score where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a network that `gfy train` saved.")],
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="Predict this dataset's test part (default: the trained one's)."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features", help="A CSV file of unscaled features, one example per line, without a header."
        ),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write p* in place of the decoded labels.")
    ] = False,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Folder of the datasets.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="CSV file to write (default: the screen).")
    ] = None,
) -> None:
    """Predict with a saved network; labels are decoded by p > 1/2, which is calibrated for the Hamming loss.

    Examples:

      gfy predict model

      gfy predict model --features new.csv --probabilities --out predictions.csv
    """
    from bench.experiments.train.single import predict_with

    predict_with(model, dataset, features, probabilities, data_dir, out, typer.echo)
