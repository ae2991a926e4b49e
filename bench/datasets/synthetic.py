"""Draw a multilabel set whose labels depend on each other beyond what the features say.

A few hidden causes, which are noisy functions of x, switch groups of labels on, and a rival cause switches them off. So
a model of the labels' interaction can be better than k separate models.

Shapes: X [n, d], Y [n, k].
"""

from __future__ import annotations

import numpy as np

from bench.datasets.mulan import Part
from bench.datasets.splits import Dataset, drop_unlabelled
from gfy.errors import GfyValueError


def correlated(
    n_train: int = 600, n_test: int = 400, features: int = 20, labels: int = 8, causes: int = 3, seed: int = 0
) -> Dataset:
    """Draw the set; the same numbers give the same set."""
    if min(n_train, n_test, features, labels, causes) < 1:
        raise GfyValueError("a synthetic set needs at least one example, feature, label and cause")
    rng = np.random.default_rng(seed)
    n = n_train + n_test
    X = rng.normal(size=(n, features))
    hidden = np.tanh(
        X @ rng.normal(size=(features, causes)) / np.sqrt(features) + rng.normal(size=(n, causes)) / 2
    )
    loadings = rng.normal(size=(causes, labels)) * 2.0
    own = X @ rng.normal(size=(features, labels)) / np.sqrt(features)
    Y = (hidden @ loadings + own + rng.normal(size=(n, labels)) / 4 > 0.5).astype(float)
    features_names = tuple(f"x{j}" for j in range(features))
    label_names = tuple(f"y{j}" for j in range(labels))
    whole = [Part(X[s], Y[s], features_names, label_names) for s in (slice(n_train), slice(n_train, n))]
    return Dataset("synthetic", *map(drop_unlabelled, whole))
