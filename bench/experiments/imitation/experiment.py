"""Run the experiment cell by cell: what is in the store already is not done again, one row per seed.

A cell is left out when all its seeds are there, and only the missing seeds are trained otherwise. Programs run in
watched workers (see `program`), several side by side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.experiments.common import fill as common
from bench.experiments.imitation import program, rows
from bench.experiments.imitation.demonstrations import Demonstrations, load_demonstrations
from bench.experiments.imitation.program import RANDOM_EPISODES, Work
from bench.experiments.imitation.rows import Cell
from bench.experiments.imitation.settings import SEARCH_SEEDS, SEARCH_TRAJECTORIES, Grid, Setting
from bench.experiments.imitation.tasks import Task
from bench.experiments.imitation.training import Trained
from bench.plan import matrix
from bench.store import Store
from gfy.errors import GfyValueError

Say = Callable[[str], None]


class Stopped(Exception):
    """An interrupt ended the run; the finished rows are stored."""


@dataclass
class Experiment:
    """Hold where rows and policies go, where demonstrations come from, and the function that receives progress."""

    store: Store
    policies: Path
    data_dir: Path | None = None
    say: Say = print
    jobs: int = 1
    progress: Callable[[str], None] = lambda text: None
    _demonstrations: dict[str, Demonstrations] = field(default_factory=dict)

    def demonstrations(self, task: Task) -> Demonstrations:
        if task.name not in self._demonstrations:
            self._demonstrations[task.name] = load_demonstrations(task, self.data_dir)
        return self._demonstrations[task.name]

    def cell(self, task: Task, model: str, name: str, trajectories: int, setting: Setting) -> Cell:
        return Cell(task, model, name, trajectories, setting, rows.digest(self.demonstrations(task)))

    def random(self, task: Task) -> float:
        """Return the mean return of uniform random actions, measured once and stored."""
        key = rows.random_key(task, RANDOM_EPISODES)
        if self.store.get(key) is None:
            part = matrix.Cell(
                rows.random_columns(task, RANDOM_EPISODES), work=partial(program.random_returns, task)
            )
            self._fill([matrix.Group(f"{task.name} random", (part,), common.SETTINGS)], common.JOB)
        stored = self.store.get(key)
        if stored is None or stored["status"] != "ok":
            raise GfyValueError(
                f"random actions of {task.name} could not be simulated: {(stored or {}).get('reason')}"
            )
        return float(stored["score"])

    def run(
        self, programs: Sequence[Sequence[Cell]], seeds: Sequence[int], episodes: int
    ) -> list[list[float]]:
        """Store the rows of programs, each made of cells that share one (all but rate and decay), and return
        the mean scores."""
        groups = [group for cells in programs if (group := self._group(cells, seeds, episodes)).cells]
        self._fill(groups, program.JOB)
        return [[self._score(cell, seeds, episodes) for cell in cells] for cells in programs]

    def _group(self, cells: Sequence[Cell], seeds: Sequence[int], episodes: int) -> matrix.Group:
        """Return the missing policies of a program."""
        first = cells[0]
        missing = [(c, s) for c in cells for s in seeds if not self._stored(c, s, episodes)]
        threads = 1 if self.jobs > 1 else None
        random = self.random(first.task) if missing else 0.0
        where = (self.policies, self.data_dir, random, threads)
        parts = [matrix.Cell(c.columns(s, episodes), work=Work(c, s, episodes, *where)) for c, s in missing]
        label = f"{first.task.name} {first.model} {first.name} {first.trajectories}"
        if first.name == "search":
            label += f" hidden {first.setting.hidden} gamma {first.setting.gamma:g}"
        return matrix.Group(label, tuple(parts), common.SETTINGS)

    def _stored(self, cell: Cell, seed: int, episodes: int) -> Any:
        row = self.store.get(cell.row_key(seed, episodes))
        return row if row is not None and row["status"] == "ok" else None

    def _score(self, cell: Cell, seeds: Sequence[int], episodes: int) -> float:
        found = [self._stored(cell, seed, episodes) for seed in seeds]
        if not all(found):
            raise GfyValueError(
                f"a policy of {cell.task.name} {cell.model} {cell.name} could not be trained."
            )
        return float(np.mean([row["score"] for row in found]))

    def _fill(self, groups: Sequence[matrix.Group], job: str) -> None:
        def done(cell: matrix.Cell, row: dict[str, Any]) -> None:
            what = (
                f"return {row['score']:.0f}" if row["status"] == "ok" else f"{row['status']}, {row['reason']}"
            )
            params = row["problem_params"]
            told = " ".join(str(params.get(n, "")) for n in ("task", "model", "setting", "trajectories"))
            self.say(f"{told.strip()}, seed {row['seed']}: {what}")

        told = lambda cell, text: self.progress(text)  # noqa: E731
        if common.fill(self.store, groups, done, told, self.jobs, job=job, say=self.say).stopped:
            raise Stopped

    def policy(self, cell: Cell, seed: int) -> Trained:
        """Return the trained policy of one seed, from its file or trained now."""
        work = Work(cell, seed, 0, self.policies, self.data_dir, 0.0, None)
        return program.policies([work], self.demonstrations(cell.task))

    def search(self, task: Task, model: str, grid: Grid, steps: int) -> Setting:
        """Return the setting with the best final return: 4 trajectories, mean of 3 seeds, as the paper."""
        settings = grid.settings(steps)
        programs: dict[tuple[int, float], list[Setting]] = {}
        for one in settings:
            programs.setdefault((one.hidden, one.gamma), []).append(one)
        cells = [
            [self.cell(task, model, "search", SEARCH_TRAJECTORIES, one) for one in group]
            for group in programs.values()
        ]
        found = self.run(cells, SEARCH_SEEDS, grid.episodes)
        scores = {cell.setting: s for row, group in zip(found, cells, strict=True)
                  for s, cell in zip(row, group, strict=True)}  # fmt: skip
        best = max(settings, key=lambda one: scores[one])
        chosen = json.dumps({n: v for n, v in best.facts().items() if n not in ("steps", "batch")})
        self.say(f"{task.name} {model}: of {len(settings)} settings the best is {chosen}, {scores[best]:.0f}")
        return best
