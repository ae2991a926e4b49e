"""`gfy regressions BASE HEAD` tells whether a commit made anything slower, less accurate, or its gradient worse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def regressions(
    base: Annotated[str, typer.Argument(help="Compare with this commit, branch or tag.")],
    head: Annotated[
        str, typer.Argument(help="Judge this commit, branch or tag; `.` is the working copy as it is.")
    ] = ".",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            "-k",
            help="Measure only cells whose name contains this text; the option may be repeated.",
        ),
    ] = None,
    launches: Annotated[int, typer.Option(min=1, help="Start both processes this many times.")] = 3,
    rounds: Annotated[int, typer.Option(min=2, help="Take this many turns per commit and start.")] = 12,
    seeds: Annotated[
        int, typer.Option(min=1, help="Compare certificate and gradient on this many inputs.")
    ] = 5,
    matters: Annotated[
        float,
        typer.Option(min=0.0, help="Treat two times as equal where they differ by less than this fraction."),
    ] = 0.05,
    repo: Annotated[Path, typer.Option(help="Compare commits of this checkout.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Measure two commits in turns and say for every cell: better, same, worse, or cannot tell.

    Each verdict has a 99% interval. The command exits with 1 where a cell is worse.

    Examples:

      gfy regressions main HEAD

      gfy regressions HEAD~1 . --only DualNewton --only torch
    """
    import json
    from dataclasses import asdict

    from bench.gates.regressions.cells import choose
    from bench.gates.regressions.gate import Effort, compare_commits
    from bench.gates.regressions.show import table

    cells = choose(only or [])
    effort = Effort(launches=launches, rounds=rounds, seeds=seeds)
    verdicts = compare_commits(
        repo.resolve(),
        base,
        head,
        cells,
        effort,
        matters,
        lambda name: typer.echo(f"measuring {name}", err=True),
    )
    if as_json:
        typer.echo(json.dumps([asdict(v) for v in verdicts], indent=1))
    else:
        table(verdicts)
    if any(v.verdict == "worse" for v in verdicts):
        raise typer.Exit(1)
