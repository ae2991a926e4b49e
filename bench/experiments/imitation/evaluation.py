"""Measure how good a policy is: mean return over many episodes; all seeds and episodes are simulated side by side.

The policies of all runs act in one compiled call, inner problems included, and the simulator's threads do the rest. An
episode ends at a fall or at the horizon and is not stepped any further. The seed of an episode depends only on the
run's seed and on the episode's number, so that two models are compared on the same starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bench.experiments.imitation.demonstrations import Scaling, from_cube
from bench.experiments.imitation.models import Model, Parameters
from bench.experiments.imitation.simulation import Simulation
from bench.experiments.imitation.tasks import Task
from bench.store.environment import cores
from gfy.errors import GfyValueError

# This many episodes are simulated at a time: enough to make the policy's call cheap, few enough for the memory.
SLOTS = 200
FIRST_SEED = 100_000  # far from the seeds of the demonstrations, so that training has seen none of the starts
PER_RUN = 1_000  # neighbouring runs are this many seeds apart, which is room for so many episodes
FURTHER = 10**9  # the seeds of each further PER_RUN episodes are this far on, where no other run has its own


@dataclass(frozen=True)
class Evaluation:
    """Hold returns and lengths [R, episodes] of every episode, and the seconds of each part."""

    returns: np.ndarray
    lengths: np.ndarray
    policy_s: float
    simulation_s: float
    compile_s: float


Policy = Callable[[np.ndarray], np.ndarray]  # observations [R, E, d] -> actions [R, E, k] in [-1, 1]


def trained_policy(model: Model, parameters: Parameters, scaling: Scaling) -> Policy:
    """Return the policies of R runs as one function of all their observations."""
    import jax.numpy as jnp

    theta = {name: jnp.asarray(value) for name, value in parameters.items()}
    act = compiled(model)

    def policy(observations: np.ndarray) -> np.ndarray:
        return from_cube(np.asarray(act(theta, scaling.observations(observations)), dtype=np.float64))

    return policy


@lru_cache(maxsize=8)
def compiled(model: Model) -> Callable[..., Any]:
    """Return the policies of R runs: (parameters [R, ...], scaled observations [R, E, d]) -> p* [R, E, k]."""
    import jax

    return jax.jit(jax.vmap(model.act))


def random_policy(actions: int, seed: int = 0) -> Policy:
    """Return uniform actions, which define the zero of the normalised score."""
    rng = np.random.default_rng(seed)
    return lambda observations: rng.uniform(-1.0, 1.0, (*observations.shape[:2], actions))


def start_seeds(seeds: Sequence[int], episodes: int) -> np.ndarray:
    """Return the seed of every episode of every run, [R, episodes]; no two episodes of different runs share one."""
    run, episode = np.asarray(seeds, dtype=np.int64)[:, None], np.arange(episodes)
    return FIRST_SEED + PER_RUN * run + episode % PER_RUN + FURTHER * (episode // PER_RUN)


def evaluate(
    task: Task,
    policy: Policy,
    seeds: Sequence[int],
    episodes: int,
    threads: int | None = None,
    horizon: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Run `episodes` episodes of each of the R runs whose seeds are given."""
    if episodes < 1 or not seeds:
        raise GfyValueError(f"an evaluation needs seeds and episodes, not {len(seeds)} and {episodes}.")
    runs = len(seeds)
    width = min(episodes, max(1, SLOTS // runs))
    starts = start_seeds(seeds, episodes)
    returns, lengths = np.zeros((runs, episodes)), np.zeros((runs, episodes), dtype=np.int64)
    clock = {"policy": 0.0, "simulation": 0.0, "compile": 0.0}
    with Simulation(task, runs * width, threads or cores()) as simulation:
        limit = horizon or simulation.horizon
        began = time.perf_counter()
        policy(np.zeros((runs, width, task.observations)))
        clock["compile"] = time.perf_counter() - began
        for first in range(0, episodes, width):
            part = starts[:, first : first + width]
            got = _episodes(simulation, policy, part, width, limit, clock)
            returns[:, first : first + width], lengths[:, first : first + width] = got
            if progress is not None:
                progress(min(first + width, episodes), episodes)
    return Evaluation(returns, lengths, clock["policy"], clock["simulation"], clock["compile"])


def _episodes(
    simulation: Simulation,
    policy: Policy,
    starts: np.ndarray,
    width: int,
    limit: int,
    clock: dict[str, float],
) -> tuple[np.ndarray, np.ndarray]:
    runs, count = starts.shape
    # The last part may hold fewer episodes than the compiled policy takes; its other rows stay zero and are not used.
    seen = np.zeros((runs, width, simulation.task.observations))
    slot_of = np.arange(runs * count).reshape(runs, count)
    seen[:, :count] = simulation.reset(starts.reshape(-1)).reshape(runs, count, -1)
    returns, lengths = np.zeros(runs * count), np.zeros(runs * count, dtype=np.int64)
    active = slot_of.reshape(-1)
    for _ in range(limit):
        t0 = time.perf_counter()
        actions = policy(seen)[:, :count].reshape(runs * count, -1)
        t1 = time.perf_counter()
        observations, rewards, fallen = simulation.step(active, actions[active])
        clock["policy"] += t1 - t0
        clock["simulation"] += time.perf_counter() - t1
        returns[active] += rewards
        lengths[active] += 1
        seen[active // count, active % count] = observations
        active = active[~fallen]
        if len(active) == 0:
            break
    return returns.reshape(runs, count), lengths.reshape(runs, count)
