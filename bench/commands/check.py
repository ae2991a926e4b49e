"""`gfy check`: does a solver keep the promises of the protocol?"""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.complete import solvers


def check(
    name: Annotated[
        str, typer.Argument(help="A solver's name, or path/to/file.py:Name.", autocompletion=solvers)
    ],
) -> None:
    """Run the conformance suite on a solver, ours or your own; exits 1 when a check fails.

    Correct, feasible, a batch is a loop of singles, permutation-equivariant, warm starts do not hurt, staging
    is safe, the dtype is kept, and what is not supported is said.

    Examples:

        gfy check DualNewton

        gfy check my/solver.py:Mine
    """
    from rich.console import Console
    from rich.table import Table

    from bench.registry import make_solver
    from solvers.conformance import run

    solver = make_solver(name)
    table = Table("check", "", "detail", title=f"{solver.name}")
    failed = 0
    for what, ok, detail in run(solver):
        failed += not ok
        table.add_row(what, "[green]ok[/]" if ok else "[red]FAILS[/]", str(detail or ""))
    Console().print(table)
    if failed:
        typer.echo(f"{failed} checks fail.", err=True)
        raise typer.Exit(1)
