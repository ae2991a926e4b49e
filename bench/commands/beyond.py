"""Implement `gfy reproduce amortised`, `minmin`, `ranking` and `roots`: experiments beyond the paper, stored in
beyond.sqlite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bench.commands.options import DataDir, Quick

Out = Annotated[
    Path,
    typer.Option(
        "--out", help="Write beyond.sqlite to this folder; what is stored there is not measured again."
    ),
]


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
    steps: Annotated[int, typer.Option(min=10, help="Take this many gradient steps per training.")] = 1500,
) -> None:
    """Train by the joint loss of energy and partition function, by chains, and by solving, and compare them.

    Examples:

      gfy reproduce minmin --quick

      gfy reproduce minmin --out docs/results
    """
    from bench.experiments.minmin.experiment import run

    _show(out, lambda store: run(store, typer.echo, quick, data_dir, steps), "minmin")


def ranking(
    out: Out = Path("results"),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Take 20 steps with one seed; this shows that it runs and gives no result."
        ),
    ] = False,
    data_dir: DataDir = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="Use synthetic or yeast; the option may be repeated (default: both)."),
    ] = None,
) -> None:
    """Learn rankings on the permutahedron, on the Birkhoff polytope and without a set: Kendall's tau.

    Examples:

      gfy reproduce ranking --quick --dataset synthetic

      gfy reproduce ranking --out docs/results
    """
    from bench.experiments.ranking.data import NAMES
    from bench.experiments.ranking.train import QUICK_STEPS, SEEDS, STEPS, run

    unknown = [name for name in dataset or () if name not in NAMES]
    if unknown:
        raise typer.BadParameter(f"--dataset must be one of {', '.join(NAMES)}, got {unknown[0]}")
    names = tuple(dataset) if dataset else NAMES
    seeds, steps = (1, QUICK_STEPS) if quick else (SEEDS, STEPS)
    _show(out, lambda store: run(store, typer.echo, seeds, steps, names, data_dir), "ranking")


def roots(out: Out = Path("results"), quick: Quick = False) -> None:
    """Time the argmax map of f-divergences: a Newton root against bisections, at equal certified accuracy.

    Examples:

      gfy reproduce roots --quick

      gfy reproduce roots --out docs/results
    """
    from bench.experiments.roots.experiment import run

    _show(out, lambda store: run(store, typer.echo, quick), "roots")


def _show(out: Path, run: Any, kind: str) -> None:
    """Run an experiment into the store and print its table, which is made from the stored rows."""
    from bench.store import Store
    from reports.answers import beyond
    from reports.data.load import load

    with Store(out / "beyond.sqlite") as store:
        run(store)
    typer.echo(beyond.text(load([out / "beyond.sqlite"]).frame, kind))
    typer.echo(f"Written: {out / 'beyond.sqlite'}.")
