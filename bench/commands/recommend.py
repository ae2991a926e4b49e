"""Implement `gfy recommend`: name the best measured choice for a problem like yours."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Need(StrEnum):
    solve = "solve"
    loss_gradient = "loss-gradient"
    argmax_gradient = "argmax-gradient"


def recommend(
    energy: Annotated[str, typer.Option(help="Name the energy, for example pairwise.")],
    k: Annotated[int, typer.Option(min=1, help="Give the number of labels (the size of p).")],
    rank: Annotated[
        int | None, typer.Option(min=1, help="Give the rank of the interactions, where they have one.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Give the number of examples that are solved at once.")
    ] = 1,
    device: Annotated[str, typer.Option(help="Choose cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="Choose float64 or float32.")] = "float64",
    need: Annotated[
        Need, typer.Option(help="Choose loss-gradient, argmax-gradient (p* with dp*/dv) or solve (p* alone).")
    ] = Need.loss_gradient,
    tol: Annotated[
        float, typer.Option(help="Accept answers with at most this certified relative gap.")
    ] = 1e-6,
    regularizer: Annotated[
        str | None, typer.Option(help="Name the regularizer, for example BinaryGini.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Name the set, for example Box.")] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="Choose jax or torch (default: what is installed, both where both are)."),
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            help="Read this result file; the option may be repeated (default: all comparisons in ./results)."
        ),
    ] = None,
) -> None:
    """Name the best measured solver and gradient mode, with the evidence and the code to use it.

    Examples:

        gfy recommend --energy pairwise --k 174 --rank 1 --batch 256

        gfy recommend --energy spen --k 50 --batch 32 --need argmax-gradient --dtype float32

        gfy recommend --energy LinearQuadratic --k 80 --batch 128 --backend torch --need argmax-gradient
    """
    from reports.answers.recommend import recommend as answer

    found = answer(
        energy, k, rank=rank, batch=batch, device=device, dtype=dtype, need=need.value, tol=tol,
        regularizer=regularizer, domain=domain, results=results, backend=backend,
    )  # fmt: skip
    typer.echo(found.text())
