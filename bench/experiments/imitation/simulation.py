"""Step many MuJoCo environments of one task at once: the states of gymnasium's own, at the simulator's speed.

gymnasium's `step` spends a third to a half of its time in Python around the simulator. Here one gymnasium environment
supplies the model, the constants of its reward and every reset. The state of each episode is a row of one array, and
each thread has one `MjData`, into which it loads a state, steps and reads the state back (MuJoCo releases the
interpreter lock). The memory of one `MjData` stays in the processor's cache; that of an `MjData` per episode does not,
and on a busy machine a step of HalfCheetah took twice as long. Observations, rewards and falls are computed for all
episodes at once. A
test compares this with `gymnasium.make(...).step`, state by state, over whole episodes.

Shapes: observations [n, d] float64, actions [n, k] in [-1, 1], rewards [n], fallen [n], where n counts
episodes.
"""

from __future__ import annotations

import itertools
import logging
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np

from bench.experiments.imitation.tasks import Task
from bench.store.environment import install_command
from gfy.errors import GfyValueError

CHUNK = 8  # episodes that a thread takes at a time; few, so that all threads end at about the same time


def _note(message: str) -> None:
    """Log the warnings of MuJoCo instead of writing the file MUJOCO_LOG.TXT in the current folder."""
    # This warning is about gymnasium's model files, which a user cannot change.
    ours = "settotalmass" not in message
    logging.getLogger(__name__).log(logging.WARNING if ours else logging.DEBUG, "MuJoCo: %s", message)


def make_environment(task: Task, **options: Any) -> Any:
    """Return the gymnasium environment of a task, or raise a sentence that says what to install."""
    try:
        import gymnasium
        import mujoco
    except ImportError as error:
        raise GfyValueError(
            f"the imitation experiment needs gymnasium and MuJoCo, and {error.name} is not installed: "
            f"{install_command('imitation')}."
        ) from error
    mujoco.set_mju_user_warning(_note)
    return gymnasium.make(task.env_id, disable_env_checker=True, **task.options, **options)


class Simulation:
    """Simulate `slots` episodes of one task side by side, stepped by `threads` threads."""

    def __init__(self, task: Task, slots: int, threads: int = 2) -> None:
        import mujoco

        if slots < 1 or threads < 1:
            raise GfyValueError(
                f"a simulation needs at least one slot and one thread, not {slots} and {threads}."
            )
        self.task = task
        self.horizon = int(_horizon(task))
        self._env = make_environment(task).unwrapped
        self._mujoco = mujoco
        self._model = self._env.model
        self._data = [mujoco.MjData(self._model) for _ in range(threads)]
        parts = mujoco.mjtState
        # A step depends on nothing else, as there are no mocap bodies here and no forces from outside.
        spec = parts.mjSTATE_FULLPHYSICS | parts.mjSTATE_WARMSTART | parts.mjSTATE_CTRL
        self._spec = int(spec)
        self._states = np.zeros((slots, mujoco.mj_stateSize(self._model, self._spec)))
        self._rows = list(self._states)
        self._qpos, self._qvel, self._ctrl = (
            self._columns(part) for part in (parts.mjSTATE_QPOS, parts.mjSTATE_QVEL, parts.mjSTATE_CTRL)
        )
        self._forces = task.name == "ant"  # only Ant's reward reads the contact forces
        self._x = np.zeros(slots)
        self._contact = np.zeros(slots)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def _columns(self, part: Any) -> np.ndarray:
        """Return a view of one part of all states, whose parts stand in the order of their bits."""
        size = lambda spec: self._mujoco.mj_stateSize(self._model, spec)  # noqa: E731
        first = size(self._spec & (int(part) - 1))
        return self._states[:, first : first + size(int(part))]

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Start one episode per seed, as `env.reset(seed=seed)` does, and return the observations [n, d]."""
        if len(seeds) > len(self._rows):
            raise GfyValueError(f"{len(seeds)} seeds were given to a simulation of {len(self._rows)} slots.")
        for slot, seed in enumerate(seeds):
            self._env.reset(seed=int(seed))
            self._read(self._env.data, slot)
        return self._observations(np.arange(len(seeds)))

    def step(self, slots: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Take one environment step of the episodes in `slots`: return observations, rewards, and which have fallen."""
        actions = np.asarray(actions, dtype=np.float64)
        before = self._x[slots]
        self._ctrl[slots] = actions
        numbers = slots.tolist()
        chunks = itertools.count()  # `next` is atomic here, so that each thread takes the next free chunk
        first, *others = self._data
        jobs = (
            [self._pool.submit(self._advance, data, numbers, chunks) for data in others] if self._pool else []
        )
        self._advance(first, numbers, chunks)
        for job in jobs:
            job.result()
        speed = (self._x[slots] - before) / self._env.dt
        healthy = self._healthy(slots)
        return self._observations(slots), self._rewards(slots, actions, speed, healthy), ~healthy

    def _advance(self, data: Any, slots: list[int], chunks: itertools.count[int]) -> None:
        model, frames, spec = self._model, self._env.frame_skip, self._spec
        load, step, forces = self._mujoco.mj_setState, self._mujoco.mj_step, self._mujoco.mj_rnePostConstraint
        while (start := next(chunks) * CHUNK) < len(slots):
            for slot in slots[start : start + CHUNK]:
                load(model, data, self._rows[slot], spec)
                step(model, data, frames)
                if self._forces:
                    forces(model, data)
                self._read(data, slot)

    def _read(self, data: Any, slot: int) -> None:
        self._mujoco.mj_getState(self._model, data, self._rows[slot], self._spec)
        if self._forces:
            low, high = self._env._contact_force_range
            self._x[slot] = data.xpos[self._env._main_body, 0]
            self._contact[slot] = np.sum(np.square(np.clip(data.cfrc_ext, low, high)))
        else:
            self._x[slot] = self._qpos[slot, 0]

    def _observations(self, slots: np.ndarray) -> np.ndarray:
        speeds = self._qvel[slots]
        if self.task.name in ("hopper", "walker2d"):
            speeds = np.clip(speeds, -10, 10)
        skipped = 2 if self.task.name == "ant" else 1
        return np.concatenate([self._qpos[slots, skipped:], speeds], axis=1)

    def _healthy(self, slots: np.ndarray) -> np.ndarray:
        env, qpos, qvel = self._env, self._qpos[slots], self._qvel[slots]
        if self.task.name == "halfcheetah":  # a half-cheetah cannot fall
            return np.ones(len(slots), dtype=bool)
        low, high = env._healthy_z_range
        if self.task.name == "ant":
            state = np.concatenate([qpos, qvel], axis=1)
            return np.isfinite(state).all(axis=1) & (low <= qpos[:, 2]) & (qpos[:, 2] <= high)
        left, right = env._healthy_angle_range
        upright = (low < qpos[:, 1]) & (qpos[:, 1] < high) & (left < qpos[:, 2]) & (qpos[:, 2] < right)
        if self.task.name == "walker2d":
            return upright
        least, most = env._healthy_state_range
        state = np.concatenate([qpos[:, 2:], qvel], axis=1)
        return upright & ((least < state) & (state < most)).all(axis=1)

    def _rewards(
        self, slots: np.ndarray, actions: np.ndarray, speed: np.ndarray, healthy: np.ndarray
    ) -> np.ndarray:
        env = self._env
        reward = env._forward_reward_weight * speed - env._ctrl_cost_weight * np.sum(actions**2, axis=1)
        if self.task.name != "halfcheetah":
            reward = reward + healthy * env._healthy_reward
        if self._forces:
            reward = reward - env._contact_cost_weight * self._contact[slots]
        return reward

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._env.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _horizon(task: Task) -> int:
    import gymnasium

    return int(gymnasium.spec(task.env_id).max_episode_steps or 1000)
