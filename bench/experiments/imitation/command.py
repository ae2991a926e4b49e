"""What `gfy reproduce imitation` computes: the cells that are missing, one row per seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from bench.measure.environment import cores
from gfy.errors import GfyValueError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from bench.experiments.imitation.experiment import Experiment
    from bench.experiments.imitation.rows import Cell
    from bench.store import Store


@dataclass(frozen=True)
class Options:
    """The command's options with their defaults filled in and checked."""

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
    """One cell of the figure: a model of a task, under one setting, from so many trajectories."""

    setting: str
    trajectories: int
    task: Task
    model: str


def reproduce(options: Options, show: Callable[[pd.DataFrame], None] = lambda rows: None) -> None:
    """Run the experiment; interrupted, the same command goes on where it stopped.

    Args:
        options: What to run.
        show: Is handed all stored rows at the end, also of an interrupted run.
    """
    from rich.console import Console

    from bench.store import Store

    console = Console()
    say = partial(console.print, soft_wrap=True, highlight=False)  # one line each, also in a log
    began = time.perf_counter()
    with Store(options.out / "imitation.sqlite") as store, _progress(console) as progress:
        experiment = _experiment(options, store, say, progress=progress)
        for task in options.tasks:  # missing data or too few trajectories: said before anything runs
            for count in options.trajectories:
                experiment.demonstrations(task).first(count)
        # The most trajectories first, the paper's settings before the search: a part is worth reading.
        parts = [
            Part(setting, count, task, model)
            for count in options.trajectories
            for setting in options.settings
            for task in options.tasks
            for model in MODELS
        ]
        try:
            if options.jobs > 1 and len(parts) > 1:
                _in_processes(options, experiment, parts)
            else:
                for part in parts:
                    _run(options, experiment, part)
        except KeyboardInterrupt:
            say("Stopped; what was finished is stored. Give the same command again to go on.")
            show(store.frame())
            raise SystemExit(130) from None
        show(store.frame())
        if options.video:
            _videos(options, experiment, say)
        say(f"Done in {time.perf_counter() - began:.0f} s.")


def _experiment(options: Options, store: Store, say: Callable[[str], None], **more: Any) -> Experiment:
    from bench.experiments.imitation.experiment import Experiment

    return Experiment(store, options.out / "imitation-policies", options.data_dir, say, **more)


def _run(options: Options, experiment: Experiment, part: Part) -> None:
    cell = _cell(options, experiment, part)
    experiment.run([cell], range(options.seeds), options.episodes)


def _cell(options: Options, experiment: Experiment, part: Part) -> Cell:
    if part.setting == "paper":
        setting = PAPER[part.model].with_steps(options.steps)
    else:  # once a model and task: after that the search finds its rows stored
        setting = experiment.search(part.task, part.model, options.grid, options.steps)
    return experiment.cell(part.task, part.model, part.setting, part.trajectories, setting)


def _in_processes(options: Options, experiment: Experiment, parts: list[Part]) -> None:
    from bench.experiments.common.side_by_side import side_by_side

    calls = [(options, part) for part in parts]
    for done, (_, lines) in enumerate(side_by_side(_alone, calls, options.jobs), start=1):
        for line in lines:
            experiment.say(line)
        if experiment.progress is not None:
            experiment.progress("cells", done, len(parts))


def _alone(options: Options, part: Part) -> list[str]:
    """One part in a process of its own: its rows are in the store when it returns what there is to say."""
    from bench.store import Store

    lines: list[str] = []
    with Store(options.out / "imitation.sqlite") as store:
        _run(options, _experiment(options, store, lines.append, threads=1), part)
    return lines


def _videos(options: Options, experiment: Experiment, say: Callable[[str], None]) -> None:
    from bench.experiments.imitation.evaluation import trained_policy
    from bench.experiments.imitation.models import Model
    from bench.experiments.imitation.video import film

    for task in options.tasks:
        part = Part(options.settings[-1], max(options.trajectories), task, "pairwise")
        cell = _cell(options, experiment, part)
        setting = cell.setting
        model = Model("pairwise", task.observations, task.actions, setting.hidden, setting.gamma)
        trained = experiment.policy(model, cell, seed=0)
        policy = trained_policy(model, trained.parameters, trained.scaling)
        _, sentence = film(task, policy, options.out / f"imitation-{task.name}")
        say(sentence)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar of what is being done; nothing where the output is not a terminal."""
    from rich.progress import Progress

    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        line = bar.add_task("", total=1)
        yield lambda what, done, total: bar.update(line, description=what, completed=done, total=total)
