"""Implement `gfy records`: export, merge, migrate, verify and show stored rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Export, merge, migrate, verify and show stored rows.")

Sources = Annotated[
    list[Path], typer.Argument(help="Read these result files, such as results/compare.sqlite.")
]


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
    from bench.store import RecordsError
    from bench.store.maintenance import export as write

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
    out: Annotated[Path, typer.Option(help="Write the rows to this result file.")],
) -> None:
    """Merge the rows of several files, for example from several machines, into one.

    Example:

        gfy records merge laptop.sqlite server.sqlite --out all.sqlite
    """
    from bench.store.maintenance import merge as join

    done = join(out, sources)
    typer.echo(f"{out}: {done.added} rows added, {done.replaced} replaced by a better one, {done.kept} kept")


@app.command()
def migrate(
    sources: Sources,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the new files to this folder (default: each file is replaced in its place)."
        ),
    ] = None,
) -> None:
    """Rewrite files of an older schema in the newest one; their rows keep every value.

    Examples:

        gfy records migrate results/compare.sqlite

        gfy records migrate old/compare.sqlite old/theory.sqlite --out results
    """
    from bench.store.migration import migrate as rewrite

    for source in sources:
        target = source if out is None else out / source.name
        done = rewrite(source, None if out is None else target)
        gone = f", {done.dropped} of them gave way to a newer row of the same cell" if done.dropped else ""
        typer.echo(f"{target}: {done.rows + done.dropped} rows migrated{gone}")


@app.command()
def verify(sources: Sources) -> None:
    """Check the schema, the keys and the values of all rows; the command exits with 1 when something is wrong.

    Example:

        gfy records verify results/compare.sqlite
    """
    from bench.store import read
    from bench.store.maintenance import verify as check

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
    source: Annotated[Path, typer.Argument(help="Read this result file.")],
    key: Annotated[
        str, typer.Argument(help="Give the first letters of a row's key, as the report shows it.")
    ],
) -> None:
    """Show everything that is stored about one row, with units and the meaning of each column.

    Example:

        gfy records show results/compare.sqlite 3fa91c
    """
    from bench.commands.terminal import show as print_table
    from bench.store import FIELDS, RecordsError, read
    from bench.store.read import plain_rows

    frame = read(source)
    found = frame[frame.key.str.startswith(key)]
    if found.empty:
        raise RecordsError(
            f"No row of {source} has a key that begins with {key!r}: the report, `gfy records export` and the "
            "answers of `gfy recommend` name the keys."
        )
    if len(found) > 1:
        raise RecordsError(
            f"{len(found)} rows of {source} have a key that begins with {key!r}: give more of it."
        )
    (row,) = plain_rows(found)
    told = ((n, f"{row[n]} {c.unit}".rstrip(), c.about) for n, c in FIELDS.items() if row[n] is not None)
    print_table(["column", "value", "meaning"], told)
