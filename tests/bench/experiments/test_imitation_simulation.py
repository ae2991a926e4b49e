"""The batched simulation against gymnasium's own environments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed (pip install -e '.[imitation]')")
pytest.importorskip("mujoco", reason="mujoco is not installed (pip install -e '.[imitation]')")

from bench.experiments.imitation.evaluation import evaluate, random_policy, start_seeds
from bench.experiments.imitation.simulation import Simulation, make_environment
from bench.experiments.imitation.tasks import TASKS, find_task, find_tasks
from gfy.errors import GfyValueError


def hold(seen: np.ndarray, actions: int) -> np.ndarray:
    """A controller that pushes every joint back; a hopper stands for longer under it than under random actions."""
    angles, speeds = seen[:, 1 : 1 + actions], seen[:, -actions:]
    return np.clip(-2 * angles - 0.3 * speeds, -1, 1)


@pytest.mark.parametrize("name", list(TASKS))
def test_states_rewards_and_ends_are_gymnasiums_over_whole_episodes(
    name: str, rng: np.random.Generator
) -> None:
    task = TASKS[name]
    seeds = np.array([11, 7, 3, 5])
    envs = [make_environment(task) for _ in seeds]
    with Simulation(task, slots=5, threads=2) as simulation:
        got = simulation.reset(seeds)
        expected = np.stack([env.reset(seed=int(s))[0] for env, s in zip(envs, seeds, strict=True)])
        np.testing.assert_array_equal(got, expected)
        active, falls = np.arange(4), 0
        for number in range(1, simulation.horizon + 1):
            # Half of the episodes have random actions, and half are held up for as long as this goes.
            actions = np.where(
                active[:, None] % 2, hold(got, task.actions), rng.uniform(-1, 1, (len(active), task.actions))
            )
            got, rewards, fallen = simulation.step(active, actions)
            for row, slot in enumerate(active):
                seen, reward, ended, cut, _ = envs[slot].step(actions[row])
                np.testing.assert_array_equal(got[row], seen)
                assert rewards[row] == pytest.approx(reward, rel=1e-13, abs=1e-13)
                assert bool(fallen[row]) == ended
                assert cut == (number == simulation.horizon)
            falls += int(fallen.sum())
            got, active = got[~fallen], active[~fallen]  # from here on only some slots are stepped
            if len(active) == 0:
                break
    assert (number == simulation.horizon) == (name in ("halfcheetah", "hopper")), "these run to their end"
    assert (falls > 0) == (name != "halfcheetah")


def test_returns_do_not_depend_on_threads_or_on_the_company() -> None:
    task = find_task("hopper")

    def push(observations: np.ndarray) -> np.ndarray:
        return np.sin(observations[..., : task.actions] * 3)

    alone = evaluate(task, push, [5], episodes=3, threads=1, horizon=40)
    together = evaluate(task, push, [4, 5], episodes=3, threads=2, horizon=40)
    np.testing.assert_array_equal(alone.returns[0], together.returns[1])
    np.testing.assert_array_equal(alone.lengths[0], together.lengths[1])
    assert not np.array_equal(together.returns[0], together.returns[1])
    assert len(set(alone.returns[0])) == 3


def test_more_episodes_than_slots_are_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    task = find_task("halfcheetah")
    still = lambda seen: np.zeros((*seen.shape[:2], task.actions))  # noqa: E731
    whole = evaluate(task, still, [0, 1], episodes=5, horizon=8)
    monkeypatch.setattr("bench.experiments.imitation.evaluation.SLOTS", 4)
    parts = evaluate(task, still, [0, 1], episodes=5, horizon=8)  # parts of 2, 2 and 1 episodes
    np.testing.assert_array_equal(whole.returns, parts.returns)
    assert (whole.lengths == 8).all()


def test_no_two_runs_start_an_episode_alike_however_many_there_are() -> None:
    first = [[100_000 + 1000 * s + e for e in range(1000)] for s in range(10)]
    np.testing.assert_array_equal(
        start_seeds(range(10), 1000), first, "the stored rows were measured with these"
    )
    many = start_seeds(range(10), 3500)
    np.testing.assert_array_equal(many[:, :1000], first)
    assert len(np.unique(many)) == many.size


def test_random_actions_score_near_the_papers_random_policy() -> None:
    task = find_task("hopper")
    got = evaluate(task, random_policy(task.actions), [0], episodes=40)
    assert abs(got.returns.mean() - task.paper_random) < 15
    assert got.lengths.max() < 1000


def test_tasks_are_found_by_either_name_and_misspelt_ones_get_a_sentence() -> None:
    assert find_task("HOPPER-v5") is find_task("hopper")
    assert [t.name for t in find_tasks(["ant", "Ant-v5", "hopper"])] == ["ant", "hopper"]
    assert len(find_tasks(None)) == 4
    with pytest.raises(GfyValueError, match="halfcheetah, hopper, walker2d, ant"):
        find_task("humanoid")


def test_impossible_sizes_get_a_sentence() -> None:
    task = find_task("hopper")
    with pytest.raises(GfyValueError, match="at least one slot"):
        Simulation(task, slots=0)
    with pytest.raises(GfyValueError, match="episodes"):
        evaluate(task, random_policy(3), [0], episodes=0)
    with Simulation(task, slots=2) as simulation, pytest.raises(GfyValueError, match="3 seeds"):
        simulation.reset(np.arange(3))


def test_what_the_simulator_warns_of_is_logged_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    task = find_task("ant")
    with Simulation(task, slots=2, threads=2) as simulation:
        simulation.reset(np.array([1, 2]))
        simulation._qvel[1] = 1e12  # no simulator stands this
        with caplog.at_level("WARNING"):
            simulation.step(np.arange(2), np.zeros((2, task.actions)))
    assert "MuJoCo" in caplog.text
    assert "settotalmass" not in caplog.text
    assert not any(tmp_path.iterdir())
