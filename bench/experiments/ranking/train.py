"""Train linear networks to rank, with one loss per set, on the same rankings.

The scores of an example are W x + b. The permutahedron takes one score per item; its target is the vector of ranks. The
Birkhoff polytope takes one score per item and place, and its target is a permutation matrix: k times as many weights.
The baseline is least squares on the ranks, without any set: once by the same Adam, once solved exactly. The rate of
Adam (the penalty of the exact solution) is chosen for each loss on a held-out quarter of the first seed's training
part, by Kendall's tau; all else is one recipe. The test part is read once, after the choice.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import gfy
from bench.experiments.ranking.data import NAMES, Rankings, kendall_tau, make
from bench.experiments.theory.rows import Say, as_arrays, study, theory_row
from bench.measure.clock import Stopwatch
from bench.store import Store

EXACT = "least squares, exact"
LOSSES = (EXACT, "least squares", "permutahedron", "permutahedron, entropic", "birkhoff")
RATES, PENALTY = (0.01, 0.03, 0.1), 1e-3  # these are Adam's; its rate falls linearly to 0
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # penalties of the exact solution
BATCH, STEPS, QUICK_STEPS, SEEDS = 32, 150, 20, 3


def problem_of(loss: str, k: int) -> gfy.InnerProblem:
    """Return the inner problem of a loss; ranks are scaled to [0, 1]."""
    profile = np.arange(k) / (k - 1)
    regularizer, domain = {
        EXACT: (gfy.SquaredNorm(), gfy.Reals()),
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


def fitted(
    loss: str, x: np.ndarray, ranks: np.ndarray, setting: float, seed: int, steps: int
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Return W [d, n], b [n] and what is known of the training: its seconds after the first step, its last loss."""
    y = targets(loss, ranks)
    if loss == EXACT:
        watch = Stopwatch()
        centre, level = x.mean(0), y.mean(0)
        gram = (x - centre).T @ (x - centre) / len(x) + setting * np.eye(x.shape[-1])
        W = np.linalg.solve(gram, (x - centre).T @ (y - level) / len(x))
        value = 0.5 * ((x @ W + level - centre @ W - y) ** 2).sum(-1).mean()
        return W, level - centre @ W, {"steady_s": watch.processor_s, "value": float(value)}
    return _by_adam(loss, x, y, ranks.shape[-1], setting, seed, steps)


def _by_adam(
    loss: str, x: np.ndarray, y: np.ndarray, k: int, rate: float, seed: int, steps: int
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    import torch

    rng, arrays = np.random.default_rng(seed), as_arrays("torch")
    given, wanted = arrays(x), arrays(y)
    W = torch.zeros((x.shape[-1], y.shape[-1]), dtype=torch.float64, requires_grad=True)
    b = torch.zeros(y.shape[-1], dtype=torch.float64, requires_grad=True)
    objective = gfy.FenchelYoungLoss(problem_of(loss, k), reduction="mean")
    optimizer = torch.optim.Adam([W, b], lr=rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    watch, value = Stopwatch(), torch.zeros(())
    for step in range(steps):
        watch = Stopwatch() if step == 1 else watch  # the first step may compile and is not timed
        some = rng.choice(len(x), size=min(BATCH, len(x)), replace=False)
        optimizer.zero_grad()
        value = objective(given[some] @ W + b, wanted[some]) + PENALTY * (W * W).sum()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        falling.step()
    found = {"steady_s": watch.processor_s, "value": float(value.detach())}
    return W.detach().numpy(), b.detach().numpy(), found


@lru_cache(maxsize=64)
def chosen(loss: str, data: str, steps: int, data_dir: Path | None) -> tuple[float, float]:
    """Return the setting of a loss and its Kendall's tau in % on a quarter of the first seed's training part."""
    found = make(data, 0, data_dir)
    order = np.random.default_rng(0).permutation(len(found.x))
    held, kept = order[: len(order) // 4], order[len(order) // 4 :]

    def tau(setting: float) -> float:
        W, b, _ = fitted(loss, found.x[kept], found.ranks[kept], setting, 0, steps)
        return _tau(loss, found.x[held] @ W + b, found.ranks[held])[0]

    told = {setting: tau(setting) for setting in (PENALTIES if loss == EXACT else RATES)}
    best = max(told, key=lambda setting: told[setting])
    return best, told[best]


def _tau(loss: str, said: np.ndarray, ranks: np.ndarray) -> tuple[float, float]:
    """Return the mean and standard deviation of Kendall's tau over examples, in %."""
    found = kendall_tau(scores_of(loss, said, ranks.shape[-1]), ranks)
    return 100 * float(found.mean()), 100 * float(found.std())


def train(loss: str, data: str, seed: int, steps: int, data_dir: Path | None) -> dict[str, Any]:
    """Return Kendall's tau on the test part, in %, after a training on a bootstrap sample of the training part."""
    setting, held_out = chosen(loss, data, steps, data_dir)
    found: Rankings = make(data, seed, data_dir)
    rows = np.random.default_rng(seed).choice(len(found.x), size=len(found.x))
    W, b, told = fitted(loss, found.x[rows], found.ranks[rows], setting, seed, steps)
    tau, spread = _tau(loss, found.test_x @ W + b, found.test_ranks)
    extra = {
        "setting": setting, "held_out": held_out, "weights": W.size + b.size,
        "train_tau": _tau(loss, found.x @ W + b, found.ranks)[0],
    }  # fmt: skip
    return {"score": tau, "score_sd": spread, "steps": float(steps), "extra": extra, **told}


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
                about = {"features": d, "steps": steps, "rates": RATES, "penalty": PENALTY, "batch": BATCH}
                columns = {"k": k, "batch": examples, "seed": seed, "loss": loss, "backend": "torch"}
                row = theory_row("ranking", name, problem, about, **columns, gradient="envelope",
                                 score_name="Kendall tau (%)")  # fmt: skip
                cases.append((row, partial(train, loss, name, seed, steps, data_dir)))
    return study(store, cases, say)
