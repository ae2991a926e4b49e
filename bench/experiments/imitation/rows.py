"""What one measured run becomes in the store: a row a seed, with a key that names everything that decides it.

The machine is not part of the key: a return depends on it only through rounding, and a run begun on one
machine may be finished on another. The versions of the simulator and of JAX are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.experiments.imitation.demonstrations import Demonstrations
from bench.experiments.imitation.settings import Setting
from bench.experiments.imitation.tasks import Task
from bench.measure.environment import LOAD_LIMIT, row_facts, version
from bench.store.records import canonical

LIBRARIES = ("numpy", "jax", "jaxlib", "optax", "gymnasium", "mujoco")


@dataclass(frozen=True)
class Cell:
    """What one training program makes: a task, a model with its setting, the trajectories it learns from."""

    task: Task
    model: str
    name: str  # "paper", "tuned" or "search"
    trajectories: int
    setting: Setting
    digest: str  # of the demonstrations

    def training(self) -> dict[str, Any]:
        """What determines the trained parameters of a seed."""
        return {
            "task": self.task.env_id,
            "demonstrations": self.digest,
            "model": self.model,
            "trajectories": self.trajectories,
            **self.setting.facts(),
            "jax": version("jax"),
        }

    def policy_key(self, seed: int) -> str:
        return _hash(self.training() | {"seed": seed})

    def row_key(self, seed: int, episodes: int) -> str:
        tools = {name: version(name) for name in ("gymnasium", "mujoco")}
        facts = {"kind": "imitation", "setting": self.name, "seed": seed, "episodes": episodes, **tools}
        return _hash(self.training() | facts)


def _hash(facts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(facts).encode()).hexdigest()


def digest(demonstrations: Demonstrations) -> str:
    """A short hash of the demonstrations, whatever file they came from."""
    parts = (demonstrations.observations, demonstrations.actions, demonstrations.episode)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def normalised(score: float, expert: float, random: float) -> float:
    """0 for uniform random actions, 1 for the expert of the demonstrations."""
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
    """The row of one seed: `facts` holds the certificate, the times and the load of its cell."""
    score, count = float(returns.mean()), int(returns.size)
    load = facts.pop("load", None)
    certificate = {name: facts.pop(name, None) for name in ("gap", "residual", "feasibility")}
    return {
        **_common(cell.task, count),
        **certificate,
        "key": cell.row_key(seed, count),
        "family": f"{cell.model}-gini",
        "energy": "Pairwise" if cell.model == "pairwise" else "Bilinear",
        "regularizer": "BinaryGini",
        "domain": "Box",
        "batch": cell.setting.batch,
        "rank": 1 if cell.model == "pairwise" else 0,
        "seed": seed,
        "problem_params": cell.training() | {"setting": cell.name, "episodes": count},
        "solver": "DualNewton" if cell.model == "pairwise" else "ClosedForm",
        "gradient": "envelope",
        "load": load,
        "loaded": None if load is None else int(load > LOAD_LIMIT),
        "score": score,
        "extra": {
            "sd": spread(returns),
            "normalised": normalised(score, expert, random),
            "expert": expert,
            "random": random,
            "returns": [round(float(value), 2) for value in returns],
            "length": float(lengths.mean()),
            **facts,
        },
    }


def random_row(task: Task, returns: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    """The row of the uniform random policy of a task."""
    return {
        **_common(task, returns.size),
        "key": random_key(task, returns.size),
        "family": "random",
        "seed": 0,
        "problem_params": {
            "task": task.env_id,
            "model": "random",
            "setting": "reference",
            "episodes": returns.size,
        },
        "score": float(returns.mean()),
        "extra": {"sd": spread(returns), "length": float(lengths.mean())},
    }


def random_key(task: Task, episodes: int) -> str:
    tools = {name: version(name) for name in ("gymnasium", "mujoco")}
    return _hash({"kind": "imitation", "task": task.env_id, "model": "random", "episodes": episodes, **tools})


def _common(task: Task, episodes: int) -> dict[str, Any]:
    versions = {name: version(name) for name in LIBRARIES}
    return row_facts() | {
        "kind": "imitation",
        "status": "ok",
        "problem": task.env_id,
        "k": task.actions,
        "backend": "jax",
        "device": "cpu",
        "dtype": "float32",
        "repeats": episodes,
        "versions": versions,
        "score_name": "return",
    }


def spread(returns: np.ndarray) -> float:
    """The standard deviation over episodes (0 for a single one)."""
    return float(returns.std(ddof=1)) if returns.size > 1 else 0.0
