"""Train a pairwise energy network with torch.nn, beside a unary one, on labels that compete with each other.

The script draws its own data: of ten labels the three with the best scores are on, so that whether a label is on
depends on the others. The unary network decides each label by itself. The pairwise network scores labels by u and pairs
of labels by -A A^T with a factor A that all examples share. It learns that three labels are on, and so decides more of
them rightly.
"""

from __future__ import annotations

import os

import torch

import gfy
import solvers

EPOCHS = 100 if os.environ.get("GFY_QUICK") == "1" else 400
FEATURES, LABELS, ON = 8, 10, 3
STOP = gfy.Stop(tol=1e-5, max_steps=50)  # a more accurate solve hardly changes the training


class Unary(torch.nn.Module):
    """Score single labels: p* is a clipped line, label by label."""

    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(features, labels)

    def forward(self, x: torch.Tensor) -> gfy.Bilinear.Input:
        return gfy.Bilinear.Input(self.scores(x))


class Pairwise(torch.nn.Module):
    """Score labels and pairs: p* solves a problem that couples the labels."""

    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(features, labels)
        self.factor = torch.nn.Parameter(torch.full((labels, 1), 0.5))

    def forward(self, x: torch.Tensor) -> gfy.Pairwise.Input:
        return gfy.Pairwise.Input(u=self.scores(x), A=self.factor)


def make(n: int, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw features x [n, FEATURES] and labels y [n, LABELS]: those with the ON largest of the scores x W are 1."""
    x = torch.randn(n, FEATURES)
    best = (x @ weights).topk(ON, dim=-1).indices
    return x, torch.zeros(n, LABELS).scatter(-1, best, 1.0)


def train(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> gfy.FenchelYoungLoss:
    loss = gfy.FenchelYoungLoss(net.problem, solver=solvers.Auto(), reduction="mean", stop=STOP)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()
    return loss


def main() -> None:
    torch.manual_seed(0)
    weights = torch.randn(FEATURES, LABELS)
    (x, y), (x_test, y_test) = make(400, weights), make(400, weights)
    found = {}
    for kind in (Unary, Pairwise):
        torch.manual_seed(1)
        net = kind(FEATURES, LABELS)
        loss = train(net, x, y)
        with torch.no_grad():
            v = net(x_test)
            p = loss.predict(v)
            found[kind] = float((gfy.decode(net.problem, p, "hamming") == y_test).float().mean())
            gap = gfy.certify(net.problem, v, p).gap.max()
            value = loss(v, y_test).item()
        print(f"{kind.__name__:9} test loss {value:.3f}, {found[kind]:.1%} of decisions right, gap {gap:.0e}")
    if found[Pairwise] < found[Unary] + 0.02:
        raise SystemExit("the pairwise network does not win by two points, as it should on these labels")


if __name__ == "__main__":
    main()
