"""Train a pairwise energy network with torch.nn, beside a unary one, on labels that depend on each other.

The data is made on the spot. The pairwise network scores labels by u and pairs of labels by -A A^T, A of rank one.
"""

from __future__ import annotations

import os

import torch

import gfy
import solvers
from bench.datasets.synthetic import correlated

EPOCHS = 20 if os.environ.get("GFY_QUICK") == "1" else 300
STOP = gfy.Stop(tol=1e-5, max_steps=50)  # more than a training step can notice


class Unary(torch.nn.Module):
    """Scores of single labels: p* is a clipped line, label by label."""

    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(features, labels)

    def forward(self, x: torch.Tensor) -> gfy.Bilinear.Input:
        return gfy.Bilinear.Input(self.scores(x))


class Pairwise(torch.nn.Module):
    """Scores of labels and of pairs: p* solves a problem that couples the labels."""

    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(features, labels)
        self.factor = torch.nn.Linear(features, labels)

    def forward(self, x: torch.Tensor) -> gfy.Pairwise.Input:
        return gfy.Pairwise.Input(u=self.scores(x), A=self.factor(x)[..., None])


def train(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> gfy.FenchelYoungLoss:
    loss = gfy.FenchelYoungLoss(net.problem, solver=solvers.Auto(), reduction="mean", stop=STOP)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=1e-3)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()
    return loss


def main() -> None:
    data = correlated(n_train=400, n_test=200)
    x, y, x_test, y_test = (
        torch.as_tensor(a, dtype=torch.float32)
        for a in (data.train.X, data.train.Y, data.test.X, data.test.Y)
    )
    for kind in (Unary, Pairwise):
        torch.manual_seed(0)
        net = kind(x.shape[1], y.shape[1])
        loss = train(net, x, y)
        with torch.no_grad():
            v = net(x_test)
            p = loss.predict(v)
            right = float((gfy.decode(net.problem, p, "hamming") == y_test).float().mean())
            gap = gfy.certify(net.problem, v, p).gap.max()
            value = loss(v, y_test).item()
            print(f"{kind.__name__:9} test loss {value:.3f}, {right:.1%} of decisions right, gap {gap:.0e}")
        if right < 0.7:
            raise SystemExit("the network has not learned")


if __name__ == "__main__":
    main()
