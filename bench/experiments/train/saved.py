"""Keep a trained network in two plain files: numbers in model.npz, everything else in model.json. No pickle.

A checkpoint also holds Adam's moments and the epoch, so that training continues as if it had never stopped. A model may
come from an unknown author, so that reading one runs no code and trusts no size. The description is checked field by
field, and a solver is a registered name and never a file. The archive's sizes are read before its numbers, and the
description holds the archive's digest, so that files of two trainings are not mistaken for one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.splits import Scaler
from bench.experiments.common.models import Model, Params
from bench.experiments.common.objectives import GRADIENTS, LOSSES
from gfy.errors import GfyValueError

FORMAT = 2
MOST_BYTES = 2**30  # bytes of all numbers in one archive
_MOST_TEXT_BYTES = 2**22
_MOST_ARRAYS = 256
_MOST_SIZE = 10**6  # features, labels, rank, hidden units
_MOST_STEPS = 10**9


@dataclass(frozen=True)
class Saved:
    """Hold a network, the scaling of its features, the names of its labels and how it was trained."""

    model: Model
    params: Params
    scaler: Scaler
    labels: tuple[str, ...]
    training: dict[str, Any]


def save(folder: Path, saved: Saved, moments: dict[str, np.ndarray] | None = None) -> Path:
    """Write both files; each is renamed into its place when it is complete, the description last."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {f"param.{name}": np.asarray(leaf) for name, leaf in saved.params.items()}
    arrays |= {"scaler.mean": saved.scaler.mean, "scaler.scale": saved.scaler.scale}
    arrays |= {f"moment.{name}": leaf for name, leaf in (moments or {}).items()}
    partial = folder / "model.npz.part"
    with partial.open("wb") as target:
        np.savez(target, **arrays)
    digest = _digest(partial)
    os.replace(partial, folder / "model.npz")
    text = json.dumps(
        {
            "format": FORMAT,
            "model": saved.model.as_dict(),
            "labels": list(saved.labels),
            "training": saved.training,
            "numbers": digest,
        },
        indent=1,
    )
    partial = folder / "model.json.part"
    partial.write_text(text + "\n", encoding="utf-8")
    os.replace(partial, folder / "model.json")
    return folder


def read(folder: Path, own_solver: str | None = None) -> tuple[Saved, dict[str, np.ndarray]]:
    """Return the network and, for a checkpoint, Adam's moments; raise a sentence where the files are not sound.

    A model may name registered solvers only. `own_solver` is one that the reader names, which may lie in a file.
    """
    about = _description(folder)
    archive = folder / "model.npz"
    try:
        arrays = _arrays(archive)
        if about["format"] >= 2 and _digest(archive) != about.get("numbers"):
            raise GfyValueError(
                f"{archive} is not the file that {folder / 'model.json'} describes: the two are of different "
                "trainings, or one was changed; train again, or restore both"
            )
    except FileNotFoundError as error:
        raise GfyValueError(
            f"{folder} holds no saved network ({archive} is missing): `gfy train` makes one"
        ) from error
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        MemoryError,  # an array may declare more numbers than its member holds
        zipfile.BadZipFile,
        NotImplementedError,
    ) as error:
        if isinstance(error, GfyValueError):
            raise
        raise GfyValueError(f"the numbers of the network in {folder} are damaged ({error})") from error
    try:
        model = _model(about["model"])
    except GfyValueError as error:
        raise GfyValueError(f"the network in {folder} cannot be used: {error}") from error
    saved = Saved(
        model,
        _parameters(folder, model, _named(arrays, "param.")),
        _scaler(folder, model, arrays),
        _labels(folder, model, about["labels"]),
        _training(folder, about["training"], own_solver),
    )
    return saved, _named(arrays, "moment.")


def predict(saved: Saved, X: np.ndarray) -> np.ndarray:
    """Return p* [n, k] for unscaled features X [n, d]."""
    import jax.numpy as jnp

    from bench.experiments.common.objectives import predicting_problem
    from bench.experiments.common.training import Recipe

    if X.ndim != 2 or X.shape[1] != saved.model.features:
        raise GfyValueError(f"the network reads {saved.model.features} features; the examples are {X.shape}")
    names = ("loss", "gradient", "solver", "tol", "max_steps")
    recipe = Recipe(saved.model, **{name: saved.training[name] for name in names})
    params = {name: jnp.asarray(leaf) for name, leaf in saved.params.items()}
    v = saved.model.input(params, jnp.asarray(saved.scaler(X), jnp.float32))
    problem = predicting_problem(saved.model, recipe.loss)
    return np.asarray(recipe.inner_solver().solve(problem, v, None, recipe.stop()).p)


def _description(folder: Path) -> dict[str, Any]:
    """Return model.json as a dictionary with every part it must have."""
    path = folder / "model.json"
    for file in (path, folder / "model.npz"):
        if file.exists() and not file.is_file():  # reading a pipe or a device may never end
            raise GfyValueError(f"{file} is damaged (it is not a regular file)")
    try:
        if path.stat().st_size > _MOST_TEXT_BYTES:
            raise GfyValueError(
                f"{path} is larger than the {_MOST_TEXT_BYTES} bytes that a description may have"
            )
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GfyValueError(
            f"{folder} holds no saved network ({path} is missing): `gfy train` makes one"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, GfyValueError):
            raise
        raise GfyValueError(f"the description {path} is damaged ({error})") from error
    if not isinstance(about, dict) or about.get("format") not in (1, FORMAT):
        found = about.get("format") if isinstance(about, dict) else type(about).__name__
        raise GfyValueError(f"the network in {folder} has format {found}; this version reads 1 and {FORMAT}")
    for part, kind in (("model", dict), ("labels", list), ("training", dict)):
        if not isinstance(about.get(part), kind):
            raise GfyValueError(
                f"the description {path} has no usable {part!r}: it must be a {kind.__name__}"
            )
    return about


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the archive's arrays; their declared sizes are added up before any is read."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    total = sum(member.file_size for member in members)
    if len(members) > _MOST_ARRAYS or total > MOST_BYTES:
        raise GfyValueError(
            f"{path} holds {len(members)} arrays of {total} bytes together; at most {_MOST_ARRAYS} and {MOST_BYTES} "
            "are read"
        )
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise GfyValueError(f"{path} holds {name!r} of type {array.dtype}; a network holds numbers only")
        if not np.isfinite(array).all():
            raise GfyValueError(f"{path} holds NaN or infinite numbers in {name!r}")
    return arrays


def _model(given: dict[str, Any]) -> Model:
    known = {field.name for field in fields(Model)}
    unknown = sorted(set(given) - known)
    if unknown or not {"energy", "features", "labels"} <= set(given):
        raise GfyValueError(
            f"its model must have energy, features and labels and may have {', '.join(sorted(known))}"
        )
    for name in ("features", "labels", "rank", "prior_units"):
        value = given.get(name)
        if value is None and name in ("rank", "prior_units"):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_SIZE:
            raise GfyValueError(
                f"its model's {name} must be a whole number from 1 to {_MOST_SIZE}, got {value!r}"
            )
    for name in ("energy", "regularizer", "prior_start"):
        if name in given and not isinstance(given[name], str):
            raise GfyValueError(f"its model's {name} must be a name, got {given[name]!r}")
    return Model(**given)


def _parameters(folder: Path, model: Model, params: Params) -> Params:
    """Return parameters of the names and shapes that the model has."""
    expected = model.shapes()
    found = {name: np.shape(leaf) for name, leaf in params.items()}
    if found != expected:
        raise GfyValueError(f"the network in {folder} has parameters {found}; its model has {expected}")
    return params


def _scaler(folder: Path, model: Model, arrays: dict[str, np.ndarray]) -> Scaler:
    parts = [arrays.get(f"scaler.{name}") for name in ("mean", "scale")]
    if any(part is None or part.shape != (model.features,) for part in parts):
        raise GfyValueError(
            f"the network in {folder} lacks the mean and scale of its {model.features} features"
        )
    mean, scale = parts
    assert mean is not None
    assert scale is not None
    if not (scale > 0).all():
        raise GfyValueError(f"the network in {folder} has a scale that is not positive")
    return Scaler(mean, scale)


def _labels(folder: Path, model: Model, labels: list[Any]) -> tuple[str, ...]:
    if len(labels) != model.labels or not all(isinstance(name, str) for name in labels):
        raise GfyValueError(
            f"the network in {folder} must name its {model.labels} labels, got {len(labels)} entries"
        )
    return tuple(labels)


def _training(folder: Path, given: dict[str, Any], own_solver: str | None) -> dict[str, Any]:
    """Return how it was trained; what `predict` needs of it is checked."""
    for name, choices in (("loss", LOSSES), ("gradient", GRADIENTS)):
        if given.get(name) not in choices:
            raise GfyValueError(
                f"the network in {folder} was trained with the {name} {given.get(name)!r}; there are "
                f"{', '.join(choices)}"
            )
    solver = given.get("solver")
    if solver not in ("auto", own_solver):
        from bench.plan.registry import parse, solver_classes

        if not isinstance(solver, str) or parse(solver)[0] not in solver_classes():
            raise GfyValueError(
                f"the network in {folder} names the solver {solver!r}; a model may name a registered solver only: "
                f"{', '.join(sorted(solver_classes()))}"
            )
    tol, steps = given.get("tol"), given.get("max_steps")
    if isinstance(tol, bool) or not isinstance(tol, int | float) or not (math.isfinite(tol) and tol >= 0):
        raise GfyValueError(f"the network in {folder} has the tolerance {tol!r}; it must be a number >= 0")
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= _MOST_STEPS:
        raise GfyValueError(
            f"the network in {folder} has max_steps {steps!r}; it must be a whole number >= 1"
        )
    return given


def _named(arrays: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(kind): leaf for name, leaf in arrays.items() if name.startswith(kind)}


def _digest(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
