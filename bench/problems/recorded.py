"""Record inner problems as they occur in practice, while a pairwise network is trained on the yeast data.

The training is a short Adam run in NumPy with the envelope gradient of the paper, so the recording is the
same for every framework and needs none of the solvers that are measured on it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance


def solve_box(u: np.ndarray, A: np.ndarray, sweeps: int = 12) -> np.ndarray:
    """Run coordinate ascent for max <u, p> - |A^T p|^2 / 2 - <p, p - 1> on the unit box; A is [b, k, m]."""
    p = np.full_like(u, 0.5)
    t = np.einsum("bkm,bk->bm", A, p)
    scale = 2.0 + (A * A).sum(-1)
    for _ in range(sweeps):
        for j in range(u.shape[1]):
            rest = t - A[:, j] * p[:, j, None]
            p[:, j] = np.clip((u[:, j] + 1.0 - (A[:, j] * rest).sum(-1)) / scale[:, j], 0.0, 1.0)
            t = rest + A[:, j] * p[:, j, None]
    return p


class Network:
    """Train u = X W + b and A = X V + c by Adam on the generalized Fenchel-Young loss."""

    def __init__(self, rng: np.random.Generator, features: int, labels: int, rank: int) -> None:
        bound = np.sqrt(6.0 / (features + labels))
        self.shape = (labels, rank)
        self.theta = {
            "W": rng.uniform(-bound, bound, size=(features, labels)),
            "b": np.zeros(labels),
            "V": rng.uniform(-bound, bound, size=(features, labels * rank)),
            "c": 0.1 * rng.normal(size=labels * rank),
        }
        self._first = {n: np.zeros_like(x) for n, x in self.theta.items()}
        self._second = {n: np.zeros_like(x) for n, x in self.theta.items()}
        self._count = 0

    def outputs(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = X @ self.theta["W"] + self.theta["b"]
        A = (X @ self.theta["V"] + self.theta["c"]).reshape(len(X), *self.shape)
        return u, A

    def step(self, X: np.ndarray, Y: np.ndarray, rate: float) -> None:
        u, A = self.outputs(X)
        p = solve_box(u, A)
        du = (p - Y) / len(X)
        dA = -(p[..., None] * np.einsum("bkm,bk->bm", A, p)[:, None] - Y[..., None] * np.einsum(
            "bkm,bk->bm", A, Y)[:, None]) / len(X)  # fmt: skip
        flat = dA.reshape(len(X), -1)
        gradient = {"W": X.T @ du, "b": du.sum(0), "V": X.T @ flat, "c": flat.sum(0)}
        self._count += 1
        for name, g in gradient.items():
            self._first[name] = 0.9 * self._first[name] + 0.1 * g
            self._second[name] = 0.999 * self._second[name] + 0.001 * g * g
            first = self._first[name] / (1 - 0.9**self._count)
            second = self._second[name] / (1 - 0.999**self._count)
            self.theta[name] = self.theta[name] - rate * first / (np.sqrt(second) + 1e-8)


@lru_cache(maxsize=8)
def record(seed: int, batch: int, rank: int, steps: int, length: int) -> tuple[Any, np.ndarray]:
    """Return the inner problems of one batch of examples at `length` moments of a training of `steps` steps."""
    from bench.datasets.load import load

    rng = np.random.default_rng(seed)
    train = load("yeast").train
    X = (train.X - train.X.mean(0)) / np.maximum(train.X.std(0), 1e-12)
    Y = train.Y.astype(np.float64)
    watched = rng.choice(len(X), size=batch, replace=batch > len(X))
    network = Network(rng, X.shape[1], Y.shape[1], rank)
    moments = set(np.unique(np.linspace(steps, steps // 2, length).round().astype(int)).tolist())
    recorded = []
    for step in range(1, steps + 1):
        chosen = rng.choice(len(X), size=32, replace=False)
        network.step(X[chosen], Y[chosen], 1e-2)
        if step in moments:
            u, A = network.outputs(X[watched])
            recorded.append(gfy.Pairwise.Input(u=u, A=A))
    return tuple(recorded), Y[watched]


def _recorded(regularizer: Any, warm: bool) -> Any:
    def build(rng: np.random.Generator, k: int, batch: int, rank: int, steps: int, length: int) -> Instance:
        problem = gfy.InnerProblem(gfy.Pairwise(), regularizer(), gfy.Box(0.0, 1.0))
        inputs, targets = record(int(rng.integers(2**31)), batch, rank, steps, length)
        return Instance(problem, inputs, targets, warm)

    return build


ONE = {"k": 14, "batch": 256, "rank": 1, "steps": 100, "length": 1}
MANY = {"k": 14, "batch": 256, "rank": 1, "steps": 100, "length": 6}

FAMILIES = (
    Family("yeast-pairwise", "the inner problems of a network trained on yeast",
           _recorded(gfy.BinaryGini, False), ONE, exact=False),
    Family("yeast-cold", "six moments of that training, each solved from scratch",
           _recorded(gfy.BinaryGini, False), MANY, exact=False),
    Family("yeast-warm", "six moments of that training, each solved from the last solution",
           _recorded(gfy.BinaryGini, True), MANY, exact=False),
)  # fmt: skip
