"""Keep trained policies on disk, one small .npz file per seed, for later evaluation or films without training."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.experiments.imitation.demonstrations import Scaling
from bench.experiments.imitation.models import Parameters
from bench.experiments.imitation.training import Trained


def save_policy(path: Path, parameters: Parameters, scaling: Scaling, loss: float) -> None:
    """Write one seed's parameters; after a kill the file is complete or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        arrays = {f"theta_{key}": value for key, value in parameters.items()}
        np.savez(file, mean=scaling.mean, scale=scaling.scale, loss=np.float64(loss), **arrays)
    os.replace(name, path)


def load_policy(path: Path) -> Trained | None:
    """Return one seed's policy with a leading axis of 1, or None where there is none that can be read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            theta = {
                name.removeprefix("theta_"): file[name][None] for name in file.files if name[:6] == "theta_"
            }
            return Trained(theta, Scaling(file["mean"], file["scale"]), file["loss"][None])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # the policy of a damaged file is trained again, and the file is replaced


def stacked(parts: Sequence[Trained]) -> Trained:
    """Return several seeds of one cell, which share their scaling, as one policy."""
    names = parts[0].parameters
    theta = {name: np.concatenate([part.parameters[name] for part in parts]) for name in names}
    return Trained(theta, parts[0].scaling, np.concatenate([part.losses for part in parts]))
