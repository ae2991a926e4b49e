"""Implement `gfy export`: write the suite and its history in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Write the suite or its history in the formats of other tools.")


@app.command()
def benchopt(
    out: Annotated[Path, typer.Argument(help="Write the benchmark to this folder.")],
    problem: Annotated[
        list[str] | None, typer.Option(help="Export only this problem family; the option may be repeated.")
    ] = None,
    solver: Annotated[
        list[str] | None, typer.Option(help="Export only this solver; the option may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of an earlier export.")] = False,
) -> None:
    """Write a benchopt benchmark: the certificate as objective, one dataset per problem family, one file per solver.

    Examples:

        gfy export benchopt benchmark_gfy

        gfy export benchopt benchmark_gfy --problem pairwise-gini --solver DualNewton --solver ProjectedGradient
    """
    from bench.exports.benchopt import export

    files = export(out, problem or (), solver or (), force)
    typer.echo(f"{len(files)} files written. In an environment that has benchopt: benchopt run {out}")


@app.command()
def otava(
    stores: Annotated[
        list[Path], typer.Argument(help="Read these result files, with rows of several commits.")
    ],
    out: Annotated[Path, typer.Option(help="Write the series and otava.yaml to this folder.")] = Path(
        "results/otava"
    ),
    run: Annotated[
        bool, typer.Option("--run", help="Also run Otava and keep its verdict in verdict.json.")
    ] = False,
    program: Annotated[str, typer.Option(help="Run Otava by this command or path.")] = "otava",
) -> None:
    """Write the history of stored rows for Apache Otava, which finds change points.

    Examples:

        gfy export otava results/compare.sqlite --out results/otava

        gfy export otava results/compare.sqlite --run --program /opt/otava/bin/otava
    """
    from bench.exports.otava import export, verdict

    names = export(stores, out)
    typer.echo(f"{len(names)} series written. OTAVA_CONFIG={out / 'otava.yaml'} otava analyze {names[0]}")
    if run:
        found = verdict(out, names, program)
        typer.echo(f"{sum(len(changes) for changes in found.values())} change points: {out / 'verdict.json'}")
