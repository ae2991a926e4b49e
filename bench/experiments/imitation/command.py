"""Compute what `gfy reproduce imitation` shows: the cells that are missing, one row per seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.experiments.imitation.models import MODELS
from bench.experiments.imitation.settings import (
    PAPER,
    SETTINGS,
    STEPS,
    TRAJECTORIES,
    Grid,
    find_grid,
)
from bench.experiments.imitation.tasks import Task, find_tasks
from bench.store.environment import cores
from gfy.errors import GfyValueError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from bench.experiments.imitation.experiment import Experiment
    from bench.experiments.imitation.rows import Cell


@dataclass(frozen=True)
class Options:
    """Hold the command's options with their defaults filled in and checked."""

    tasks: list[Task]
    trajectories: list[int]
    settings: list[str]
    seeds: int
    episodes: int
    steps: int
    grid: Grid
    video: bool
    jobs: int
    data_dir: Path | None
    out: Path

    @classmethod
    def of(
        cls,
        tasks: Sequence[str] | None,
        trajectories: Sequence[int] | None,
        settings: Sequence[str] | None,
        quick: bool,
        seeds: int | None,
        episodes: int | None,
        steps: int | None,
        grid: str | None,
        video: bool,
        jobs: int | None,
        data_dir: Path | None,
        out: Path,
    ) -> Options:
        """Fill in the defaults (those of the paper, or the quick ones) and check the rest."""
        chosen = list(dict.fromkeys(settings or (("paper",) if quick else SETTINGS)))
        if unknown := [name for name in chosen if name not in SETTINGS]:
            raise GfyValueError(
                f"setting {unknown[0]!r} is not known; the settings are {', '.join(SETTINGS)}."
            )
        counts = list(dict.fromkeys(trajectories or ((11,) if quick else sorted(TRAJECTORIES, reverse=True))))
        if min(counts) < 1:
            raise GfyValueError(f"--trajectories {min(counts)} is too few; ask for 1 or more.")
        return cls(
            find_tasks(tasks or (["hopper"] if quick else None)),
            counts,
            chosen,
            seeds or (2 if quick else 10),
            episodes or (10 if quick else 100),
            steps or STEPS,
            find_grid(grid or ("quick" if quick else "short")),
            video,
            jobs or (1 if quick else cores()),
            data_dir,
            out,
        )


@dataclass(frozen=True)
class Part:
    """Describe one cell of the figure: a model of a task, under one setting, from so many trajectories."""

    setting: str
    trajectories: int
    task: Task
    model: str


def reproduce(options: Options, show: Callable[[pd.DataFrame], None] = lambda rows: None) -> None:
    """Run the experiment; the same command continues an interrupted run.

    Args:
        options: What to run.
        show: Is handed all stored rows at the end, also of an interrupted run.
    """
    from rich.console import Console

    from bench.experiments.imitation.experiment import Experiment, Stopped
    from bench.measure.clock import Stopwatch
    from bench.store import Store

    console = Console()
    say = partial(console.print, soft_wrap=True, highlight=False)  # each message is one line, also in a log
    watch = Stopwatch()
    with Store(options.out / "imitation.sqlite") as store, _progress(console) as progress:
        policies = options.out / "imitation-policies"
        experiment = Experiment(store, policies, options.data_dir, say, options.jobs, progress)
        for task in options.tasks:  # Missing data or too few trajectories raise here, before anything runs.
            for count in options.trajectories:
                experiment.demonstrations(task).first(count)
        try:
            # The most trajectories come first, and the paper's settings before the search, so that the rows
            # of a run that ends early are of use.
            for count in options.trajectories:
                for setting in options.settings:
                    parts = [Part(setting, count, task, model) for task in options.tasks for model in MODELS]
                    cells = [[_cell(options, experiment, part)] for part in parts]
                    experiment.run(cells, range(options.seeds), options.episodes)
        except Stopped:
            say("Stopped; what was finished is stored. Give the same command again to go on.")
            show(store.frame())
            raise SystemExit(130) from None
        show(store.frame())
        if options.video:
            _videos(options, experiment, say)
        say(f"Done in {watch.wall_s:.0f} s.")


def _cell(options: Options, experiment: Experiment, part: Part) -> Cell:
    if part.setting == "paper":
        setting = PAPER[part.model].with_steps(options.steps)
    else:  # The search runs once per model and task; after that it finds its rows stored.
        setting = experiment.search(part.task, part.model, options.grid, options.steps)
    return experiment.cell(part.task, part.model, part.setting, part.trajectories, setting)


def _videos(options: Options, experiment: Experiment, say: Callable[[str], None]) -> None:
    from bench.experiments.imitation.evaluation import trained_policy
    from bench.experiments.imitation.program import model_of
    from bench.experiments.imitation.video import film

    for task in options.tasks:
        part = Part(options.settings[-1], max(options.trajectories), task, "pairwise")
        cell = _cell(options, experiment, part)
        trained = experiment.policy(cell, seed=0)
        policy = trained_policy(model_of(cell), trained.parameters, trained.scaling)
        _, sentence = film(task, policy, options.out / f"imitation-{task.name}")
        say(sentence)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show a line about the progress of the work, where the output is a terminal."""
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update
