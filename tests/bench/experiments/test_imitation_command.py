"""`gfy reproduce imitation` end to end: small in the fast tests, --quick in the slow ones."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jax")
pytest.importorskip("optax", reason="optax is not installed (pip install -e '.[train]')")
pytest.importorskip("mujoco", reason="mujoco is not installed (pip install -e '.[imitation]')")

import typer
from typer.testing import CliRunner

from bench.commands.reproduce_imitation import imitation
from bench.commands.reproduce_imitation import run as reproduce
from bench.experiments.imitation.command import Options
from bench.experiments.imitation.demonstrations import Demonstrations, Scaling, load_demonstrations
from bench.experiments.imitation.experiment import Experiment
from bench.experiments.imitation.models import Model
from bench.experiments.imitation.settings import GRIDS, Grid
from bench.experiments.imitation.simulation import make_environment
from bench.experiments.imitation.tasks import find_task
from bench.experiments.imitation.training import Run, Trained
from bench.store import Store, read
from gfy.errors import GfyValueError

HAS_DATA = pytest.mark.skipif("GFY_DATA" not in os.environ, reason="GFY_DATA does not name the datasets")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short demonstrations of a controller that keeps the hopper up for a moment."""
    folder = tmp_path_factory.mktemp("data")
    env = make_environment(find_task("hopper"))
    parts: dict[str, list] = {"observations": [], "actions": [], "rewards": [], "episode": []}
    for episode in range(4):
        seen, _ = env.reset(seed=episode)
        for _ in range(40):
            action = np.clip(-2 * seen[1:4] - 0.3 * seen[7:10], -1, 1).astype(np.float32)
            parts["observations"].append(seen)
            parts["actions"].append(action)
            parts["episode"].append(episode)
            seen, reward, fallen, _, _ = env.step(action)
            parts["rewards"].append(reward)
            if fallen:
                break
    np.savez(folder / "Hopper-v5.npz", **{name: np.array(values) for name, values in parts.items()})
    return folder


def options(data: Path, out: Path, **changes: object) -> Options:
    given: dict = {
        "tasks": ["hopper"], "trajectories": [2], "settings": None, "quick": True, "seeds": 2, "episodes": 3,
        "steps": 20, "grid": None, "video": False, "jobs": 1, "data_dir": data, "out": out,
    }  # fmt: skip
    return Options.of(**(given | changes))


@pytest.mark.usefixtures("in_process")
def test_the_whole_experiment_in_small_and_resumed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # One setting and as many seeds as the search: search and final cells share their compiled programs.
    monkeypatch.setitem(GRIDS, "quick", Grid("quick", (1e-2,), (0.0,), (1.0,), (4,), 2))
    tuned = options(data, tmp_path, settings=["tuned"], seeds=3, episodes=2)
    reproduce(tuned)
    written = pd.read_csv(tmp_path / "imitation.csv")
    assert len(written) == 2 * 3  # models, seeds
    assert set(written["episodes"]) == {2}
    for name in ("imitation.md", "imitation.svg", "imitation.png"):
        assert (tmp_path / name).stat().st_size > 500
    stored = read(tmp_path / "imitation.sqlite")
    assert len(stored) == 6 + 6 + 1  # the search's too, and the random policy's
    assert stored["gap"].dropna().max() < 1e-4
    capsys.readouterr()

    def trained(*_: object, **__: object) -> None:
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr("bench.experiments.imitation.program.train", trained)
    monkeypatch.setattr("reports.figures.imitation.draw", lambda frame: None)  # drawn once above
    reproduce(tuned)  # everything is there
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "imitation.csv"), written)
    # A longer evaluation reads the trained policies from their files.
    reproduce(options(data, tmp_path, settings=["tuned"], seeds=3, episodes=3))
    longer = pd.read_csv(tmp_path / "imitation.csv")
    assert len(longer) == 6
    assert set(longer["episodes"]) == {3}
    with pytest.raises(AssertionError, match="nothing is left"):
        reproduce(options(data, tmp_path, settings=["tuned"], seeds=4, episodes=3))


@pytest.mark.slow
def test_cells_side_by_side_are_the_cells_one_by_one(data: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        reproduce(options(data, tmp_path / str(jobs), seeds=1, episodes=1, jobs=jobs))
    one, two = (pd.read_csv(tmp_path / str(jobs) / "imitation.csv") for jobs in (1, 2))
    assert set(two["model"]) == {"unary", "pairwise"}
    order = ["model", "seed"]
    # other threads may sum in another order
    pd.testing.assert_frame_equal(
        *(frame.sort_values(order, ignore_index=True) for frame in (one, two)), rtol=1e-3
    )


def test_the_search_takes_the_best_mean_of_its_own_seeds(data: Path, tmp_path: Path) -> None:
    asked = []

    class Told(Experiment):
        def run(self, programs: Any, seeds: Any, episodes: int) -> list[list[float]]:
            for cells in programs:
                asked.append((len(cells), tuple(seeds), episodes, frozenset(c.trajectories for c in cells)))
            return [
                [-abs(c.setting.rate - 5e-4) - abs(c.setting.gamma - 0.1) + c.setting.hidden for c in cells]
                for cells in programs
            ]

    with Store(tmp_path / "rows.sqlite") as store:
        best = Told(store, tmp_path, data, print).search(find_task("hopper"), "unary", GRIDS["paper"], 77)
    assert (best.rate, best.gamma, best.hidden, best.steps) == (5e-4, 0.1, 128, 77)
    assert len(asked) == 12, "one compiled program for each pair of hidden units and energy scale"
    assert set(asked) == {(9, (1000, 1001, 1002), 10, frozenset({4}))}


@pytest.mark.usefixtures("in_process")
def test_an_interrupt_keeps_what_is_finished(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.experiments.imitation import program

    real, calls = program.evaluate, []

    def stops(*given: object, **more: object) -> object:
        calls.append(1)
        if len(calls) == 3:  # the random policy, the unary cell, then Ctrl-C in the pairwise one
            raise KeyboardInterrupt
        return real(*given, **more)

    def untrained(model: Model, data: Demonstrations, runs: list[Run], *_: object) -> Trained:
        drawn = [model.initial(run.seed) for run in runs]
        theta = {name: np.stack([one[name] for one in drawn]) for name in drawn[0]}
        return Trained(theta, Scaling.fit(data), np.zeros(len(runs)))

    monkeypatch.setattr(program, "train", untrained)
    monkeypatch.setattr(program, "evaluate", stops)
    with pytest.raises(SystemExit) as ended:
        reproduce(options(data, tmp_path, episodes=1))
    assert ended.value.code == 130
    assert "same command again" in capsys.readouterr().out
    assert set(pd.read_csv(tmp_path / "imitation.csv")["model"]) == {"unary"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tasks": ["humanoid"]}, "humanoid"),
        ({"settings": ["best"]}, "paper, tuned"),
        ({"trajectories": [0]}, "too few"),
        ({"grid": "huge"}, "paper, short, wide, quick"),
    ],
)
def test_bad_options_get_a_sentence(data: Path, tmp_path: Path, change: dict, said: str) -> None:
    with pytest.raises(GfyValueError, match=said):
        options(data, tmp_path, **change)


def test_too_many_trajectories_are_refused_before_anything_runs(data: Path, tmp_path: Path) -> None:
    with pytest.raises(GfyValueError, match="has 4: ask for 1 to 4"):
        reproduce(options(data, tmp_path, trajectories=[2, 11]))
    assert read(tmp_path / "imitation.sqlite").empty


def test_defaults_are_the_papers_and_quick_is_quick() -> None:
    names = ("tasks", "trajectories", "settings", "seeds", "episodes", "steps", "grid", "jobs", "data_dir")
    nothing: dict = dict.fromkeys(names) | {"video": False, "out": Path("results")}
    full = Options.of(**nothing, quick=False)
    assert (len(full.tasks), full.trajectories, full.seeds, full.episodes) == (4, [11, 4, 1], 10, 100)
    assert full.settings == ["paper", "tuned"]
    quick = Options.of(**nothing, quick=True)
    assert (len(quick.tasks), quick.seeds, quick.episodes, quick.settings) == (1, 2, 10, ["paper"])


def test_help_has_examples() -> None:
    app = typer.Typer()
    app.command()(imitation)
    got = CliRunner().invoke(app, ["--help"])
    assert got.exit_code == 0
    assert "gfy reproduce imitation --quick" in got.output


@pytest.mark.slow
@pytest.mark.data
@HAS_DATA
def test_quick_learns_to_hop_within_five_minutes(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(imitation)
    began = time.perf_counter()
    got = CliRunner().invoke(app, ["--quick", "--out", str(tmp_path)], catch_exceptions=False)
    assert got.exit_code == 0
    assert time.perf_counter() - began < 300
    table = pd.read_csv(tmp_path / "imitation.csv")
    assert len(table) == 4
    expert = load_demonstrations(find_task("hopper")).returns.mean()
    for model, part in table.groupby("model"):
        assert part["return"].mean() > 0.5 * expert, model


@pytest.mark.slow
def test_a_video_or_a_sentence(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reproduce(options(data, tmp_path, video=True))
    films = [*tmp_path.glob("imitation-hopper.*")]
    assert films or "No video was written" in capsys.readouterr().out
    assert all(film.stat().st_size > 1_000 for film in films)
