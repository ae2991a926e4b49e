"""A model may come from a stranger: reading one runs no code, trusts no size and refuses what is not sound."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.datasets.splits import Scaler
from bench.experiments.common.models import Model
from bench.experiments.train import saved as module
from bench.experiments.train.saved import Saved, read, save
from gfy.errors import GfyValueError

TRAINING = {"loss": "gfy", "gradient": "envelope", "solver": "auto", "tol": 1e-5, "max_steps": 50}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = Model("pairwise", 4, 3)
    scaler = Scaler(np.zeros(4), np.ones(4))
    return save(tmp_path / "model", Saved(model, model.init(0), scaler, ("a", "b", "c"), dict(TRAINING)))


def change(folder: Path, **parts: Any) -> None:
    """Alter parts of the description, as an editor or an attacker would."""
    path = folder / "model.json"
    about = json.loads(path.read_text())
    for name, value in parts.items():
        about[name] = {**about[name], **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(about))


def replace_numbers(folder: Path, **arrays: np.ndarray) -> None:
    """Other numbers with a description that vouches for them."""
    with np.load(folder / "model.npz") as archive:
        kept = {name: archive[name] for name in archive.files}
    np.savez(folder / "model.npz", **{**kept, **arrays})
    change(folder, numbers=module._digest(folder / "model.npz"))


def test_a_sound_model_is_read(folder: Path) -> None:
    found, moments = read(folder)
    assert found.labels == ("a", "b", "c")
    assert moments == {}


def test_a_file_that_a_model_names_is_not_run(folder: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "it ran"
    file = tmp_path / "evil.py"
    file.write_text(f"open({str(evidence)!r}, 'w').close()\nclass Solver: pass\n")
    change(folder, training={"solver": f"{file}:Solver"})
    with pytest.raises(GfyValueError, match="registered solver only"):
        read(folder)
    assert not evidence.exists()
    assert read(folder, own_solver=f"{file}:Solver")[0].training["solver"] == f"{file}:Solver"
    assert not evidence.exists()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"format": 99}, "has format 99"),
        ({"labels": ["a"]}, "must name its 3 labels"),
        ({"labels": "abc"}, "no usable 'labels'"),
        ({"model": {"energy": "nothing"}}, "is not known"),
        ({"model": {"features": 10**9}}, "whole number"),
        ({"model": {"rank": -1}}, "whole number"),
        ({"model": {"labels": "3"}}, "whole number"),
        ({"model": {"surprise": 1}}, "must have energy"),
        ({"model": {"regularizer": ["gini"]}}, "must be a name"),
        ({"training": {"loss": "hinge"}}, "trained with the loss"),
        ({"training": {"gradient": None}}, "trained with the gradient"),
        ({"training": {"solver": 3}}, "registered solver only"),
        ({"training": {"tol": -1}}, "the tolerance"),
        ({"training": {"tol": "1e-5"}}, "the tolerance"),
        ({"training": {"max_steps": 1.5}}, "max_steps"),
        ({"numbers": "0" * 64}, "is not the file that"),
    ],
)
def test_a_changed_description_gets_a_sentence(folder: Path, parts: dict[str, Any], sentence: str) -> None:
    change(folder, **parts)
    with pytest.raises(GfyValueError, match=sentence):
        read(folder)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"param.W1": np.full((4, 1), np.nan, np.float32)}, "NaN or infinite"),
        ({"param.W1": np.zeros((5, 1), np.float32)}, "has parameters"),
        ({"scaler.scale": np.zeros(4)}, "not positive"),
        ({"scaler.mean": np.zeros(3)}, "lacks the mean and scale"),
        ({"param.b1": np.array(["text"])}, "numbers only"),
    ],
)
def test_other_numbers_get_a_sentence(folder: Path, arrays: dict[str, np.ndarray], sentence: str) -> None:
    replace_numbers(folder, **arrays)
    with pytest.raises(GfyValueError, match=sentence):
        read(folder)


@pytest.mark.parametrize("energy", ["unary-linear", "unary-rectifier", "pairwise", "spen", "concave-spen"])
def test_the_shapes_are_those_of_the_first_draw(energy: str) -> None:
    model = Model(energy, 7, 5, rank=2, prior_units=3)
    assert model.shapes() == {name: np.shape(leaf) for name, leaf in model.init(0).items()}


@pytest.mark.parametrize("energy", ["unary-linear", "pairwise"])
def test_declared_sizes_are_compared_and_never_drawn(
    folder: Path, monkeypatch: pytest.MonkeyPatch, energy: str
) -> None:
    monkeypatch.setattr(Model, "init", lambda self, seed: pytest.fail("the sizes of a file were drawn"))
    change(folder, model={"energy": energy, "features": 10**6, "labels": 10**6, "rank": 10**6})
    with pytest.raises(GfyValueError, match="has parameters"):
        read(folder)


def test_an_array_that_declares_more_numbers_than_it_holds_gets_a_sentence(folder: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**50,)})
    with zipfile.ZipFile(folder / "model.npz", "w") as archive:
        archive.writestr("param.W1.npy", header.getvalue() + bytes(8))
    with pytest.raises(GfyValueError, match="damaged"):
        read(folder)


def test_files_of_two_trainings_are_not_taken_for_one(folder: Path, tmp_path: Path) -> None:
    """What a kill between the two renames leaves behind: new numbers beside the old description."""
    model = Model("pairwise", 4, 3)
    other = Saved(model, model.init(1), Scaler(np.zeros(4), np.ones(4)), ("a", "b", "c"), dict(TRAINING))
    save(tmp_path / "other", other)
    (folder / "model.npz").write_bytes((tmp_path / "other" / "model.npz").read_bytes())
    with pytest.raises(GfyValueError, match="different trainings"):
        read(folder)


def test_a_zip_bomb_is_not_unpacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2**20)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**22,)})
    with zipfile.ZipFile(folder / "model.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("param.W1.npy", header.getvalue() + bytes(2**25))
    with pytest.raises(GfyValueError, match="at most"):
        read(folder)


@pytest.mark.parametrize("name", ["model.json", "model.npz"])
def test_a_pipe_in_the_place_of_a_file_is_not_read(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(GfyValueError, match="not a regular file"):
        read(folder)


@pytest.mark.parametrize("damage", [b"", b"PK damaged", b"{", b"\xff\xfe"])
@pytest.mark.parametrize("name", ["model.json", "model.npz"])
def test_damaged_files_get_a_sentence(folder: Path, name: str, damage: bytes) -> None:
    (folder / name).write_bytes(damage)
    with pytest.raises(GfyValueError, match="damaged"):
        read(folder)
