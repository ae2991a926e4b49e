"""`gfy records`: what is done with stored rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Export, merge, verify and show stored rows.")

Sources = Annotated[list[Path], typer.Argument(help="Result files, such as results/compare.sqlite.")]


@app.command()
def export(
    sources: Sources,
    parquet: Annotated[Path | None, typer.Option(help="Write a Parquet file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a CSV file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file where it exists.")] = False,
) -> None:
    """Write the rows of some result files as Parquet or CSV.

    Example:

        gfy records export results/compare.sqlite --parquet rows.parquet
    """
    from bench.store.maintenance import export as write
    from bench.store.records import RecordsError

    wanted = [
        (given, suffix) for given, suffix in ((parquet, ".parquet"), (csv, ".csv")) if given is not None
    ]
    if not wanted:
        raise RecordsError("Say where to: --parquet FILE or --csv FILE.")
    for given, suffix in wanted:
        target = given if given.suffix == suffix else given.with_name(given.name + suffix)
        typer.echo(f"{write(sources, target, force)} rows written to {target}")


@app.command()
def merge(
    sources: Sources,
    out: Annotated[Path, typer.Option(help="The result file that receives the rows.")],
) -> None:
    """Bring the rows of several files, say of several machines, into one.

    Example:

        gfy records merge laptop.sqlite server.sqlite --out all.sqlite
    """
    from bench.store.maintenance import merge as join

    done = join(out, sources)
    typer.echo(f"{out}: {done.added} rows added, {done.replaced} replaced by a better one, {done.kept} kept")


@app.command()
def verify(sources: Sources) -> None:
    """Check schema, hashes and orphan rows; exits 1 when something is wrong.

    Example:

        gfy records verify results/compare.sqlite
    """
    from bench.store.maintenance import verify as check
    from bench.store.records import read

    wrong = 0
    for source in sources:
        faults = check(source)
        wrong += len(faults)
        for fault in faults:
            typer.echo(f"{source}: {fault}")
        if not faults:
            typer.echo(f"{source}: {len(read(source))} rows, all sound")
    if wrong:
        raise typer.Exit(1)


@app.command()
def show(
    source: Annotated[Path, typer.Argument(help="A result file.")],
    key: Annotated[str, typer.Argument(help="The first letters of a row's key, as the report shows it.")],
) -> None:
    """Show everything that is stored of one row.

    Example:

        gfy records show results/compare.sqlite 3fa91c
    """
    from rich.console import Console
    from rich.table import Table

    from bench.store.records import COLUMNS, RecordsError, read

    frame = read(source)
    found = frame[frame.key.str.startswith(key)]
    if len(found) != 1:
        raise RecordsError(
            f"{len(found)} rows of {source} have a key that begins with {key!r}: give more of it."
        )
    table = Table("column", "value")
    for name in COLUMNS:
        value = found.iloc[0][name]
        if value is not None and value == value:
            table.add_row(name, str(value))
    Console().print(table)
