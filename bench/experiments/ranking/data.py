"""Make rankings to learn: drawn from a linear model, or given by a generative classifier of yeast's labels.

Label ranking has few datasets of its own. As is usual there, rankings are made from a classification task: a naive
Bayes classifier of each label is fitted to the training part, and an example's labels are ranked by their log-odds.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

NAMES = ("synthetic", "yeast")


class Rankings(NamedTuple):
    """Hold features x [n, d] and ranks [n, k] from 0 (last) to k - 1 (first), of a training part and a test part."""

    x: np.ndarray
    ranks: np.ndarray
    test_x: np.ndarray
    test_ranks: np.ndarray


def make(name: str, seed: int, data_dir: Path | None = None) -> Rankings:
    """Return the rankings of a name; `seed` draws the synthetic ones, yeast's are always the same."""
    return synthetic(np.random.default_rng(seed)) if name == "synthetic" else yeast(data_dir)


def synthetic(
    rng: np.random.Generator,
    k: int = 10,
    d: int = 8,
    examples: int = 200,
    test: int = 1000,
    noise: float = 1.0,
) -> Rankings:
    """Rank scores W x plus noise, where x and W are standard normal."""
    W = rng.normal(size=(d, k))
    x = rng.normal(size=(examples + test, d))
    ranks = ranked(x @ W + noise * rng.normal(size=(examples + test, k)))
    return Rankings(x[:examples], ranks[:examples], x[examples:], ranks[examples:])


def yeast(data_dir: Path | None = None) -> Rankings:
    """Rank the 14 labels of yeast by the log-odds of a Gaussian naive Bayes classifier of each."""
    from bench.datasets.load import load
    from bench.datasets.splits import normalised

    found = load("yeast", data_dir)
    train, test = normalised(found.train, found.test)
    x, test_x = np.asarray(train.X, float), np.asarray(test.X, float)
    odds = [_log_odds(x, np.asarray(y) > 0, test_x) for y in np.asarray(train.Y).T]
    return Rankings(
        x, ranked(np.stack([a for a, _ in odds], -1)), test_x, ranked(np.stack([b for _, b in odds], -1))
    )


def _log_odds(x: np.ndarray, y: np.ndarray, test_x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log P(y = 1 | x) - log P(y = 0 | x) of a Gaussian naive Bayes classifier, on both parts."""

    def density(part: np.ndarray, points: np.ndarray) -> np.ndarray:
        mean, variance = part.mean(0), part.var(0) + 1e-3 * x.var(0) + 1e-12
        return np.asarray(-0.5 * ((points - mean) ** 2 / variance + np.log(variance)).sum(-1))

    prior = np.log(y.mean()) - np.log1p(-y.mean())
    first, second = (density(x[y], z) - density(x[~y], z) + prior for z in (x, test_x))
    return first, second


def ranked(scores: np.ndarray) -> np.ndarray:
    """Return the rank of each score in its row, 0 for the smallest, [..., k]."""
    return np.argsort(np.argsort(scores, axis=-1, kind="stable"), axis=-1, kind="stable")


def kendall_tau(scores: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the share of pairs in the right order minus that in the wrong one, [n, k], [n, k] -> [n]; ties count 0."""
    first, second = np.triu_indices(ranks.shape[-1], 1)
    agree = np.sign(scores[:, first] - scores[:, second]) * np.sign(ranks[:, first] - ranks[:, second])
    return np.asarray(agree.mean(-1))
