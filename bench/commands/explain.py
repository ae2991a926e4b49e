"""Implement `gfy explain`: which theorems, solvers and gradient modes apply to a problem, and why others do not."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.complete import problems


def explain(
    problem: Annotated[
        str, typer.Argument(help="Name the problem, or give path/to/file.py:Name.", autocompletion=problems)
    ],
) -> None:
    """Say which theorems, solvers and gradient modes apply to a problem, and why others do not.

    Examples:

        gfy explain pairwise-gini

        gfy explain spen-gini
    """
    import numpy as np

    from bench.plan import registry
    from gfy.explain import explain as explained

    name, params = registry.parse(problem)
    family = registry.make_family(name)
    instance = family.make(np.random.default_rng(0), **{**family.defaults, **params})
    solvers = [registry.make_solver(text) for text in registry.solver_classes()]
    typer.echo(str(explained(instance.problem, k=instance.k, solvers=solvers)))
