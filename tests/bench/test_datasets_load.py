"""Where data is looked for, how it is split and scaled, and that the real sets are the paper's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bench.datasets.catalogue import ENTRIES, entry
from bench.datasets.fetch import faults
from bench.datasets.load import load, read_parts, read_river_yeast, river_yeast_path
from bench.datasets.locate import find, search_dirs
from bench.datasets.mulan import Part
from bench.datasets.splits import Scaler, development_split, drop_unlabelled, normalised
from gfy.errors import GfyValueError

pytest.importorskip("sklearn", reason="the splits are scikit-learn's: pip install 'gfy-suite[data]'")
needs_data = pytest.mark.skipif(
    "GFY_DATA" not in os.environ, reason="GFY_DATA does not name the datasets' folder"
)

# Label averages of the paper's Table 4 for the part that is trained on while hyper-parameters are chosen.
PAPER_TRAIN = {"birds": (134, 1.96), "emotions": (293, 1.82), "scene": (908, 1.06), "yeast": (1125, 4.17)}


def test_search_order_and_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    for folder in (a, b, c):
        folder.mkdir()
    monkeypatch.setenv("GFY_DATA", str(b))
    monkeypatch.setenv("GFY_CACHE", str(c))
    assert search_dirs(a) == [a, b, c]
    what = entry("emotions")
    with pytest.raises(GfyValueError, match="gfy data fetch emotions"):
        load("emotions", a)
    for folder in (c, b, a):  # each one found hides those after it
        for file in what.files.values():
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.path).write_text("")
        found = find(what, a)
        assert found is not None
        assert found["train"] == folder / what.files["train"].path
    with pytest.raises(GfyValueError, match="not a folder"):
        search_dirs(tmp_path / "nowhere")
    with pytest.raises(GfyValueError, match="there are birds, cal500"):
        load("brids")


def test_scaling_uses_the_training_part_alone(rng: np.random.Generator) -> None:
    train = Part(rng.normal(3.0, 5.0, size=(40, 3)), np.ones((40, 2)))
    train.X[:, 1] = 7.0
    test = Part(rng.normal(-1.0, 2.0, size=(9, 3)), np.ones((9, 2)))
    a, b = normalised(train, test)
    np.testing.assert_allclose(a.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(a.X.std(axis=0), [1.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(b.X[:, 0], (test.X[:, 0] - train.X[:, 0].mean()) / train.X[:, 0].std())
    with pytest.raises(GfyValueError, match="empty"):
        Scaler.fit(np.zeros((0, 3)))


def test_synthetic_labels_are_correlated() -> None:
    dataset = load("synthetic")
    again = load("synthetic")
    np.testing.assert_array_equal(dataset.train.Y, again.train.Y)
    assert (dataset.train.Y.sum(axis=1) > 0).all()
    correlation = np.corrcoef(dataset.train.Y.T) - np.eye(dataset.labels)
    assert np.abs(correlation).max() > 0.3


@pytest.mark.skipif(river_yeast_path() is None, reason="the package river is not installed")
def test_yeast_needs_no_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GFY_DATA", raising=False)
    monkeypatch.setenv("GFY_CACHE", str(tmp_path))
    dataset = load("yeast")
    fitted, held_out = development_split(dataset)
    assert (len(fitted), len(held_out), len(dataset.test)) == (1125, 375, 917)
    assert fitted.Y.sum(axis=1).mean() == pytest.approx(4.17, abs=0.005)


@needs_data
@pytest.mark.data
@pytest.mark.skipif(river_yeast_path() is None, reason="the package river is not installed")
def test_rivers_yeast_is_mulans() -> None:
    files = find(entry("yeast"), os.environ["GFY_DATA"])
    assert files is not None
    for ours, theirs in zip(read_parts(entry("yeast"), files), read_river_yeast(), strict=True):
        np.testing.assert_array_equal(ours.X, theirs.X)
        np.testing.assert_array_equal(ours.Y, theirs.Y)
        assert ours.labels == theirs.labels


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", sorted(set(ENTRIES) - {"mediamill"}))
def test_real_data_is_whole_and_the_papers(name: str) -> None:
    files = find(entry(name), os.environ["GFY_DATA"])
    assert files is not None
    assert faults(entry(name), files) == []
    dataset = load(name, os.environ["GFY_DATA"])
    if name in PAPER_TRAIN:
        rows, average = PAPER_TRAIN[name]
        fitted, _ = development_split(dataset)
        assert len(fitted) == rows
        assert fitted.Y.sum(axis=1).mean() == pytest.approx(average, abs=0.01)
    if name == "cal500":
        assert (len(dataset.train), len(dataset.test)) == (401, 101)
    if name == "birds":
        assert (len(dataset.train), len(dataset.test)) == (179, 172)
        assert "Swainson's Thrush" in dataset.train.labels
    assert len(drop_unlabelled(dataset.train)) == len(dataset.train)
