"""Run one compiled program: train the policies of several seeds and settings together, evaluate and certify them.

A worker does this for a group of cells. Trained policies are kept as files, so that an evaluation with more episodes
does not train again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.experiments.imitation import rows
from bench.experiments.imitation.demonstrations import Demonstrations, load_demonstrations
from bench.experiments.imitation.evaluation import compiled, evaluate, random_policy, trained_policy
from bench.experiments.imitation.models import Model
from bench.experiments.imitation.policies import load_policy, save_policy, stacked
from bench.experiments.imitation.rows import Cell
from bench.experiments.imitation.tasks import Task
from bench.experiments.imitation.training import Run, Trained, train
from bench.measure.certification import judged
from bench.measure.clock import Stopwatch
from bench.plan.matrix import Group
from gfy.errors import GfyValueError

JOB = "bench.experiments.imitation.program:job"
RANDOM_EPISODES = 100
Say = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """Hold what a worker receives for one policy: its cell and seed, and where files are."""

    cell: Cell
    seed: int
    episodes: int
    policies: Path
    data_dir: Path | None
    random: float  # the return of uniform random actions
    threads: int | None  # number of threads that simulate; None stands for the number of cores


def job(group: Group, channel: Any) -> None:
    """Train, evaluate and certify the policies of a group, which share one program (all but rate and decay)."""
    channel.hand(group.cells[0].name)
    found = measure([cell.work for cell in group.cells], channel.say)
    for cell, columns in zip(group.cells, found, strict=True):
        channel.row(cell.name, columns)


def measure(works: Sequence[Work], say: Say) -> list[dict[str, Any]]:
    """Return the rows of some policies of one program, in their order."""
    first = works[0]
    task, watch = first.cell.task, Stopwatch()
    demonstrations = load_demonstrations(task, first.data_dir)
    model = model_of(first.cell)
    trained = policies(works, demonstrations, _progress(say, "steps"))
    train_s = watch.wall_s
    policy = trained_policy(model, trained.parameters, trained.scaling)
    seeds = [work.seed for work in works]
    got = evaluate(task, policy, seeds, first.episodes, first.threads, progress=_progress(say, "episodes"))
    seconds = watch.wall_s
    checks = certificates(model, trained, demonstrations.first(first.cell.trajectories))
    load = watch.columns()
    found = []
    for i, work in enumerate(works):
        facts: dict[str, Any] = {
            **load,
            **checks[i],
            "loss": float(trained.losses[i]),
            # Times are of the whole program, which trains and evaluates `runs` policies together.
            "runs": len(works),
            "train_s": train_s,
            "evaluation_s": seconds - train_s,
            "policy_s": got.policy_s,
            "simulation_s": got.simulation_s,
            "compile_s": got.compile_s,
        }
        expert = float(demonstrations.returns.mean())
        row = rows.trained_row(
            work.cell, work.seed, got.returns[i], got.lengths[i], expert, work.random, facts
        )
        found.append(row)
    return found


def random_returns(task: Task, say: Say) -> dict[str, Any]:
    """Return the row of uniform random actions: the zero of the normalised score."""
    got = evaluate(task, random_policy(task.actions), [0], RANDOM_EPISODES)
    return rows.random_row(task, got.returns[0], got.lengths[0])


def model_of(cell: Cell) -> Model:
    setting, task = cell.setting, cell.task
    return Model(cell.model, task.observations, task.actions, setting.hidden, setting.gamma)


def policies(
    works: Sequence[Work],
    demonstrations: Demonstrations,
    progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Return the trained policies of one program, from their files or trained now."""
    paths = [work.policies / f"{work.cell.policy_key(work.seed)}.npz" for work in works]
    found = [load_policy(path) for path in paths]
    wanted = [i for i, one in enumerate(found) if one is None]
    if wanted:
        first = works[0].cell
        data, setting = demonstrations.first(first.trajectories), first.setting
        told = [(works[i].seed, works[i].cell.setting) for i in wanted]
        runs = [Run(seed, one.rate, one.l2, one.noise) for seed, one in told]
        made = train(model_of(first), data, runs, setting.steps, setting.batch, progress)
        for place, i in enumerate(wanted):
            theta = {name: value[place] for name, value in made.parameters.items()}
            save_policy(paths[i], theta, made.scaling, float(made.losses[place]))
            one = {name: value[None] for name, value in theta.items()}
            found[i] = Trained(one, made.scaling, made.losses[place : place + 1])
    return stacked([one for one in found if one is not None])


def _progress(say: Say, what: str) -> Callable[[int, int], None]:
    return lambda done, total: say(f"{what} {done} of {total}")


def certificates(model: Model, trained: Trained, data: Demonstrations) -> list[dict[str, Any]]:
    """Return the certificate of each run's inner solves on (at most 256 of) the steps it learned from; the
    worst counts."""
    import jax

    import gfy

    runs = len(trained.losses)
    chosen = np.linspace(0, len(data.observations) - 1, min(256, len(data.observations))).astype(int)
    x = trained.scaling.observations(data.observations[chosen])
    x = np.broadcast_to(x, (runs, *x.shape))
    v = jax.vmap(model.scores)(trained.parameters, x)
    # Here p is computed in float32, as the policy acts; it is judged in float64.
    p = compiled(model)(trained.parameters, x)
    found = gfy.certify(model.problem, v, p)
    each = [
        judged(
            [
                found._replace(
                    **{n: getattr(found, n)[i] for n in found._fields if n not in ("concave", "claimed")}
                )
            ]
        )
        for i in range(runs)
    ]
    if not all(np.isfinite(columns["gap"]) and np.isfinite(columns["residual"]) for columns in each):
        raise GfyValueError("an inner solve of a trained policy has no finite certificate.")
    return each
