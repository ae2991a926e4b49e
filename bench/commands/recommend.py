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
    energy: Annotated[str, typer.Option(help="The energy, for example pairwise.")],
    k: Annotated[int, typer.Option(min=1, help="Labels (the size of p).")],
    rank: Annotated[
        int | None, typer.Option(min=1, help="Rank of the interactions, where they have one.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Examples solved at once.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    need: Annotated[Need, typer.Option(help="What you need of the inner problem.")] = Need.loss_gradient,
    tol: Annotated[float, typer.Option(help="Certified relative gap that is good enough.")] = 1e-6,
    regularizer: Annotated[str | None, typer.Option(help="For example BinaryGini.")] = None,
    domain: Annotated[str | None, typer.Option(help="For example Box.")] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="jax or torch (default: the one that is installed; both where both are)."),
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            help="Result files; may be given several times (default: all comparisons in ./results)."
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
