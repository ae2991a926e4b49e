"""Train by the convex-concave procedure and by Adam: rectifier, maxout and log-sum-exp networks on yeast.

The paper notes that these losses are differences of convex functions and leaves the use of it to future work. Every
label has `pieces` affine functions of the features, v = W x + b; the objective is the mean loss plus lambda/2
|theta|^2, a difference of convex functions of theta itself. Both optimizers start from the same draw and see all
examples at every evaluation; the budget is counted in evaluations of the objective's gradient. Adam runs at several
rates, with one row per rate, and none of them is chosen as its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gfy
from bench.experiments.theory.rows import Say, as_arrays, study, theory_row
from bench.store import Store
from gfy.errors import GfyValueError

RATES = (1e-3, 1e-2, 1e-1)
ROUNDS = (6, 30)
NETWORKS = ("rectifier", "maxout", "lse")
PENALTY = 1e-3


@dataclass(frozen=True)
class Network:
    """Represent a network whose loss is a difference of convex functions of (W [d, k m], b [k m])."""

    name: str
    labels: int
    pieces: int

    @property
    def problem(self) -> gfy.InnerProblem:
        box = gfy.Box(0.0, 1.0)
        if self.name == "rectifier":
            # The score of a label is the sum of its rectifiers and so >= 0. Omega must not be centred so that
            # a score of 0 gives p = 1/2.
            U = np.kron(np.eye(self.labels), np.ones((self.pieces, 1)))
            return gfy.InnerProblem(gfy.Rectifier(U), gfy.SquaredNorm(), box)
        energy = gfy.Maxout() if self.name == "maxout" else gfy.LogSumExp()
        return gfy.InnerProblem(energy, gfy.BinaryGini(), box)

    def inputs(self, theta: Any, x: Any) -> Any:
        """Return v for all examples: [n, k m], or [n, k, m] where every label is an inner problem of its own."""
        v = x @ theta["W"] + theta["b"]
        return v if self.name == "rectifier" else v.reshape(x.shape[0], self.labels, self.pieces)

    def targets(self, y: Any) -> Any:
        return y if self.name == "rectifier" else y[..., None]

    def probabilities(self, p: Any) -> Any:
        return p if self.name == "rectifier" else p[..., 0]

    def first(self, features: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        width = self.labels * self.pieces
        scale = 1 / np.sqrt(features)
        return {"W": rng.normal(scale=scale, size=(features, width)), "b": rng.normal(scale=0.1, size=width)}


@dataclass(frozen=True)
class Data:
    """Hold scaled features and labels of both parts."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def yeast(data_dir: Path | None = None, dataset: str = "yeast") -> Data:
    from bench.datasets.load import load
    from bench.datasets.splits import normalised

    found = load(dataset, data_dir)
    train, test = normalised(found.train, found.test)
    return Data(train.X, train.Y, test.X, test.Y)


class Curve:
    """Record the objective along training: after how many evaluations and how many seconds."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.evaluations: list[int] = []
        self.seconds: list[float] = []
        self.objective: list[float] = []

    def add(self, evaluations: int, objective: float) -> None:
        self.evaluations.append(evaluations)
        self.seconds.append(round(time.perf_counter() - self.began, 4))
        self.objective.append(objective)


def _descend(network: Network, data: Data, budget: int, rounds: int, seed: int) -> dict[str, Any]:
    """Run the convex-concave procedure: `rounds` bounds, with the evaluations spread evenly over them."""
    arrays, theta, x, y, loss = _setting(network, data, seed)
    procedure = gfy.ConvexConcave(loss, rounds=rounds, inner=gfy.Stop(1e-6, max(1, budget // rounds)))
    began = time.perf_counter()
    found = procedure.minimize(lambda t: network.inputs(t, x), theta, y, penalty=PENALTY)
    seconds = time.perf_counter() - began
    per = [round(seconds * e / max(1, found.evaluations[-1]), 4) for e in found.evaluations]
    curve = {"evaluations": found.evaluations, "seconds": per, "objective": found.objectives}
    return _results(network, data, found.theta, arrays, curve)


def _adam(network: Network, data: Data, budget: int, rate: float, seed: int) -> dict[str, Any]:
    """Run Adam on all examples at once for `budget` steps."""
    import jax
    import optax

    arrays, theta, x, y, loss = _setting(network, data, seed)
    optimizer = optax.adam(rate)

    def objective(t: Any) -> Any:
        size = sum((leaf * leaf).sum() for leaf in t.values())
        return loss(network.inputs(t, x), y).mean() + 0.5 * PENALTY * size

    def step(state: tuple[Any, Any], _: Any) -> tuple[tuple[Any, Any], Any]:
        t, memory = state
        value, gradient = jax.value_and_grad(objective)(t)
        change, memory = optimizer.update(gradient, memory, t)
        return (optax.apply_updates(t, change), memory), value

    chunk = max(1, budget // 20)
    advance: Callable[..., Any] = jax.jit(lambda state: jax.lax.scan(step, state, None, length=chunk))
    state = (theta, optimizer.init(theta))
    curve = Curve()
    for part in range(max(1, budget // chunk)):
        state, values = advance(state)
        curve.add(part * chunk, float(values[0]))
    curve.add(max(1, budget // chunk) * chunk, float(objective(state[0])))
    return _results(
        network,
        data,
        state[0],
        arrays,
        {n: getattr(curve, n) for n in ("evaluations", "seconds", "objective")},
    )


def _setting(network: Network, data: Data, seed: int) -> tuple[Any, Any, Any, Any, gfy.FenchelYoungLoss]:
    arrays = as_arrays("jax")
    rng = np.random.default_rng(seed)
    theta = {name: arrays(value) for name, value in network.first(data.x.shape[1], rng).items()}
    return (
        arrays,
        theta,
        arrays(data.x),
        arrays(network.targets(data.y)),
        gfy.FenchelYoungLoss(network.problem),
    )


def _results(network: Network, data: Data, theta: Any, arrays: Any, curve: dict[str, Any]) -> dict[str, Any]:
    accuracy = {}
    for part, x, y in (("train", data.x, data.y), ("test", data.x_test, data.y_test)):
        p = network.probabilities(np.asarray(gfy.argmax(network.problem, network.inputs(theta, arrays(x)))))
        accuracy[part] = 100 * float(((p > 0.5) == (y > 0.5)).mean())
    value = float(curve["objective"][-1])
    if not np.isfinite(value):
        raise GfyValueError(f"training {network.name} diverged: its objective is {value}")
    return {
        "score": accuracy["test"],
        "value": value,
        "steps": float(curve["evaluations"][-1]),
        "extra": {"curve": curve, "train_accuracy": accuracy["train"], "objective": value},
    }


def run(
    store: Store, say: Say, seeds: int = 3, budget: int = 600, pieces: int = 3, data_dir: Path | None = None,
    dataset: str = "yeast",
) -> list[dict[str, Any]]:  # fmt: skip
    """Train three networks by the procedure at two divisions of the budget and by Adam at several rates; one
    row per seed."""
    data = yeast(data_dir, dataset)
    rows = []
    for name in NETWORKS:
        network = Network(name, data.y.shape[1], pieces)
        ways: list[tuple[str, dict[str, Any], Callable[[int], dict[str, Any]]]] = []
        for rounds in ROUNDS:
            ways.append(
                ("ConvexConcave", {"rounds": rounds}, partial(_descend, network, data, budget, rounds))
            )
        for rate in RATES:
            ways.append(("Adam", {"rate": rate}, partial(_adam, network, data, budget, rate)))
        for seed in range(seeds):
            for solver, params, train in ways:
                about = {"network": name, "pieces": pieces, "penalty": PENALTY, "budget": budget}
                columns = {
                    "k": data.y.shape[1], "batch": len(data.x), "seed": seed, "backend": "jax", "solver": solver,
                    "solver_params": params, "gradient": "envelope", "score_name": "test accuracy (%)",
                }  # fmt: skip
                row = theory_row("dc", dataset, network.problem, about, **columns)
                rows.append((row, partial(train, seed)))
    return study(store, rows, say)
