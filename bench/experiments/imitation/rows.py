"""Turn one measured run into stored rows: one row per seed, identified by everything that determines it.

The machine does not identify a row: a return depends on it only through rounding, and a run that began on one machine
may be finished on another. The versions of the simulator and of JAX identify a row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.experiments.imitation.demonstrations import Demonstrations
from bench.experiments.imitation.settings import Setting
from bench.experiments.imitation.tasks import Task
from bench.store import COLUMNS, content_hash, key_of
from bench.store.environment import row_facts, version

LIBRARIES = ("numpy", "jax", "jaxlib", "optax", "gymnasium", "mujoco")


@dataclass(frozen=True)
class Cell:
    """Describe the result of one training program: a task, a model with its setting, and its trajectories."""

    task: Task
    model: str
    name: str  # "paper", "tuned" or "search"
    trajectories: int
    setting: Setting
    digest: str  # the first 16 digits of the SHA-256 of the demonstrations

    def training(self) -> dict[str, Any]:
        """Return what determines the trained parameters of a seed."""
        return {
            "task": self.task.env_id,
            "demonstrations": self.digest,
            "model": self.model,
            "trajectories": self.trajectories,
            **self.setting.facts(),
            "jax": version("jax"),
        }

    def policy_key(self, seed: int) -> str:
        """Return the name of the file that keeps the trained policy."""
        return content_hash(self.training() | {"seed": seed})

    def columns(self, seed: int, episodes: int) -> dict[str, Any]:
        """Return what identifies the row of a seed."""
        params = self.training() | {"setting": self.name}
        return _identity(self.task, f"{self.model}-gini", seed, episodes, params)

    def row_key(self, seed: int, episodes: int) -> str:
        return key_of(self.columns(seed, episodes))


def _identity(task: Task, family: str, seed: int, episodes: int, params: dict[str, Any]) -> dict[str, Any]:
    tools = {name: version(name) for name in ("gymnasium", "mujoco")}
    return {
        "kind": "imitation",
        "problem": task.env_id,
        "family": family,
        "seed": seed,
        "problem_params": params | {"episodes": episodes, **tools},
    }


def digest(demonstrations: Demonstrations) -> str:
    """Return a short hash of the demonstrations, whatever file they came from."""
    parts = (demonstrations.observations, demonstrations.actions, demonstrations.episode)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def normalised(score: float, expert: float, random: float) -> float:
    """Return the normalised score: 0 for uniform random actions, 1 for the expert of the demonstrations."""
    return (score - random) / (expert - random)


def trained_row(
    cell: Cell,
    seed: int,
    returns: np.ndarray,
    lengths: np.ndarray,
    expert: float,
    random: float,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Return the row of one seed: `facts` holds the certificate, the times and the load of its cell."""
    score, count = float(returns.mean()), int(returns.size)
    own = {name: facts.pop(name) for name in list(facts) if name in COLUMNS and name != "loss"}
    return {
        **_common(cell.task, count),
        **cell.columns(seed, count),
        **own,
        "energy": "Pairwise" if cell.model == "pairwise" else "Bilinear",
        "regularizer": "BinaryGini",
        "domain": "Box",
        "batch": cell.setting.batch,
        "rank": 1 if cell.model == "pairwise" else 0,
        "solver": "DualNewton" if cell.model == "pairwise" else "ClosedForm",
        "gradient": "envelope",
        "score": score,
        "score_sd": spread(returns),
        "extra": {
            "normalised": normalised(score, expert, random),
            "expert": expert,
            "random": random,
            "returns": [round(float(value), 2) for value in returns],
            "length": float(lengths.mean()),
            **facts,
        },
    }


def random_row(task: Task, returns: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    """Return the row of the uniform random policy of a task."""
    return {
        **_common(task, returns.size),
        **random_columns(task, returns.size),
        "score": float(returns.mean()),
        "score_sd": spread(returns),
        "extra": {"length": float(lengths.mean())},
    }


def random_key(task: Task, episodes: int) -> str:
    return key_of(random_columns(task, episodes))


def random_columns(task: Task, episodes: int) -> dict[str, Any]:
    """Return what identifies the row of the random policy."""
    params = {"task": task.env_id, "model": "random", "setting": "reference"}
    return _identity(task, "random", 0, episodes, params)


def _common(task: Task, episodes: int) -> dict[str, Any]:
    versions = {name: version(name) for name in LIBRARIES}
    return row_facts() | {
        "status": "ok",
        "k": task.actions,
        "backend": "jax",
        "device": "cpu",
        "dtype": "float32",
        "repeats": episodes,
        "versions": versions,
        "score_name": "return",
    }


def spread(returns: np.ndarray) -> float:
    """Return the standard deviation over episodes (0 for a single one)."""
    return float(returns.std(ddof=1)) if returns.size > 1 else 0.0
