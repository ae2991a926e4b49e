"""`gfy explain`: which theorems, solvers and gradient modes apply to a problem, and why not the others."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.complete import problems


def explain(
    problem: Annotated[
        str, typer.Argument(help="A problem's name, or path/to/file.py:Name.", autocompletion=problems)
    ],
) -> None:
    """Say which solvers and gradient modes apply to a problem, and why not the others.

    Examples:

        gfy explain pairwise-gini

        gfy explain spen-gini
    """
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    import gfy
    from bench import registry

    name, params = registry.parse(problem)
    family = registry.make_family(name)
    instance = family.make(np.random.default_rng(0), **{**family.defaults, **params})
    inner, console = instance.problem, Console()
    console.print(f"{family.name}: {inner.name}, k = {instance.k}, batch = {instance.batch}")
    if hasattr(gfy, "explain"):
        console.print(str(gfy.explain(inner)))
    else:
        shape = "concave in p" if inner.concave else "not concave in p: only stationarity can be certified"
        console.print(f"The objective is {shape}; strong concavity {inner.strong_concavity:g}.")
    table = Table("solver", *registry.GRADIENTS)
    for solver in (registry.make_solver(text) for text in registry.solver_classes()):
        answers = [cls().unsupported(inner, solver) for cls in registry.GRADIENTS.values()]
        table.add_row(solver.name, *("yes" if a is None else str(a) for a in answers))
    console.print(table)
