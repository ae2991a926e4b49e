"""Implement `gfy archive`: list, fetch and add published runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="List, fetch and add published runs.")

Index = Annotated[
    str | None,
    typer.Option(
        help="Use the archive in this folder or at this address (default: GFY_ARCHIVE, then the project's own)."
    ),
]


@app.command("list")
def list_runs(
    index: Index = None,
    problem: Annotated[str | None, typer.Option(help="List only runs that hold this problem family.")] = None,
    machine: Annotated[
        str | None, typer.Option(help="List only machines whose name begins with this text.")
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="List only versions or commits that begin with this text.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="List only runs with rows on this day or later, such as 2026-11-01.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="List only runs with rows on this day or earlier.")
    ] = None,
) -> None:
    """List the published runs, newest first.

    Examples:

        gfy archive list

        gfy archive list --problem pairwise-gini --since 2026-11-01
    """
    from bench.commands.terminal import show
    from bench.sharing import archive

    found = archive.chosen(archive.runs(archive.place(index)), problem, machine, version, since, until)
    if not found:
        typer.echo("No published run fits.")
        return
    lines = [
        (run.name, str(run.rows), ", ".join(run.machines), run.version, ", ".join(c[:10] for c in run.commits),
         str(len(run.problems)), run.first[:10], run.last[:10])
        for run in found
    ]  # fmt: skip
    show(("name", "rows", "machines", "version", "commits", "problems", "from", "to"), lines)


@app.command()
def fetch(
    names: Annotated[
        list[str], typer.Argument(help="Name the published runs as `gfy archive list` shows them.")
    ],
    index: Index = None,
) -> None:
    """Fetch published runs into the cache, checked by SHA-256, and say where their rows are.

    Example:

        gfy archive fetch laptop-2026
    """
    from bench.sharing import archive

    where = archive.place(index)
    for name in names:
        typer.echo(str(archive.fetch(where, name)))


@app.command()
def add(
    packs: Annotated[list[Path], typer.Argument(help="Give packs that `gfy submit pack` wrote.")],
    index: Annotated[Path, typer.Option(help="Use the archive in this folder.")] = Path("docs/published"),
    solve: Annotated[bool, typer.Option("--solve/--no-solve", help="Also solve sampled rows again.")] = True,
) -> None:
    """Check packs and list those without a fault in the archive of a folder; exit with 1 where one has a fault.

    Example:

        gfy archive add packs/laptop.zip --index docs/published
    """
    from bench.sharing import archive

    refused = False
    for pack in packs:
        found = archive.add(pack, index, solve)
        for said in found.faults:
            typer.echo(said)
        typer.echo(found.verdict)
        refused = refused or bool(found.faults)
    if refused:
        raise typer.Exit(1)


@app.command()
def verify(
    index: Annotated[Path, typer.Argument(help="Use the archive in this folder.")] = Path("docs/published"),
) -> None:
    """Check that the index of a folder lists all its packs as they are; exit with 1 where it does not.

    Example:

        gfy archive verify docs/published
    """
    from bench.sharing import archive

    found = archive.faults(index)
    for said in found:
        typer.echo(said)
    if found:
        raise typer.Exit(1)
    typer.echo(f"{index}: every pack is listed as it is")
