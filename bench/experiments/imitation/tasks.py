"""Define the four locomotion tasks of the paper: which environment, and the scores that the paper prints for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Task:
    """Describe one environment: gymnasium id and options, its dimensions, Minari dataset, the paper's two scores."""

    name: str
    env_id: str
    minari: str
    observations: int
    actions: int
    paper_expert: float
    paper_random: float
    options: dict[str, Any] = field(default_factory=dict)


ANT_OPTIONS = {"include_cfrc_ext_in_observation": False}
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("halfcheetah", "HalfCheetah-v5", "mujoco/halfcheetah/expert-v0", 17, 6, 8770.0, -282.0),
        Task("hopper", "Hopper-v5", "mujoco/hopper/expert-v0", 11, 3, 2798.0, 18.0),
        Task("walker2d", "Walker2d-v5", "mujoco/walker2d/expert-v0", 17, 6, 4118.0, 1.6),
        # The demonstrations hold positions and velocities alone, so the contact forces are left out.
        Task("ant", "Ant-v5", "mujoco/ant/expert-v0", 27, 8, 5637.0, 123.0, ANT_OPTIONS),
    )
}


def find_task(name: str) -> Task:
    """Return the task called `name` ("hopper") or its environment ("Hopper-v5"), in upper or lower case."""
    wanted = name.strip().lower()
    for task in TASKS.values():
        if wanted in (task.name, task.env_id.lower()):
            return task
    raise GfyValueError(f"task {name!r} is not known; the tasks are {', '.join(TASKS)}.")


def find_tasks(names: Sequence[str] | None) -> list[Task]:
    """Return the tasks named (all four when none is), each once, in the order given."""
    found = {task.name: task for task in (find_task(name) for name in names or TASKS)}
    return list(found.values())
