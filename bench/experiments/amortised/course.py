"""Record the inner problems of one training run in their order, so that each way of solving can be replayed on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.load import load
from bench.datasets.splits import normalised
from bench.experiments.common.models import Model
from bench.experiments.common.training import batches


@dataclass(frozen=True)
class Course:
    """Hold T steps of a training: u [T, B, k], A [T, B, k, m], the examples of each step [T, B], and steps
    per epoch."""

    u: np.ndarray
    A: np.ndarray
    index: np.ndarray
    examples: int
    epoch: int


def recorded(
    dataset: str,
    rank: int,
    regularizer: str,
    epochs: int = 6,
    batch: int = 32,
    rate: float = 1e-3,
    seed: int = 0,
    data_dir: Path | None = None,
) -> Course:
    """Train a pairwise network with the Fenchel-Young loss by Adam in torch and keep every v it solves."""
    import torch

    import gfy
    import solvers

    data = load(dataset, data_dir)
    (part,) = normalised(data.train)
    model = Model("pairwise", data.features, data.labels, rank=rank, regularizer=regularizer)
    theta = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in model.init(seed).items()
    }
    x, y = (torch.as_tensor(a, dtype=torch.float64) for a in (part.X, part.Y))
    loss = gfy.FenchelYoungLoss(model.problem(), solver=solvers.DualNewton(), reduction="mean")
    adam = torch.optim.Adam(theta.values(), lr=rate)
    order = batches(len(x), batch, epochs, seed)
    kept: list[Any] = []
    for rows in order.reshape(-1, order.shape[-1]):
        v = model.input(theta, x[rows])
        kept.append((v.u.detach().numpy(), v.A.detach().numpy()))
        adam.zero_grad()
        loss(v, y[rows]).backward()
        adam.step()
    u, A = (np.stack(parts) for parts in zip(*kept, strict=True))
    return Course(u, A, order.reshape(-1, order.shape[-1]), len(x), order.shape[1])
