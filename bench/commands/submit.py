"""`gfy submit` packs a run for others and checks what others packed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Pack a run so that others can check it, or check a pack.")


@app.command()
def pack(
    store: Annotated[Path, typer.Argument(help="Read this result file, such as results/compare.sqlite.")],
    out: Annotated[Path, typer.Option(help="Write the pack to this folder.")] = Path("packs"),
    name: Annotated[str | None, typer.Option(help="Name the run (default: machine, commit, date).")] = None,
    share: Annotated[float, typer.Option(help="Certify this fraction of the rows again.")] = 0.1,
) -> None:
    """Pack the rows of a run with their environment, commit and checksums, and the solutions of a sample.

    The content of the rows decides which of them are in the sample; these are solved again here. Rows that were
    measured with uncommitted changes or outside any commit are refused, and so is a run of which no row can be
    certified again.

    Example:

        gfy submit pack results/compare.sqlite --out packs
    """
    from bench.sharing.submit import submit

    done = submit(store, out, name, share, lambda text: typer.echo(text, err=True))
    for said in done.not_repeated:
        typer.echo(f"Without its solution: {said}")
    sampled, there = len(done.pack.manifest["sample"]), len(done.pack.points)
    typer.echo(f"{done.path}: {len(done.pack.rows)} rows, {there} of {sampled} sampled solutions")


@app.command()
def check(
    packs: Annotated[list[Path], typer.Argument(help="Give packs that `gfy submit pack` wrote.")],
    solve: Annotated[bool, typer.Option("--solve/--no-solve", help="Also solve sampled rows again.")] = True,
    report: Annotated[
        Path | None, typer.Option(help="Also write the page of the rows that were sent into this folder.")
    ] = None,
) -> None:
    """Check packs that someone sent and name each row that was altered or contradicts itself; exit with 1 in that case.

    The command makes problems again from their seeds, and computes certificates again from the packed solutions.
    Solvers that are here in the measured version solve again. No file that a row names is run.

    Examples:

        gfy submit check packs/laptop.zip

        gfy submit check packs/laptop.zip --no-solve --report page
    """
    from bench.run.worker import limit_memory
    from bench.sharing.check import check as look

    limit_memory(None)  # a row may name a problem that no machine can hold in memory
    refused = False
    for path in packs:
        found = look(path, solve, lambda text: typer.echo(text, err=True))
        for said in (*found.notes, *found.faults):
            typer.echo(said)
        typer.echo(found.verdict)
        refused = refused or bool(found.faults)
        if report is not None:
            typer.echo(f"Report: {page(path, report / found.pack.name)}")
    if refused:
        raise typer.Exit(1)


def page(pack: Path, out: Path) -> Path:
    """Write the report of the rows of a pack."""
    import tempfile

    from bench.sharing.archive import unpacked
    from reports.pages.render import build_report

    with tempfile.TemporaryDirectory(prefix="gfy-") as folder:
        return build_report([unpacked(pack, Path(folder) / f"{pack.stem}.sqlite")], out)
