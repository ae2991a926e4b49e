"""Load a dataset by name, from files or from a package that ships it, ready to be split and scaled."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bench.datasets.catalogue import SYNTHETIC, Entry, entry
from bench.datasets.libsvm import read_libsvm
from bench.datasets.locate import find, find_or_say
from bench.datasets.mulan import Part, read_mulan
from bench.datasets.splits import Dataset, drop_unlabelled, hold_out
from bench.datasets.synthetic import correlated
from gfy.errors import GfyValueError


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """Return the dataset with its published split (80/20 where there is none), without unlabelled examples.

    Args:
        name: a name that `gfy data list` shows, or "synthetic", which needs no file.
        data_dir: the folder that is searched before GFY_DATA and the user cache; None by default.

    Returns:
        The `Dataset`, with unscaled features.

    Raises:
        GfyValueError: there is no such dataset, its files are not here, or they are not the published ones.

    Example:
        >>> from bench.datasets.load import load
        >>> data = load("synthetic")
        >>> data.features, data.labels, data.train.X.shape[1]
        (20, 8, 20)
    """
    if name == SYNTHETIC:
        return correlated()
    what = entry(name)
    files = find(what, data_dir)
    if files is None and name == "yeast" and river_yeast_path() is not None:
        parts = read_river_yeast()
    else:
        parts = read_parts(what, files or find_or_say(what, data_dir))
    check_shape(what, parts)
    if len(parts) == 1:
        return Dataset(name, *hold_out(drop_unlabelled(parts[0]), 0.2))
    return Dataset(name, *map(drop_unlabelled, parts))


def read_parts(what: Entry, files: dict[str, Path]) -> list[Part]:
    """Read the files of an entry as published: [train, test], or [all] where there is no split."""
    roles = [role for role in ("train", "test", "all") if role in files]
    if what.reader == "libsvm":
        return [read_libsvm(files[role], what.features, what.labels) for role in roles]
    return [read_mulan(files[role], files["labels"]) for role in roles]


def check_shape(what: Entry, parts: list[Part]) -> None:
    """Refuse a file that is not the published one: other counts of rows, features or labels."""
    expected = [(rows, what.features, what.labels) for rows in what.rows]
    found = [(*part.X.shape, part.Y.shape[1]) for part in parts]
    if found != expected:
        raise GfyValueError(
            f"dataset '{what.name}' has (rows, features, labels) {found}; the published files have {expected}"
        )


def river_yeast_path() -> Path | None:
    """Return where the `river` package keeps its copy of yeast, if it is installed."""
    spec = find_spec("river")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "datasets" / "yeast.csv.gz"
    return path if path.is_file() else None


def read_river_yeast() -> list[Part]:
    """Load Mulan's yeast from river's wheel: its first 917 rows are the test part, the others are for training."""
    path = river_yeast_path()
    if path is None:
        raise GfyValueError("the package `river` is not installed; it ships the yeast data")
    with gzip.open(path, "rt") as lines:
        header = next(lines).strip().split(",")
        rows = [[_number(token) for token in line.strip().split(",")] for line in lines]
    table = np.array(rows)
    is_label = np.array([name.startswith("Class") for name in header])
    names = np.array(header, dtype=object)
    whole = Part(table[:, ~is_label], table[:, is_label], tuple(names[~is_label]), tuple(names[is_label]))
    return [whole.rows(np.arange(917, len(table))), whole.rows(np.arange(917))]


def _number(token: str) -> float:
    return float(token == "True") if token in ("True", "False") else float(token)
