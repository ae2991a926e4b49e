"""Implement `gfy report`: write a page from stored rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    html = "html"
    md = "md"
    pdf = "pdf"
    latex = "latex"


def report(
    results: Annotated[
        list[Path] | None,
        typer.Option(
            help="Read this result file; the option may be repeated (default: all comparisons in ./results)."
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Show this published run (see `gfy archive list`) beside them; the option may be repeated.",
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            help="Use the archive in this folder or at this address (default: GFY_ARCHIVE, then the project's own)."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Write the report to this folder.")] = Path("results/report"),
    format: Annotated[
        list[Format] | None,
        typer.Option(
            "--format", help="Write html (the default), md, latex or pdf; the option may be repeated."
        ),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option("--compare", help="Compare these two result files.")
    ] = None,
    history: Annotated[
        bool,
        typer.Option("--history", help="Show time, gap and gradient error per commit, with changes marked."),
    ] = False,
    otava: Annotated[
        Path | None, typer.Option(help="Show with --history the verdict.json of `gfy export otava --run`.")
    ] = None,
    tol: Annotated[float, typer.Option(help="Compare choices at this certified relative gap.")] = 1e-6,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page when it is written.")] = False,
) -> None:
    """Turn stored rows into one self-contained page, with every figure and table beside it.

    Examples:

        gfy report --results results/compare.sqlite --open

        gfy report --format md --format latex

        gfy report --with laptop-2026

        gfy report --compare before.sqlite after.sqlite

        gfy report --history --results monday.sqlite --results tuesday.sqlite
    """
    formats = [f.value for f in format or [Format.html]]
    if compare is not None:
        from reports.pages.compare_page import build_comparison

        page = build_comparison(compare[0], compare[1], out, formats)
    elif history:
        from reports.data.sources import default_results
        from reports.pages.history import build_history

        page = build_history(results or default_results(), out, formats, otava)
    else:
        from reports.data.sources import default_results
        from reports.pages.render import build_report

        own = results or default_results()
        page = build_report([*own, *published(own, beside or [], index)], out, formats, tol)
    typer.echo(f"Report: {page}")
    if open_it:
        import webbrowser

        webbrowser.open(Path(page).absolute().as_uri())


def published(own: list[Path], names: list[str], index: str | None) -> list[Path]:
    """Return the rows of published runs, fetched, and say which of them come from other machines."""
    if not names:
        return []
    from bench.sharing import archive
    from reports.data.load import load

    here = set(load(own).frame.machine)
    where = archive.place(index)
    found = []
    for name in names:
        file = archive.fetch(where, name)
        machines = sorted(set(load([file]).frame.machine))
        other = [machine for machine in machines if machine not in here]
        rule = (
            "no time of one machine is compared with a time of another"
            if other
            else "the machine of your rows"
        )
        typer.echo(f"Beside them: {name}, measured on {', '.join(machines)} ({rule}).")
        found.append(file)
    return found
