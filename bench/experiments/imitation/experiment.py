"""Run the experiment cell by cell: train what is missing, evaluate it, store a row a seed.

Whatever is in the store already is not done again: a cell is left out when all its seeds are there, and
only the missing seeds are trained otherwise. Trained policies are kept as files, so that evaluating for
more episodes does not train again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.experiments.imitation import rows
from bench.experiments.imitation.demonstrations import Demonstrations, load_demonstrations
from bench.experiments.imitation.evaluation import compiled, evaluate, random_policy, trained_policy
from bench.experiments.imitation.models import Model
from bench.experiments.imitation.policies import load_policy, save_policy, stacked
from bench.experiments.imitation.rows import Cell
from bench.experiments.imitation.settings import SEARCH_SEEDS, SEARCH_TRAJECTORIES, Grid, Setting
from bench.experiments.imitation.tasks import Task
from bench.experiments.imitation.training import Run, Trained, train
from bench.measure.environment import LoadMeter
from bench.store import Store
from gfy.errors import GfyValueError

RANDOM_EPISODES = 100
Say = Callable[[str], None]


@dataclass
class Experiment:
    """Where rows and policies go, where demonstrations come from, and who is told of progress."""

    store: Store
    policies: Path
    data_dir: Path | None = None
    say: Say = print
    threads: int | None = None  # that simulate; as many as there are cores where none is given
    progress: Callable[[str, int, int], None] | None = None
    _demonstrations: dict[str, Demonstrations] = field(default_factory=dict)

    def demonstrations(self, task: Task) -> Demonstrations:
        if task.name not in self._demonstrations:
            self._demonstrations[task.name] = load_demonstrations(task, self.data_dir)
        return self._demonstrations[task.name]

    def cell(self, task: Task, model: str, name: str, trajectories: int, setting: Setting) -> Cell:
        return Cell(task, model, name, trajectories, setting, rows.digest(self.demonstrations(task)))

    def expert(self, task: Task) -> float:
        """The mean return of all demonstrations of a task."""
        return float(self.demonstrations(task).returns.mean())

    def random(self, task: Task) -> float:
        """The mean return of uniform random actions, measured once and stored."""
        key = rows.random_key(task, RANDOM_EPISODES)
        if (stored := self.store.get(key)) is None:
            got = evaluate(task, random_policy(task.actions), [0], RANDOM_EPISODES)
            self.store.put(rows.random_row(task, got.returns[0], got.lengths[0]))
            stored = self.store.get(key)
        assert stored is not None
        return float(stored["score"])

    def run(self, cells: Sequence[Cell], seeds: Sequence[int], episodes: int) -> list[float]:
        """Store the rows of cells that share one program (all but rate and decay); the mean score of each."""
        missing = [(c, s) for c in cells for s in seeds if not self.store.has(c.row_key(s, episodes))]
        if missing:
            self._measure(missing, episodes)
        stored = [[self.store.get(c.row_key(s, episodes)) for s in seeds] for c in cells]
        return [float(np.mean([row["score"] for row in one if row is not None])) for one in stored]

    def _measure(self, missing: list[tuple[Cell, int]], episodes: int) -> None:
        first = missing[0][0]
        task, label = first.task, f"{first.task.name} {first.model} {first.name} {first.trajectories}"
        expert, random = self.expert(task), self.random(task)
        meter, began = LoadMeter(), time.perf_counter()
        model = Model(first.model, task.observations, task.actions, first.setting.hidden, first.setting.gamma)
        trained = self._policies(model, missing, label)
        train_s = time.perf_counter() - began
        policy = trained_policy(model, trained.parameters, trained.scaling)
        seeds = [seed for _, seed in missing]
        got = evaluate(task, policy, seeds, episodes, self.threads, progress=self._part(f"{label}: episodes"))
        seconds = time.perf_counter() - began
        checks = certificates(model, trained, self.demonstrations(task).first(first.trajectories))
        for i, (cell, seed) in enumerate(missing):
            facts: dict[str, Any] = {
                **{name: float(values[i]) for name, values in checks.items()},
                "loss": float(trained.losses[i]),
                # Times are of the whole program, which trains and evaluates `runs` policies together.
                "runs": len(missing),
                "train_s": train_s,
                "evaluation_s": seconds - train_s,
                "policy_s": got.policy_s,
                "simulation_s": got.simulation_s,
                "compile_s": got.compile_s,
                "load": meter.read(),
            }
            self.store.put(
                rows.trained_row(cell, seed, got.returns[i], got.lengths[i], expert, random, facts)
            )
        self.say(
            f"{label}: mean return {got.returns.mean():.0f} of {expert:.0f} "
            f"({len(missing)} runs x {episodes} episodes; training {train_s:.0f} s, "
            f"evaluation {seconds - train_s:.0f} s)"
        )

    def policy(self, model: Model, cell: Cell, seed: int) -> Trained:
        """The trained policy of one seed, from its file or trained now."""
        return self._policies(model, [(cell, seed)], f"{cell.task.name} {cell.model}")

    def _policies(self, model: Model, missing: list[tuple[Cell, int]], label: str) -> Trained:
        paths = [self.policies / f"{cell.policy_key(seed)}.npz" for cell, seed in missing]
        found = [load_policy(path) for path in paths]
        wanted = [i for i, one in enumerate(found) if one is None]
        if wanted:
            first = missing[0][0]
            data = self.demonstrations(first.task).first(first.trajectories)
            runs = [Run(missing[i][1], missing[i][0].setting.rate, missing[i][0].setting.l2) for i in wanted]
            setting = first.setting
            made = train(model, data, runs, setting.steps, setting.batch, self._part(f"{label}: steps"))
            for place, i in enumerate(wanted):
                theta = {name: value[place] for name, value in made.parameters.items()}
                save_policy(paths[i], theta, made.scaling, float(made.losses[place]))
                one = {name: value[None] for name, value in theta.items()}
                found[i] = Trained(one, made.scaling, made.losses[place : place + 1])
        return stacked([one for one in found if one is not None])

    def _part(self, what: str) -> Callable[[int, int], None] | None:
        report = self.progress
        return None if report is None else lambda done, total: report(what, done, total)

    def search(self, task: Task, model: str, grid: Grid, steps: int) -> Setting:
        """The setting with the best final return: 4 trajectories, mean of 3 seeds, as the paper."""
        settings = grid.settings(steps)
        programs: dict[tuple[int, float], list[Setting]] = {}
        for one in settings:
            programs.setdefault((one.hidden, one.gamma), []).append(one)
        scores: dict[Setting, float] = {}
        for group in programs.values():
            cells = [self.cell(task, model, "search", SEARCH_TRAJECTORIES, one) for one in group]
            scores.update(zip(group, self.run(cells, SEARCH_SEEDS, grid.episodes), strict=True))
        best = max(settings, key=lambda one: scores[one])
        chosen = json.dumps({n: v for n, v in best.facts().items() if n not in ("steps", "batch")})
        self.say(f"{task.name} {model}: of {len(settings)} settings the best is {chosen}, {scores[best]:.0f}")
        return best


def certificates(model: Model, trained: Trained, data: Demonstrations) -> dict[str, np.ndarray]:
    """The worst certificate of each run's inner solves on (at most 256 of) the steps it learned from."""
    import jax

    import gfy

    runs = len(trained.losses)
    chosen = np.linspace(0, len(data.observations) - 1, min(256, len(data.observations))).astype(int)
    x = trained.scaling.observations(data.observations[chosen])
    x = np.broadcast_to(x, (runs, *x.shape))
    v = jax.vmap(model.scores)(trained.parameters, x)
    p = compiled(model)(trained.parameters, x)  # in float32, as it acts; judged in float64
    found = gfy.certify(model.problem, v, p)
    worst = {
        name: np.max(np.reshape(getattr(found, name), (runs, -1)), axis=1)
        for name in ("gap", "residual", "feasibility")
    }
    if not all(np.isfinite(values).all() for values in worst.values()):
        raise GfyValueError("an inner solve of a trained policy has no finite certificate.")
    return worst
