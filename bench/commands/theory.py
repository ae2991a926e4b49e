"""Implement `gfy theory`: check the paper's theorems and remarks by experiment; rows go to theory.sqlite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bench.commands.options import DataDir, Quick

app = typer.Typer(
    no_args_is_help=True, help="Check the paper's theorems by experiment; every study stores rows."
)

Out = Annotated[
    Path,
    typer.Option(
        "--out", help="Write theory.sqlite to this folder; what is stored there is not measured again."
    ),
]
Framework = Annotated[str, typer.Option("--backend", help="Choose jax or torch.")]


@app.command("calibration")
def calibration(
    out: Out = Path("results"),
    quick: Quick = False,
    draws: Annotated[
        int | None,
        typer.Option(min=2, help="Draw this many distributions and inputs per case (default 20000)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draw from this seed.")] = 0,
    backend: Framework = "torch",
) -> None:
    """Check whether the calibration bound 8 sigma^2 M is ever broken, and how tight it is.

    The command exits with 1 where the bound is broken.

    Examples:

      gfy theory calibration --quick

      gfy theory calibration --out docs/results
    """
    import json

    from bench.experiments.theory.calibration import run

    rows = _study(out, lambda store, say: run(store, say, draws or (500 if quick else 20_000), seed, backend))
    broken = sum(json.loads(row["extra"])["violations"] for row in rows)
    largest = max(row["score"] for row in rows)
    typer.echo(
        f"{len(rows)} cases, {broken} violations; the largest ratio of the two sides is {largest:.3f}."
    )
    if broken:
        raise typer.Exit(1)


@app.command("dc")
def difference_of_convex(
    out: Out = Path("results"),
    quick: Quick = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Start from this many first draws of the parameters (default 3)."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(min=30, help="Spend this many gradient evaluations per training (default 600)."),
    ] = None,
    dataset: Annotated[str, typer.Option(help="Name the dataset as `gfy data list` shows it.")] = "yeast",
    data_dir: DataDir = None,
) -> None:
    """Train rectifier, maxout and log-sum-exp networks by the convex-concave procedure and by Adam.

    Examples:

      gfy theory dc --quick

      gfy theory dc --seeds 5 --out docs/results
    """
    from bench.experiments.theory.convex_concave import run

    sizes = (seeds or (1 if quick else 3), budget or (60 if quick else 600))
    rows = _study(out, lambda store, say: run(store, say, *sizes, data_dir=data_dir, dataset=dataset))
    typer.echo(f"{len(rows)} trainings stored.")


@app.command("structured")
def structured(
    out: Out = Path("results"),
    quick: Quick = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Make this many draws per case (default 3).")
    ] = None,
    backend: Framework = "torch",
) -> None:
    """Solve over sequences and matchings with an oracle alone, compare with listing them, and train a tagger
    three ways.

    Examples:

      gfy theory structured --quick
    """
    from bench.experiments.theory.structured import run

    rows = _study(out, lambda store, say: run(store, say, seeds or (1 if quick else 3), quick, backend))
    typer.echo(f"{len(rows)} rows stored.")


def _study(out: Path, run: Any) -> list[dict[str, Any]]:
    from bench.store import Store

    with Store(out / "theory.sqlite") as store:
        rows: list[dict[str, Any]] = run(store, typer.echo)
    typer.echo(f"Written: {out / 'theory.sqlite'}.")
    return rows
