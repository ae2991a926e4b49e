"""Keep a trained network in two plain files: numbers in model.npz, everything else in model.json. No pickle.

A checkpoint is the same with Adam's moments and the epoch, so that training goes on as if never stopped.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.splits import Scaler
from bench.experiments.common.models import Model, Params
from gfy.errors import GfyValueError

FORMAT = 1


@dataclass(frozen=True)
class Saved:
    """A network, the scaling of its features, the names of its labels and how it was trained."""

    model: Model
    params: Params
    scaler: Scaler
    labels: tuple[str, ...]
    training: dict[str, Any]


def save(folder: Path, saved: Saved, moments: dict[str, np.ndarray] | None = None) -> Path:
    """Write both files; each is renamed into its place when it is whole, the description last."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {f"param.{name}": np.asarray(leaf) for name, leaf in saved.params.items()}
    arrays |= {"scaler.mean": saved.scaler.mean, "scaler.scale": saved.scaler.scale}
    arrays |= {f"moment.{name}": leaf for name, leaf in (moments or {}).items()}
    partial = folder / "model.npz.part"
    with partial.open("wb") as target:
        np.savez(target, **arrays)
    os.replace(partial, folder / "model.npz")
    text = json.dumps(
        {
            "format": FORMAT,
            "model": saved.model.as_dict(),
            "labels": list(saved.labels),
            "training": saved.training,
        },
        indent=1,
    )
    partial = folder / "model.json.part"
    partial.write_text(text + "\n", encoding="utf-8")
    os.replace(partial, folder / "model.json")
    return folder


def read(folder: Path) -> tuple[Saved, dict[str, np.ndarray]]:
    """The network and, where it is a checkpoint, Adam's moments."""
    try:
        about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        with np.load(folder / "model.npz", allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise GfyValueError(
            f"{folder} holds no saved network ({error.filename} is missing): `gfy train` makes one"
        ) from error
    except (json.JSONDecodeError, zipfile.BadZipFile, ValueError) as error:
        raise GfyValueError(f"the network in {folder} is damaged ({error})") from error
    if about.get("format") != FORMAT:
        raise GfyValueError(
            f"the network in {folder} has format {about.get('format')}; this version reads {FORMAT}"
        )
    pick = lambda kind: {  # noqa: E731
        name.removeprefix(kind): leaf for name, leaf in arrays.items() if name.startswith(kind)
    }
    saved = Saved(
        Model(**about["model"]),
        pick("param."),
        Scaler(arrays["scaler.mean"], arrays["scaler.scale"]),
        tuple(about["labels"]),
        about["training"],
    )
    return saved, pick("moment.")


def predict(saved: Saved, X: np.ndarray) -> np.ndarray:
    """p* [n, k] for unscaled features X [n, d]."""
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
