"""Implement `gfy reproduce imitation`: the paper's second experiment, from demonstrations to figure and table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pandas as pd

    from bench.experiments.imitation.command import Options


def imitation(
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            help="Use halfcheetah, hopper, walker2d or ant; the option may be repeated (default: all).",
        ),
    ] = None,
    trajectories: Annotated[
        list[int] | None,
        typer.Option(
            "--trajectories",
            help="Learn from this many demonstrations; the option may be repeated (default: 1, 4, 11).",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--setting", help="Use the setting paper or tuned; the option may be repeated (default: both)."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Run one task with the paper's settings, 2 seeds and 10 episodes; this takes minutes.",
        ),
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Train this many runs per cell (default 10).")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Simulate this many episodes per run (default 100).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Take this many training steps (default 20000).")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            help="Search this grid for --setting tuned: paper (108 settings), wide (72), short (4) or quick (2)."
        ),
    ] = None,
    video: Annotated[
        bool, typer.Option("--video", help="Film an episode of a pairwise policy of each task.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Train this many cells at a time (default: one per core; 1 with --quick)."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Search the demonstrations in this folder before GFY_DATA."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Write rows, policies, table and figure to this folder.")
    ] = Path("results"),
) -> None:
    """Clone expert behaviour in MuJoCo with unary and pairwise energies, and write the table and the figure.

    A run that was stopped goes on where it stopped.

    Examples:

      gfy reproduce imitation --quick

      gfy reproduce imitation --task hopper --trajectories 11 --setting paper

      gfy reproduce imitation --out docs/results
    """
    from bench.experiments.imitation.command import Options

    run(
        Options.of(
            tasks=task,
            trajectories=trajectories,
            settings=setting,
            quick=quick,
            seeds=seeds,
            episodes=episodes,
            steps=steps,
            grid=grid,
            video=video,
            jobs=jobs,
            data_dir=data_dir,
            out=out,
        )
    )


def run(options: Options) -> None:
    """Run the experiment and write its pages from all stored rows."""
    from bench.experiments.imitation.command import reproduce

    reproduce(options, partial(show, out=options.out))


def show(rows: pd.DataFrame, out: Path) -> None:
    """Say what the rows show, and write imitation.csv, .md, .svg and .png."""
    from reports.answers.imitation import seeds_frame
    from reports.pages.imitation import write_imitation
    from reports.pages.imitation_findings import lines

    for line in lines(seeds_frame(rows)):
        typer.echo(line)
    typer.echo(f"Written: {', '.join(str(path) for path in write_imitation(rows, out))}.")
