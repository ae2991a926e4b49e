"""Train the paper's pairwise energy network on yeast with torch, step for step as train_yeast_jax.py does.

    python examples/train_yeast_torch.py

The loss is an ordinary differentiable function: `loss(v, y).backward()`. The inner problem is solved exactly, and by
the envelope theorem nothing is differentiated through the solver.
"""

from __future__ import annotations

import gfy
import solvers
from bench.datasets.load import load
from bench.datasets.splits import normalised
from bench.experiments.common.metrics import metrics
from bench.experiments.common.models import Model
from bench.experiments.common.training import batches


def train(
    epochs: int = 30, rate: float = 6e-4, penalty: float = 0.03, seed: int = 0, dtype: str = "float32",
    steps: int | None = None,
) -> tuple[list[float], dict[str, float]]:  # fmt: skip
    """Return the objective at every step, and the metrics on the test part."""
    import torch

    kind = getattr(torch, dtype)
    data, test = normalised(*(lambda d: (d.train, d.test))(load("yeast")))
    X, Y = torch.as_tensor(data.X, dtype=kind), torch.as_tensor(data.Y, dtype=kind)
    network = Model("pairwise", X.shape[1], Y.shape[1])
    drawn = network.init(seed)
    params = {
        name: torch.as_tensor(leaf, dtype=kind).clone().requires_grad_() for name, leaf in drawn.items()
    }
    loss = gfy.FenchelYoungLoss(
        gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0)),
        solver=solvers.DualNewton(),
        gradient=gfy.Envelope(),
        reduction="mean",
    )
    adam = torch.optim.Adam(params.values(), lr=rate)
    curve = []
    order = batches(len(X), 32, epochs, seed)
    for index in order.reshape(-1, order.shape[-1])[:steps]:
        rows = torch.as_tensor(index.astype("int64"))
        adam.zero_grad()
        square = sum((leaf**2).sum() for leaf in params.values())
        value = loss(network.input(params, X[rows]), Y[rows]) + 0.5 * penalty * square
        value.backward()
        adam.step()
        curve.append(float(value.detach()))
    with torch.no_grad():
        P = loss.predict(network.input(params, torch.as_tensor(test.X, dtype=kind)))
    return curve, metrics(P.numpy(), test.Y)


if __name__ == "__main__":
    curve, result = train()
    print(f"objective {curve[0]:.3f} -> {curve[-1]:.3f}")
    for name, value in result.items():
        print(f"{name:16s} {100 * value:.2f} %")
