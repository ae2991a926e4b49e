"""A training that was stopped and taken up again stops early at the report where the whole training would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for package in ("jax", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from bench.experiments.common.models import Model  # noqa: E402
from bench.experiments.common.training import Carry, Recipe, one_setting  # noqa: E402
from bench.experiments.train import single  # noqa: E402
from gfy.errors import GfyValueError  # noqa: E402

SCORES = {
    1: 0.5,
    2: 0.9,
    3: 0.6,
    4: 0.7,
    5: 0.8,
    6: 0.85,
}  # held-out accuracy after each epoch; the best is the second


class Scripted:
    """Stand for the trainer: each epoch has its score, and the network stays as it was drawn."""

    def __init__(self, recipe: Recipe, setting: Any, seeds: Any) -> None:
        self.recipe, self.done = recipe, 0

    def run(self, X: Any, Y: Any, start: Any, first: int, block: int) -> Iterator[tuple[int, Carry]]:
        params = {name: np.asarray(leaf)[None, None] for name, leaf in self.recipe.model.init(0).items()}
        for done in range(first + block, self.recipe.epochs + 1, block):
            self.done = done
            yield done, Carry(params, (params, params), np.array(float(done)))

    def accuracy(self, params: Any, X: Any, Y: Any) -> np.ndarray:
        return np.array([[SCORES[self.done]]])


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "Trainer", Scripted)
    monkeypatch.setattr(single, "predict", lambda saved, X: np.zeros((len(X), saved.model.labels)))


def reports(out: Path, epochs: int, patience: int = 3, resume: bool = False) -> list[str]:
    """Train to an epoch and return what was said of the epochs and of stopping."""

    def recipe(features: int, labels: int) -> Recipe:
        return Recipe(Model("unary-linear", features, labels), epochs=epochs)

    said: list[str] = []
    setting = one_setting(0.0, 1e-3)
    plan = single.Plan("synthetic", recipe, setting, patience=patience, every=1, resume=resume, out=out)
    single.run(plan, said.append)
    return [line.split(" of ")[0].split(": ")[-1] for line in said if "epoch" in line or "stopped" in line]


def test_patience_counts_on_after_a_stop(tmp_path: Path) -> None:
    whole = reports(tmp_path / "whole", 6)
    assert whole == [*(f"epoch {done:4d}" for done in range(1, 6)), "stopped early"]
    assert reports(tmp_path / "half", 3) == whole[:3]
    assert reports(tmp_path / "half", 6, resume=True) == whole[3:]
    assert reports(tmp_path / "half", 6, resume=True) == ["stopped early"], "it had stopped already"
    assert reports(tmp_path / "half", 6, patience=9, resume=True) == ["epoch    6"]


def change(out: Path, **training: Any) -> None:
    about = json.loads((out / "model.json").read_text())
    about["training"] = {n: x for n, x in (about["training"] | training).items() if x is not None}
    (out / "model.json").write_text(json.dumps(about))


def test_a_checkpoint_of_an_older_version_is_taken_up_without_them(tmp_path: Path) -> None:
    reports(tmp_path, 3)
    change(tmp_path, best=None, waited=None)
    assert reports(tmp_path, 6, resume=True) == [f"epoch {done:4d}" for done in (4, 5, 6)]


@pytest.mark.parametrize("training", [{"best": "high"}, {"best": 2.0}, {"waited": -1}, {"epoch": "3"}])
def test_a_changed_count_gets_a_sentence(tmp_path: Path, training: dict[str, Any]) -> None:
    reports(tmp_path, 3)
    change(tmp_path, **training)
    with pytest.raises(GfyValueError, match="the checkpoint in .* has epoch"):
        reports(tmp_path, 6, resume=True)


def test_a_network_without_moments_is_no_checkpoint(tmp_path: Path) -> None:
    reports(tmp_path, 3)
    saved, _ = single.read(tmp_path)
    single.save(tmp_path, saved)
    with pytest.raises(GfyValueError, match="is no checkpoint"):
        reports(tmp_path, 6, resume=True)
