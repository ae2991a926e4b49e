"""Inner problems as a trained network makes them: k labels, the factor A a function of the features."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from bench.problems.workloads import Workload


def correlated_labels(
    rng: np.random.Generator, rows: int, features: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, d] and labels [n, k] that exclude each other in groups, about a tenth of them set."""
    x = rng.standard_normal((rows, features))
    scores = x @ rng.standard_normal((features, k)) / np.sqrt(features) + 0.3 * rng.standard_normal((rows, k))
    groups = rng.integers(max(1, k // 6), size=k)
    best = np.stack(
        [scores[:, groups == g].max(axis=1) for g in range(groups.max() + 1) if (groups == g).any()], 1
    )
    index = np.unique(groups, return_inverse=True)[1]
    return x, ((scores >= best[:, index]) & (scores > 0.5)).astype(np.float64)


@cache
def trained(k: int, batch: int, rank: int, steps: int = 150, seed: int = 3) -> Workload:
    """The inputs that a pairwise network u(x), A(x), trained with the Fenchel-Young loss, gives to rows."""
    import torch

    import gfy
    import solvers

    rng = np.random.default_rng([seed, k, batch, rank])
    features = 30
    x, y = (torch.as_tensor(a) for a in correlated_labels(rng, 4 * batch, features, k))
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss = gfy.FenchelYoungLoss(problem, solver=solvers.DualNewton(), reduction="mean")
    generator = torch.Generator().manual_seed(seed)

    def weights(*shape: int) -> Any:
        draw = torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5
        return draw.requires_grad_(True)

    W, b, V, c = weights(features, k), weights(1, k), weights(features, k * rank), weights(1, k * rank)
    optimizer = torch.optim.Adam([W, b, V, c], lr=0.02)

    def network(rows: Any) -> Any:
        return gfy.Pairwise.Input(u=rows @ W + b, A=(rows @ V + c).reshape(-1, k, rank))

    for _ in range(steps):
        pick = torch.randint(len(x), (batch,), generator=generator)
        optimizer.zero_grad()
        loss(network(x[pick]), y[pick]).backward()
        optimizer.step()
    with torch.no_grad():
        v = network(x[:batch])
    inputs = gfy.Pairwise.Input(*(leaf.numpy().copy() for leaf in v))
    return Workload(
        f"trained-pairwise-k{k}-b{batch}-m{rank}", "pairwise-gini", k, batch, rank, seed, problem, inputs
    )
