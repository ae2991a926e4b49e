"""Train linear networks to rank, with one loss per set, on the same rankings.

The scores of an example are W x + b. The permutahedron takes one score per item; its target is the vector of ranks.
The Birkhoff polytope takes one score per item and place, and its target is a permutation matrix: k times as many
weights. Least squares on the ranks, without any set, is the line to beat. One recipe for all, nothing is selected.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gfy
from bench.experiments.ranking.data import NAMES, Rankings, kendall_tau, make
from bench.experiments.theory.rows import Say, as_arrays, study, theory_row
from bench.store import Store

LOSSES = ("least squares", "permutahedron", "permutahedron, entropic", "birkhoff")
RATE, PENALTY = 0.05, 1e-3
BATCH, STEPS, QUICK_STEPS, SEEDS = 32, 150, 20, 3


def problem_of(loss: str, k: int) -> gfy.InnerProblem:
    """Return the inner problem of a loss; ranks are scaled to [0, 1]."""
    profile = np.arange(k) / (k - 1)
    regularizer, domain = {
        "least squares": (gfy.SquaredNorm(), gfy.Reals()),
        "permutahedron": (gfy.SquaredNorm(), gfy.Permutahedron(profile)),
        "permutahedron, entropic": (gfy.Shannon(), gfy.Permutahedron(profile)),
        "birkhoff": (gfy.SquaredNorm(), gfy.Birkhoff()),
    }[loss]
    return gfy.InnerProblem(gfy.Bilinear(), regularizer, domain)


def targets(loss: str, ranks: np.ndarray) -> np.ndarray:
    """Return scaled ranks [n, k], or permutation matrices [n, k k] whose rows are items."""
    k = ranks.shape[-1]
    return np.eye(k)[ranks].reshape(len(ranks), k * k) if loss == "birkhoff" else ranks / (k - 1)


def scores_of(loss: str, said: np.ndarray, k: int) -> np.ndarray:
    """Return one score per item, [n, k], in the order that is predicted."""
    if loss != "birkhoff":
        return said
    best = gfy.Birkhoff().linear_oracle(said).reshape(len(said), k, k)
    return np.asarray(best.argmax(-1), dtype=float)


def train(loss: str, data: str, seed: int, steps: int, data_dir: Path | None) -> dict[str, Any]:
    """Return Kendall's tau on the test part, in %, after Adam on batches drawn from the training part."""
    import torch

    arrays = as_arrays("torch")
    found: Rankings = make(data, seed, data_dir)
    k = found.ranks.shape[-1]
    problem = problem_of(loss, k)
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(found.x), size=len(found.x))  # a bootstrap sample per seed
    x, y = arrays(found.x[rows]), arrays(targets(loss, found.ranks[rows]))
    W = torch.zeros((x.shape[-1], y.shape[-1]), dtype=torch.float64, requires_grad=True)
    b = torch.zeros(y.shape[-1], dtype=torch.float64, requires_grad=True)
    objective = gfy.FenchelYoungLoss(problem, reduction="mean")
    optimizer = torch.optim.Adam([W, b], lr=RATE)
    value = torch.zeros(())
    for _ in range(steps):
        some = rng.choice(len(rows), size=min(BATCH, len(rows)), replace=False)
        optimizer.zero_grad()
        value = objective(x[some] @ W + b, y[some]) + PENALTY * (W * W).sum()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        said, fit = ((arrays(z) @ W + b).numpy() for z in (found.test_x, found.x))
    tau = kendall_tau(scores_of(loss, said, k), found.test_ranks)
    own = kendall_tau(scores_of(loss, fit, k), found.ranks)
    return {
        "score": 100 * float(tau.mean()),
        "score_sd": 100 * float(tau.std()),
        "steps": float(steps),
        "value": float(value.detach()),
        "extra": {"train_tau": 100 * float(own.mean()), "weights": W.numel() + b.numel()},
    }


def run(
    store: Store,
    say: Say,
    seeds: int = SEEDS,
    steps: int = STEPS,
    names: tuple[str, ...] = NAMES,
    data_dir: Path | None = None,
) -> list[dict[str, Any]]:
    """Return one row per dataset, loss and seed; what was stored before is not trained again.

    Args:
        store: Where rows go.
        say: Told of every row as it is measured.
        seeds: Draws of the training part.
        steps: Of Adam.
        names: "synthetic", "yeast" or both.
        data_dir: Folder searched for yeast before GFY_DATA and the user cache.

    Returns:
        The rows, in order.
    """
    cases = []
    for name in names:
        shape = make(name, 0, data_dir)
        (examples, d), k = shape.x.shape, shape.ranks.shape[-1]
        for loss in LOSSES:
            problem = problem_of(loss, k)
            for seed in range(seeds):
                about = {"features": d, "steps": steps, "rate": RATE, "penalty": PENALTY, "batch": BATCH}
                columns = {"k": k, "batch": examples, "seed": seed, "loss": loss, "backend": "torch"}
                row = theory_row("ranking", name, problem, about, **columns, gradient="envelope",
                                 score_name="Kendall tau (%)")  # fmt: skip
                cases.append((row, partial(train, loss, name, seed, steps, data_dir)))
    return study(store, cases, say)
