"""`gfy check` checks that a solver keeps the protocol."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Annotated

import typer

from bench.commands.complete import backends, solvers


def check(
    name: Annotated[
        str, typer.Argument(help="Name the solver, or give path/to/file.py:Name.", autocompletion=solvers)
    ],
    backend: Annotated[
        list[str] | None,
        typer.Option(
            help="Check in jax or torch; the option may be repeated (default: what is installed).",
            autocompletion=backends,
        ),
    ] = None,
) -> None:
    """Check that a solver, ours or your own, keeps the protocol; the command exits with 1 when a check fails.

    The checks ask whether answers are correct and feasible, whether a batch gives the same as its examples one by
    one, whether the order of the coordinates and staging change nothing, whether a warm start does no harm, whether
    the dtype is kept, and whether `solve` refuses what `unsupported` refuses. The last line is the total.

    Examples:

        gfy check DualNewton

        gfy check my/solver.py:Mine --backend torch
    """
    # The checks are stated in float64, and JAX reads this variable when it is imported.
    os.environ.setdefault("JAX_ENABLE_X64", "1")

    from bench.commands.terminal import show
    from bench.plan.names import resolve
    from bench.plan.registry import BACKENDS, make_solver
    from bench.store.media import visible
    from solvers.conformance import run

    solver = make_solver(name)
    chosen = [
        resolve(b, BACKENDS, "backend") for b in backend or [b for b in BACKENDS if find_spec(b) is not None]
    ]
    rows = [row for name in chosen for row in run(solver, name)]
    failed, total, called = sum(not ok for _, ok, _ in rows), len(rows), visible(solver.name)
    lines = [(what, "ok" if ok else "FAILS", detail or "") for what, ok, detail in rows]
    show(("check", "result", "detail"), lines, called)
    where = " and ".join(chosen)
    if failed:
        typer.echo(f"{failed} of {total} checks fail for {called} in {where}.", err=True)
        raise typer.Exit(1)
    typer.echo(f"All {total} checks pass for {called} in {where}.")
