"""`gfy reproduce amortised` and `gfy reproduce minmin`: experiments beyond the paper; rows go to beyond.sqlite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[
    Path, typer.Option("--out", help="Folder for beyond.sqlite; what is there is not measured again.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A small version: a minute.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Folder searched before GFY_DATA.")]


def amortised(out: Out = Path("results"), quick: Quick = False, data_dir: DataDir = None) -> None:
    """Time inner solves along a training run: cold, warm-started, and from a learned start with a certificate.

    Examples:

      gfy reproduce amortised --quick

      gfy reproduce amortised --out docs/results
    """
    from bench.experiments.amortised.experiment import run

    _show(out, lambda store: run(store, typer.echo, quick, data_dir), "amortised")


def minmin(
    out: Out = Path("results"),
    quick: Quick = False,
    data_dir: DataDir = None,
    steps: Annotated[int, typer.Option(min=10, help="Gradient steps of a training.")] = 1500,
) -> None:
    """Is solving worth it? Train by the joint loss of energy and partition function, by chains, and by solving.

    Examples:

      gfy reproduce minmin --quick

      gfy reproduce minmin --out docs/results
    """
    from bench.experiments.minmin.experiment import run

    _show(out, lambda store: run(store, typer.echo, quick, data_dir, steps), "minmin")


def _show(out: Path, run: Any, kind: str) -> None:
    """Run an experiment into the store and print its table, which is made from the stored rows."""
    from bench.store import Store
    from reports.answers import beyond
    from reports.data.load import load

    with Store(out / "beyond.sqlite") as store:
        run(store)
    typer.echo(beyond.text(load([out / "beyond.sqlite"]).frame, kind))
    typer.echo(f"Written: {out / 'beyond.sqlite'}.")
