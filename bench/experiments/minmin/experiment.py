"""Compare seven ways to train unary and pairwise networks, beside the exact likelihood, to see when solving pays.

A cell is a dataset, an energy and a way. Its rate and penalty are chosen on a held-out quarter of the training part by
label accuracy. Six networks with other first draws are then trained on the whole training part, and tested once on the
test part. All outputs of all datasets can be listed (k <= 14), so that test likelihoods, marginals and log Z are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.load import load
from bench.datasets.splits import normalised
from bench.experiments.common.models import Model
from bench.experiments.common.objectives import make_solver, predicting_problem
from bench.experiments.minmin.likelihood import exact
from bench.experiments.minmin.training import WAYS, Trainer, Training
from bench.measure.clock import Stopwatch
from bench.store import Store, key_of
from bench.store.environment import row_facts

Say = Callable[[str], None]
DATASETS = ("synthetic", "emotions", "yeast")
ENERGIES = ("unary-rectifier", "pairwise")
RATES, PENALTIES = (1e-3, 3e-3, 1e-2), (1e-4, 1e-2)
SEEDS = 6  # as many as there are settings, so that one compiled program serves both


def run(
    store: Store, say: Say, quick: bool = False, data_dir: Path | None = None, steps: int = 1500
) -> list[dict[str, Any]]:
    """Return one row per dataset, energy, way and seed; cells that are stored are not trained again.

    Args:
        store: where rows go.
        say: told of every cell.
        quick: the synthetic set alone and 100 steps; False by default.
        data_dir: folder searched before GFY_DATA; None by default.
        steps: gradient steps of a training; 1500 by default.

    Returns:
        The stored rows.
    """
    found: list[dict[str, Any]] = []
    steps = 100 if quick else steps
    for dataset in DATASETS[:1] if quick else DATASETS:
        data = load(dataset, data_dir)
        for energy in ENERGIES:
            model = Model(energy, data.features, data.labels, regularizer="shannon")
            for way in WAYS:
                training = Training(model, way, steps)
                if training.unsupported() is not None:
                    continue
                rows = [_row(dataset, training, seed) for seed in range(SEEDS)]
                stored = [store.get(key_of(row)) for row in rows]
                if any(row is None for row in stored):
                    measured = train(training, data)
                    for row, columns in zip(rows, measured, strict=True):
                        store.put(row | columns)
                    score = np.mean([c["score"] for c in measured])
                    nll = np.mean([c["extra"]["nll"] for c in measured])
                    say(f"{dataset}, {energy}, {way}: {score:.2f} % of labels right, -log p {nll:.3f}, "
                        f"{measured[0]['steady_s']:.2f} s per training")  # fmt: skip
                    stored = [store.get(key_of(row)) for row in rows]
                found += [row for row in stored if row is not None]
    return found


def train(training: Training, data: Any) -> list[dict[str, Any]]:
    """Return the columns of one row per seed."""
    fitted, test = normalised(data.train, data.test)
    share = np.clip(fitted.Y.mean(0), 0.02, 0.98)
    trainer = Trainer(training, share)
    grid = np.array([(rate, penalty) for rate in RATES for penalty in PENALTIES])
    kept, held = hold_out_rows(data.train)
    settings = trainer(fitted.X, fitted.Y, grid[:, 0], grid[:, 1], np.zeros(SEEDS, int), kept)
    right = [
        judged(training, one, share, fitted.X[held], fitted.Y[held])["accuracy"]
        for one in unstacked(settings)
    ]
    best = int(np.argmax(right))
    rate, penalty = grid[best]
    seeds = np.arange(SEEDS)
    watch = Stopwatch()
    params = trainer(fitted.X, fitted.Y, np.full(SEEDS, rate), np.full(SEEDS, penalty), seeds)
    seconds = watch.processor_s / SEEDS
    columns = []
    for one in unstacked(params):
        found = judged(training, one, share, test.X, test.Y)
        extra = {name: value for name, value in found.items() if name != "accuracy"}
        extra |= {"rate": float(rate), "penalty": float(penalty), "held_out": 100 * right[best]}
        columns.append(
            {
                "score": 100 * found["accuracy"],
                "steady_s": seconds,
                "extra": extra,
                **watch.columns(),
                "status": "ok" if np.isfinite(found["nll"]) else "not finite",
            }  # fmt: skip
        )
    return columns


def hold_out_rows(part: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the examples that a setting is trained on, and of the quarter that it is judged on."""
    from sklearn.model_selection import train_test_split

    first, second = train_test_split(np.arange(len(part)), test_size=0.25, random_state=0)
    return first, second


def unstacked(params: Any) -> list[dict[str, np.ndarray]]:
    """Return [H, ...] parameters as H dictionaries of NumPy arrays."""
    arrays = {name: np.asarray(value) for name, value in params.items()}
    return [{name: value[h] for name, value in arrays.items()} for h in range(SEEDS)]


def judged(
    training: Training, params: Any, share: np.ndarray, X: np.ndarray, Y: np.ndarray
) -> dict[str, float]:
    """Return label accuracy of p* and of the exact marginals, -log p of the outputs, and how far tau is from log Z."""
    import jax.numpy as jnp

    import gfy

    x = jnp.asarray(X, jnp.float32)
    v = training.input({name: jnp.asarray(value) for name, value in params.items()}, x, share)
    u = np.asarray(v[0], dtype=np.float64)
    A = np.asarray(v[1], dtype=np.float64) if len(v) > 1 else None
    if not (np.isfinite(u).all() and (A is None or np.isfinite(A).all())):  # the training diverged
        return {"accuracy": 0.0, "marginal_accuracy": 0.0, "nll": float("inf")}
    loss = training.way if training.way == "perceptron" else "gfy"
    problem = predicting_problem(training.model, loss)
    # Without a regularizer a solve takes many steps. A loose tolerance is enough, since p lies near 0 and 1,
    # far from the 1/2 that decides.
    stop = gfy.Stop(1e-2, 500) if loss == "perceptron" else gfy.Stop(1e-6, 200)
    p = gfy.argmax(problem, v, solver=make_solver("auto", training.model, loss), stop=stop)
    truth = exact(u, A, Y)
    found = {
        "accuracy": float(((np.asarray(p) > 0.5) == (Y > 0.5)).mean()),
        "marginal_accuracy": 100 * float(((truth.marginals > 0.5) == (Y > 0.5)).mean()),
        "nll": float(-truth.log_p.mean()),
    }
    if training.way == "minmin":
        tau = np.asarray(training.tau(params, np.asarray(X, np.float32)), dtype=np.float64)
        # tau is compared with log Z of q exp(g), where log q(y) = <odds, y> + sum_j log(1 - share_j)
        found["tau_error"] = float(np.abs(tau - (truth.log_z + np.log1p(-share).sum())).mean())
    return found


def _row(dataset: str, training: Training, seed: int) -> dict[str, Any]:
    model = training.model
    mode = {"cross_entropy": "implicit", "gfy": "envelope", "perceptron": "envelope"}.get(
        training.way, "none"
    )
    return row_facts() | {
        "kind": "minmin", "status": "ok", "problem": dataset, "family": "minmin", "energy": model.energy,
        "regularizer": model.regularizer, "domain": "box", "k": model.labels, "batch": training.batch,
        "rank": model.rank if model.energy == "pairwise" else None, "seed": seed, "loss": training.way,
        "gradient": mode, "backend": "jax", "device": "cpu", "dtype": "float32", "score_name": "label accuracy (%)",
        "problem_params": {
            "steps": training.steps, "samples": training.samples, "rates": RATES, "penalties": PENALTIES,
        },
    }  # fmt: skip
