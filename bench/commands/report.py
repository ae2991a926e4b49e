"""`gfy report`: from stored rows to a page."""

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
            help="Result files; may be given several times (default: all comparisons in ./results)."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("results/report"),
    format: Annotated[
        list[Format] | None, typer.Option("--format", help="May be given several times.")
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option("--compare", help="Two result files, set side by side.")
    ] = None,
    tol: Annotated[float, typer.Option(help="Certified relative gap at which choices are compared.")] = 1e-6,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page when it is written.")] = False,
) -> None:
    """Turn stored rows into one self-contained page, with every figure and table beside it.

    Examples:

        gfy report --results results/compare.sqlite --open

        gfy report --format md --format latex

        gfy report --compare before.sqlite after.sqlite
    """
    formats = [f.value for f in format or [Format.html]]
    if compare is not None:
        from reports.pages.compare_page import build_comparison

        page = build_comparison(compare[0], compare[1], out, formats)
    else:
        from reports.data.sources import default_results
        from reports.pages.render import build_report

        page = build_report(results or default_results(), out, formats, tol)
    typer.echo(f"Report: {page}")
    if open_it:
        import webbrowser

        webbrowser.open(Path(page).absolute().as_uri())
