"""Make inner problems as a trained network does: k labels that exclude each other, the factor A a function of x."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import gfy
from bench.problems.base import Family, Instance

FEATURES = 30


def correlated_labels(
    rng: np.random.Generator, rows: int, features: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw features [n, d] and labels [n, k] that exclude each other in groups, about a tenth of them set."""
    x = rng.standard_normal((rows, features))
    scores = x @ rng.standard_normal((features, k)) / np.sqrt(features) + 0.3 * rng.standard_normal((rows, k))
    groups = rng.integers(max(1, k // 6), size=k)
    best = np.stack(
        [scores[:, groups == g].max(axis=1) for g in range(groups.max() + 1) if (groups == g).any()], 1
    )
    index = np.unique(groups, return_inverse=True)[1]
    return x, ((scores >= best[:, index]) & (scores > 0.5)).astype(np.float64)


def trained(rng: np.random.Generator, k: int, batch: int, rank: int, steps: int, draw: int) -> Instance:
    """Return the inputs that a pairwise network u(x), A(x), trained with the Fenchel-Young loss, gives to rows.

    `draw` seeds the first weights and the order of the batches; `rng` draws the rows.
    """
    x, y = correlated_labels(rng, 4 * batch, FEATURES, k)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    u, A = _trained(x.tobytes(), y.tobytes(), k, batch, rank, steps, draw)
    return Instance(problem, (gfy.Pairwise.Input(u=u.copy(), A=A.copy()),), y[:batch])


@lru_cache(maxsize=4)
def _trained(x: bytes, y: bytes, k: int, batch: int, rank: int, steps: int, draw: int) -> tuple[Any, Any]:
    import torch

    import solvers

    rows = torch.as_tensor(np.frombuffer(x).reshape(-1, FEATURES).copy())
    labels = torch.as_tensor(np.frombuffer(y).reshape(-1, k).copy())
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss = gfy.FenchelYoungLoss(problem, solver=solvers.DualNewton(), reduction="mean")
    generator = torch.Generator().manual_seed(draw)

    def weights(*shape: int) -> Any:
        found = torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5
        return found.requires_grad_(True)

    W, b, V, c = weights(FEATURES, k), weights(1, k), weights(FEATURES, k * rank), weights(1, k * rank)
    optimizer = torch.optim.Adam([W, b, V, c], lr=0.02)

    def network(part: Any) -> Any:
        return gfy.Pairwise.Input(u=part @ W + b, A=(part @ V + c).reshape(-1, k, rank))

    for _ in range(steps):
        pick = torch.randint(len(rows), (batch,), generator=generator)
        optimizer.zero_grad()
        loss(network(rows[pick]), labels[pick]).backward()
        optimizer.step()
    with torch.no_grad():
        v = network(rows[:batch])
    return v.u.numpy(), v.A.numpy()


FAMILIES = (
    Family("trained-pairwise", "the inner problems of a network trained on labels that exclude each other", trained,
           {"k": 174, "batch": 256, "rank": 1, "steps": 150, "draw": 3}, exact=False),
)  # fmt: skip
