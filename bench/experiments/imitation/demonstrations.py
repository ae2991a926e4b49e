"""Load expert demonstrations from an .npz file or a Minari dataset as trajectories for behaviour cloning.

A file `<env id>.npz` holds `observations` [n, d], `actions` [n, k] in [-1, 1], `rewards` [n] and `episode` [n]. It is
searched in `--data-dir`, then in `$GFY_DATA`, and in the folder `mujoco/` of each. Where there is none, a Minari
dataset of the task is taken if this machine has one. Files are read without pickle.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.experiments.imitation.tasks import Task
from bench.store.environment import install_command
from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Demonstrations:
    """Hold whole expert trajectories, one after the other; `episode` counts them from 0."""

    observations: np.ndarray  # [n, d] float32
    actions: np.ndarray  # [n, k] float32 in [-1, 1]
    rewards: np.ndarray  # [n]
    episode: np.ndarray  # [n]
    source: str

    @property
    def trajectories(self) -> int:
        return int(self.episode[-1]) + 1

    @property
    def returns(self) -> np.ndarray:
        """Return the expert's return in each trajectory, [trajectories]."""
        return np.bincount(self.episode, weights=self.rewards.astype(np.float64))

    def first(self, trajectories: int) -> Demonstrations:
        """Return the first trajectories only, as the paper's 1, 4 and 11."""
        if not 1 <= trajectories <= self.trajectories:
            raise GfyValueError(
                f"{trajectories} trajectories were asked for; {self.source} has {self.trajectories}: "
                f"ask for 1 to {self.trajectories}."
            )
        keep = self.episode < trajectories
        return Demonstrations(
            self.observations[keep], self.actions[keep], self.rewards[keep], self.episode[keep], self.source
        )


@dataclass(frozen=True)
class Scaling:
    """Scale observations to zero mean and unit variance by the statistics of the training trajectories."""

    mean: np.ndarray  # [d]
    scale: np.ndarray  # [d]

    @classmethod
    def fit(cls, demonstrations: Demonstrations) -> Scaling:
        x = demonstrations.observations.astype(np.float64)
        spread = x.std(axis=0)
        # A coordinate that is constant in the demonstrations has no spread to divide by, so that it is not scaled.
        return cls(x.mean(axis=0), np.where(spread > 1e-6, spread, 1.0))

    def observations(self, x: np.ndarray) -> np.ndarray:
        return ((x - self.mean) / self.scale).astype(np.float32)


def to_cube(actions: np.ndarray) -> np.ndarray:
    """Return actions in [-1, 1]^k as targets in [0, 1]^k."""
    return np.clip((actions + 1.0) / 2.0, 0.0, 1.0).astype(np.float32)


def from_cube(p: np.ndarray) -> np.ndarray:
    """Return points of [0, 1]^k as actions in [-1, 1]^k."""
    return 2.0 * p - 1.0


def load_demonstrations(task: Task, data_dir: str | Path | None = None) -> Demonstrations:
    """Return the demonstrations of a task from the first place that has them, or raise a sentence with the two ways."""
    for path in _candidates(task, data_dir):
        if path.is_file():
            return _fitting(task, load_npz(path))
    if has_minari(task.minari):
        return _fitting(task, load_minari(task.minari, task.observations))
    raise GfyValueError(
        f"there are no demonstrations of {task.env_id}: either put {task.env_id}.npz (observations, actions, "
        "rewards, episode) into the folder named by --data-dir or GFY_DATA (or its folder mujoco), or "
        f"download a Minari dataset once with `minari download {task.minari}`."
    )


def _fitting(task: Task, found: Demonstrations) -> Demonstrations:
    given = (found.observations.shape[1], found.actions.shape[1])
    if given != (task.observations, task.actions):
        raise GfyValueError(
            f"{found.source} has {given[0]} observation and {given[1]} action coordinates; {task.env_id} has "
            f"{task.observations} and {task.actions}: these are the demonstrations of another environment."
        )
    return found


def _candidates(task: Task, data_dir: str | Path | None) -> Iterator[Path]:
    if data_dir is not None and not Path(data_dir).is_dir():
        raise GfyValueError(
            f"--data-dir {data_dir} is not a folder; name the one that holds {task.env_id}.npz."
        )
    for root in (data_dir, os.environ.get("GFY_DATA")):
        if root:
            yield Path(root) / "mujoco" / f"{task.env_id}.npz"
            yield Path(root) / f"{task.env_id}.npz"


def load_npz(path: str | Path) -> Demonstrations:
    """Read one file of demonstrations, without pickle, and check it."""
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            missing = sorted({"observations", "actions", "rewards", "episode"} - set(file.files))
            if missing:
                raise GfyValueError(
                    f"{path} lacks the array(s) {', '.join(missing)}: it is not demonstrations."
                )
            arrays = [file[name] for name in ("observations", "actions", "rewards", "episode")]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, GfyValueError):
            raise
        raise GfyValueError(f"{path} cannot be read as an .npz file without pickle ({error}).") from error
    return checked(arrays[0], arrays[1], arrays[2], arrays[3], str(path))


def checked(
    observations: np.ndarray, actions: np.ndarray, rewards: np.ndarray, episode: np.ndarray, source: str
) -> Demonstrations:
    """Return demonstrations whose shapes agree, that are finite and within [-1, 1], numbered from 0."""
    n = len(observations)
    if observations.ndim != 2 or actions.ndim != 2 or rewards.shape != (n,) or episode.shape != (n,):
        raise GfyValueError(
            f"{source}: observations [n, d], actions [n, k], rewards [n] and episode [n] are needed, not "
            f"{observations.shape}, {actions.shape}, {rewards.shape} and {episode.shape}."
        )
    if n == 0 or len(actions) != n:
        raise GfyValueError(
            f"{source}: {n} observations and {len(actions)} actions; as many of both, and some."
        )
    for name, values in (("observations", observations), ("actions", actions), ("rewards", rewards)):
        if not np.isfinite(values).all():
            raise GfyValueError(f"{source}: {name} holds NaN or infinity; remove those steps.")
    if np.abs(actions).max() > 1.0 + 1e-6:
        raise GfyValueError(
            f"{source}: actions reach {np.abs(actions).max():.3g}; they must lie in [-1, 1] (clip them)."
        )
    numbers = np.unique(episode, return_inverse=True)[1].reshape(-1)
    order = np.argsort(numbers, kind="stable")
    return Demonstrations(
        observations[order].astype(np.float32),
        np.clip(actions[order], -1.0, 1.0).astype(np.float32),
        rewards[order].astype(np.float32),
        numbers[order].astype(np.int64),
        source,
    )


def has_minari(name: str) -> bool:
    """Return whether a Minari dataset is on this machine (False where minari is not installed)."""
    try:
        import minari
    except ImportError:
        return False
    return name in minari.list_local_datasets()


def load_minari(name: str, width: int | None = None) -> Demonstrations:
    """Return a Minari dataset that is on this machine: its episodes in order, without the last observation of each.

    `width` says how many of the first coordinates of an observation are kept: Ant's positions and velocities come
    first, and the contact forces after them are left out.
    """
    try:
        import minari
    except ImportError as error:
        raise GfyValueError(f"Minari datasets need minari: {install_command('imitation')}.") from error
    if not has_minari(name):
        raise GfyValueError(f"the Minari dataset {name} is not on this machine: `minari download {name}`.")
    observations, actions, rewards, episode = [], [], [], []
    for number, part in enumerate(minari.load_dataset(name).iterate_episodes()):
        steps = len(part.actions)
        observations.append(np.asarray(part.observations)[:steps, :width])
        # Some experts act outside the box. The simulator clips every action to the box, so that the clipped
        # one was executed.
        actions.append(np.clip(np.asarray(part.actions), -1.0, 1.0))
        rewards.append(np.asarray(part.rewards))
        episode.append(np.full(steps, number))
    if not episode:
        raise GfyValueError(f"the Minari dataset {name} has no episodes.")
    joined = [np.concatenate(parts) for parts in (observations, actions, rewards, episode)]
    return checked(joined[0], joined[1], joined[2], joined[3], f"minari:{name}")
