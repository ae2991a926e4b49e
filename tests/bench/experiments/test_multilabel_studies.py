"""The studies beside the tables: what they store, and that a stored trial is not run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for package in ("jax", "optax", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from bench.datasets.splits import Dataset  # noqa: E402
from bench.datasets.synthetic import correlated  # noqa: E402
from bench.experiments.common.training import one_setting  # noqa: E402
from bench.experiments.multilabel import recipe as multilabel_recipe  # noqa: E402
from bench.experiments.multilabel import studies as multilabel_studies  # noqa: E402
from bench.experiments.multilabel.cells import Cell, Effort  # noqa: E402
from bench.experiments.multilabel.recipe import TRIALS, Trial, settle  # noqa: E402
from bench.store import Store, key_of  # noqa: E402
from gfy.errors import GfyValueError  # noqa: E402

EFFORT = Effort(epochs=2, penalties=1, rates=2, seeds=(0, 1))


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return correlated(n_train=80, n_test=40, features=9, labels=6, causes=2)


def test_time_to_score_stores_the_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    course = [(0.1, 0.5), (0.2, 0.7), (0.3, 0.75)]
    monkeypatch.setattr(multilabel_studies, "load", lambda *_: dataset)
    monkeypatch.setattr(multilabel_studies, "_course", lambda *_: course)
    chosen = (Cell("synthetic", "pairwise", effort=EFFORT), one_setting(0.1, 0.01))
    monkeypatch.setattr(multilabel_studies, "chosen_setting", lambda *_: chosen)
    with Store(tmp_path / "rows.sqlite") as store:
        found = multilabel_studies.time_to_score(store, "synthetic", EFFORT, None, lambda _: None)
        rows = store.frame()
    assert len(rows) == len(found) == 3 + 1 + 4
    for extra in map(json.loads, rows["extra"]):
        assert extra["curve"] == {"seconds": [0.1, 0.2, 0.3], "score": [50.0, 70.0, 75.0]}
        assert extra["seconds_to_target"] == 0.3
    assert "curve" not in found[0]  # the CSV file has one number a field


def test_finalists_are_tested_after_the_choice_and_beside_their_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    class Tested:
        def __init__(self, recipe: Any, settings: Any, seeds: tuple[int, ...]) -> None:
            self.number = len(settings)

        def run(self, X: np.ndarray, Y: np.ndarray, block: int) -> Any:
            return iter([(block, type("Carry", (), {"params": None}))])

        def accuracy(self, params: Any, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
            return np.array([[0.7, 0.9], [0.5, 0.9]])[:, : self.number]

    monkeypatch.setattr(multilabel_studies, "load", lambda *_: dataset)
    monkeypatch.setattr(multilabel_studies, "Trainer", Tested)
    with Store(tmp_path / "rows.sqlite") as store:
        with pytest.raises(GfyValueError, match="--table losses"):
            multilabel_studies.finalists(store, "synthetic", EFFORT, None, lambda _: None)
        for cell in multilabel_studies.plan(("synthetic",), ("losses",), EFFORT):
            votes = {"1": [80.0, 82.0], "0": [80.0, 81.0]}
            extra = {"held_out_votes": votes, "chosen": EFFORT.settings().as_dict(1)}
            store.put({**cell.columns, "status": "ok", "score": 60.0, "extra": extra})
        found = multilabel_studies.finalists(store, "synthetic", EFFORT, None, lambda _: None)
        rows = store.frame()
    assert [(x["loss"], x["chosen"], x["held_out"], x["test"], x["test_worst"]) for x in found] == [
        ("gfy", False, 80.5, 60.0, 50.0), ("gfy", True, 81.0, 90.0, 90.0),
        ("cross_entropy", False, 80.5, 60.0, 50.0), ("cross_entropy", True, 81.0, 90.0, 90.0),
    ]  # fmt: skip
    assert [x["rate"] for x in found[:2]] == pytest.approx([1e-5, 0.1])
    assert found[0]["held_out_examples"] == 20
    assert (rows["family"] == "multilabel-finalists").sum() == 4


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_the_recipe_is_settled_on_held_out_examples_and_resumable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    blind = Dataset(dataset.name, dataset.train, dataset.train.rows(np.arange(0)))  # no test part to look at
    monkeypatch.setattr(multilabel_recipe, "load", lambda *_: blind)
    trials = (
        Trial("pairwise", "as used"),
        Trial("spen", "wide, constant", {"decay": False}, {"max_steps": 3}, {"prior_units": "hidden"}),
    )
    with Store(tmp_path / "rows.sqlite") as store:
        found = settle(store, ("synthetic",), EFFORT, None, lambda _: None, trials)

        def refuse(*_: Any) -> None:
            raise AssertionError("a stored trial was run again")

        monkeypatch.setattr(multilabel_recipe, "select", refuse)
        assert settle(store, ("synthetic",), EFFORT, None, lambda _: None, trials) == found
        frame = store.frame()
    assert [line["choice"] for line in found] == ["as used", "wide, constant"]
    assert [line["votes"] for line in found] == [2, 2]
    assert set(frame["score_name"]) == {"held-out accuracy (%)"}


def test_every_trial_has_a_reference_and_changes_something() -> None:
    for trial in TRIALS:
        changes = bool(trial.effort or trial.recipe or trial.model or trial.gain != 1.0)
        assert changes == (trial.choice != "as used")
        assert Trial(trial.energy, "as used") in TRIALS
    assert len({key_of(trial.columns("yeast", EFFORT)) for trial in TRIALS}) == len(TRIALS)
