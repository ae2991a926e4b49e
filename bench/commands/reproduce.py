"""Implement `gfy reproduce`: run the paper's experiments again and show the results beside its numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands import beyond
from bench.commands.options import DataDir
from bench.commands.reproduce_imitation import imitation

if TYPE_CHECKING:
    import pandas as pd

    from bench.experiments.multilabel.command import Options

app = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments again (multilabel, imitation), and others beyond it (amortised, minmin, "
    "ranking, roots).",
)


@app.command("multilabel")
def multilabel(
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="Use this dataset; the option may be repeated (default: all six)."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help="Fill the table energies, gradients or losses; the option may be repeated (default: all).",
        ),
    ] = None,
    study: Annotated[
        list[str] | None,
        typer.Option(
            "--study",
            help="Run a study: significance, tolerance, time, gain, recipe or finalists; no table is filled.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Train 8 settings for 10 epochs with one seed; this takes a minute and is not the paper's protocol.",
        ),
    ] = False,
    stored_only: Annotated[
        bool, typer.Option("--stored-only", help="Write the tables from the stored rows and train nothing.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Train this many cells at a time (default: one per core).")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="Send cells to this Dask scheduler, for example tcp://host:8786."),
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path, typer.Option("--out", help="Write multilabel.sqlite and the tables to this folder.")
    ] = Path("results"),
) -> None:
    """Train the paper's three tables on six datasets and show our figures beside the paper's.

    Every cell tries 50 settings and trains 3 seeds. A run that was stopped goes on where it stopped.

    Examples:

      gfy reproduce multilabel --quick --dataset yeast

      gfy reproduce multilabel --dataset yeast --table energies

      gfy reproduce multilabel --out docs/results
    """
    from bench.experiments.multilabel.command import Options, reproduce

    options = Options(
        tuple(dataset or ()),
        tuple(table or ()),
        tuple(study or ()),
        quick,
        jobs,
        scheduler,
        data_dir,
        out,
        stored_only,
    )
    reproduce(options, partial(show_multilabel, options))


def show_multilabel(options: Options, rows: pd.DataFrame) -> None:
    """Print the pages of the stored rows after a quick run, else write them beside the store."""
    from reports.pages import multilabel as pages

    if options.studies:
        for name in options.studies:
            typer.echo(f"wrote {pages.write_study(rows, name, options.out, options.datasets)}")
    elif options.quick:
        typer.echo(pages.page(rows, options.datasets, options.tables))
    else:  # The files hold all that is stored, and not only what this command asked for.
        for path in pages.write_multilabel(rows, options.out):
            typer.echo(f"wrote {path}")


app.command("imitation")(imitation)
app.command("amortised")(beyond.amortised)
app.command("minmin")(beyond.minmin)
app.command("ranking")(beyond.ranking)
app.command("roots")(beyond.roots)
