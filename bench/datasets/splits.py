"""Cut a dataset into the parts an experiment uses, and scale its features on the training part alone.

All five complete datasets have the label averages of the paper when examples without a label are dropped and a quarter
of the training part is held out with scikit-learn's seed 0.

Shapes: X [n, d], Y [n, k].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.datasets.mulan import Part
from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Dataset:
    """Hold a training and a test part, unscaled, without the examples that have no label.

    Args:
        name: the name of the dataset.
        train: a `Part` with features X [n, d] and labels Y [n, k] of 0 and 1.
        test: the same for testing.

    Example:
        >>> import numpy as np
        >>> from bench.datasets.mulan import Part
        >>> from bench.datasets.splits import Dataset
        >>> data = Dataset("mine", Part(np.ones((4, 3)), np.ones((4, 2))), Part(np.ones((2, 3)), np.ones((2, 2))))
        >>> data.features, data.labels
        (3, 2)
    """

    name: str
    train: Part
    test: Part

    @property
    def features(self) -> int:
        return int(self.train.X.shape[1])

    @property
    def labels(self) -> int:
        return int(self.train.Y.shape[1])


@dataclass(frozen=True)
class Scaler:
    """Scale to zero mean and unit variance, feature by feature; a constant feature becomes zero."""

    mean: np.ndarray
    scale: np.ndarray

    @staticmethod
    def fit(X: np.ndarray) -> Scaler:
        if len(X) == 0:
            raise GfyValueError("cannot normalise on no examples; the training part is empty")
        scale = X.std(axis=0)
        return Scaler(X.mean(axis=0), np.where(scale > 0, scale, 1.0))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean) / self.scale


def drop_unlabelled(part: Part) -> Part:
    """Return only the examples that carry at least one label."""
    return part.rows(np.flatnonzero(part.Y.sum(axis=1) > 0))


def hold_out(part: Part, fraction: float, seed: int = 0) -> tuple[Part, Part]:
    """Split the examples: `fraction` of them go to the second part."""
    from sklearn.model_selection import train_test_split

    first, second = train_test_split(np.arange(len(part)), test_size=fraction, random_state=seed)
    return part.rows(first), part.rows(second)


def development_split(dataset: Dataset) -> tuple[Part, Part]:
    """Return the training part in two: (fitted, the held-out quarter on which hyper-parameters are chosen)."""
    return hold_out(dataset.train, 0.25)


def normalised(train: Part, *others: Part) -> list[Part]:
    """Return all parts scaled with the statistics of the first."""
    scaler = Scaler.fit(train.X)
    return [Part(scaler(p.X), p.Y, p.features, p.labels) for p in (train, *others)]
