"""Demonstrations from files and from Minari, and the sentences for those that cannot be used."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from bench.experiments.imitation.demonstrations import (
    Scaling,
    from_cube,
    load_demonstrations,
    load_minari,
    load_npz,
    to_cube,
)
from bench.experiments.imitation.tasks import TASKS, find_task
from gfy.errors import GfyValueError

HOPPER = find_task("hopper")


def arrays(rng: np.random.Generator, lengths: tuple[int, ...] = (5, 3, 4), d: int = 11, k: int = 3) -> dict:
    n = sum(lengths)
    return {
        "observations": rng.normal(size=(n, d)).astype(np.float32) * 3 + 1,
        "actions": rng.uniform(-1, 1, (n, k)).astype(np.float32),
        "rewards": rng.normal(size=n).astype(np.float32),
        "episode": np.repeat(np.arange(len(lengths)) * 10 + 2, lengths).astype(np.int16),
    }


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GFY_DATA", raising=False)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def test_a_file_is_found_and_cut_into_trajectories(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = arrays(rng)
    (tmp_path / "mujoco").mkdir()
    np.savez(tmp_path / "mujoco" / "Hopper-v5.npz", **given)
    monkeypatch.setenv("GFY_DATA", str(tmp_path))
    found = load_demonstrations(HOPPER)
    assert found.trajectories == 3
    np.testing.assert_array_equal(np.bincount(found.episode), [5, 3, 4])
    np.testing.assert_allclose(found.returns[1], given["rewards"][5:8].sum(), rtol=1e-6)
    two = found.first(2)
    np.testing.assert_array_equal(two.observations, given["observations"][:8])
    with pytest.raises(GfyValueError, match="ask for 1 to 3"):
        found.first(4)
    with pytest.raises(GfyValueError, match="0 trajectories"):
        found.first(0)


def test_data_dir_comes_before_the_environment(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, lengths in (("a", (2, 2)), ("b", (6,))):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "Hopper-v5.npz", **arrays(rng, lengths))
    monkeypatch.setenv("GFY_DATA", str(tmp_path / "a"))
    assert load_demonstrations(HOPPER, tmp_path / "b").trajectories == 1
    assert load_demonstrations(HOPPER).trajectories == 2
    with pytest.raises(GfyValueError, match="not a folder"):
        load_demonstrations(HOPPER, tmp_path / "nowhere")


@pytest.mark.usefixtures("no_data")
def test_missing_data_says_the_two_ways() -> None:
    with pytest.raises(GfyValueError, match=r"GFY_DATA.*minari download mujoco/hopper/expert-v0"):
        load_demonstrations(HOPPER)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rewards": None}, "lacks the array"),
        ({"actions": np.full((12, 3), 1.5, np.float32)}, r"lie in \[-1, 1\]"),
        ({"observations": np.full((12, 11), np.nan, np.float32)}, "NaN"),
        ({"episode": np.zeros(5, np.int16)}, "are needed"),
        ({"actions": np.zeros((11, 3), np.float32)}, "12 observations and 11 actions"),
        ({"rewards": np.array([{}] * 12, dtype=object)}, "without pickle"),
    ],
)
def test_unusable_files_get_a_sentence(
    tmp_path: Path, rng: np.random.Generator, change: dict, said: str
) -> None:
    given = {name: value for name, value in (arrays(rng) | change).items() if value is not None}
    np.savez(tmp_path / "Hopper-v5.npz", **given)
    with pytest.raises(GfyValueError, match=said):
        load_npz(tmp_path / "Hopper-v5.npz")


def test_files_that_are_no_archives_or_of_another_task_get_a_sentence(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    (tmp_path / "Hopper-v5.npz").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(GfyValueError, match="cannot be read"):
        load_npz(tmp_path / "Hopper-v5.npz")
    np.savez(tmp_path / "Hopper-v5.npz", **arrays(rng, d=17, k=6))
    with pytest.raises(GfyValueError, match="another environment"):
        load_demonstrations(HOPPER, tmp_path)


def test_scaling_uses_the_training_trajectories_alone(rng: np.random.Generator, tmp_path: Path) -> None:
    given = arrays(rng, (40, 60))
    given["observations"][:, 4] = 2.5  # a coordinate that never moves
    np.savez(tmp_path / "x.npz", **given)
    part = load_npz(tmp_path / "x.npz").first(1)
    scaling = Scaling.fit(part)
    scaled = scaling.observations(part.observations)
    moving = np.arange(11) != 4
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(0)[moving], 1, rtol=1e-5)
    np.testing.assert_array_equal(scaled[:, 4], 0)
    assert scaled.dtype == np.float32


def test_actions_go_to_the_cube_and_back(rng: np.random.Generator) -> None:
    actions = np.concatenate([rng.uniform(-1, 1, (7, 3)), [[-1, 0, 1]]]).astype(np.float32)
    cube = to_cube(actions)
    assert cube.min() == 0
    assert cube.max() == 1
    np.testing.assert_allclose(from_cube(cube), actions, atol=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("minari") is None, reason="minari is not installed")
@pytest.mark.usefixtures("no_data")
@pytest.mark.filterwarnings("ignore")  # minari's own, about a dataset without an author
def test_minari_datasets_are_read(rng: np.random.Generator) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py", reason="minari stores its datasets with h5py (pip install -e '.[imitation]')")
    env = minari.DataCollector(gymnasium.make("Hopper-v5"))
    seen, acted = [], []
    for episode in range(2):
        observation, _ = env.reset(seed=episode)
        for _ in range(6 + episode):
            action = rng.uniform(-1, 1, 3).astype(np.float32)
            seen.append(observation)
            acted.append(action)
            observation, *_ = env.step(action)
    env.create_dataset("mujoco/hopper/expert-v0", algorithm_name="random", eval_env="Hopper-v5")
    env.close()
    found = load_demonstrations(HOPPER)
    assert found.source == "minari:mujoco/hopper/expert-v0"
    np.testing.assert_array_equal(np.bincount(found.episode), [6, 7])
    np.testing.assert_allclose(found.observations, np.array(seen), atol=1e-6)
    np.testing.assert_allclose(found.actions, np.array(acted), atol=1e-6)
    assert load_minari("mujoco/hopper/expert-v0", width=5).observations.shape == (13, 5)
    with pytest.raises(GfyValueError, match="minari download mujoco/ant/expert-v0"):
        load_minari("mujoco/ant/expert-v0")


@pytest.mark.data
@pytest.mark.skipif("GFY_DATA" not in os.environ, reason="GFY_DATA does not name the folder of the datasets")
@pytest.mark.parametrize("name", list(TASKS))
def test_the_published_demonstrations(name: str) -> None:
    task = TASKS[name]
    found = load_demonstrations(task)
    assert found.trajectories == 15
    assert found.observations.shape == (15_000, task.observations)
    assert abs(found.returns.mean() / task.paper_expert - 1) < 0.1
