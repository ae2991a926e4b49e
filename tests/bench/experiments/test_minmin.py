"""Training with and without solving: exact likelihoods by listing, Gibbs sweeps, the joint loss's optimum, rows."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.experiments.minmin.likelihood import exact, gibbs_sweep, outputs, scores
from bench.store import COLUMNS, Store
from reports.answers import beyond

pytest.importorskip("optax")


def test_listing_is_what_a_loop_over_outputs_gives() -> None:
    rng = np.random.default_rng(0)
    u, A = rng.normal(size=(3, 4)), rng.normal(size=(3, 4, 2))
    y = rng.integers(0, 2, size=(3, 4)).astype(float)
    assert len(outputs(4)) == 16
    for factor in (A, None):
        found = exact(u, factor, y)
        for n in range(3):
            weights, total = {}, 0.0
            for one in itertools.product([0.0, 1.0], repeat=4):
                value = float(u[n] @ one) - (
                    0.0 if factor is None else 0.5 * float(((factor[n].T @ one) ** 2).sum())
                )
                weights[one] = np.exp(value)
                total += np.exp(value)
            assert found.log_z[n] == pytest.approx(np.log(total), rel=1e-12)
            assert found.log_p[n] == pytest.approx(np.log(weights[tuple(y[n])] / total), rel=1e-12)
            share = sum(np.array(one) * w for one, w in weights.items()) / total
            np.testing.assert_allclose(found.marginals[n], share, rtol=1e-12)
    assert scores(u, A, outputs(4)).shape == (3, 16)


def test_gibbs_sweeps_leave_the_model_as_it_is() -> None:
    """Chains that start at exact samples stay at them in distribution, and forget where they started."""
    jax = pytest.importorskip("jax")
    import gfy

    rng = np.random.default_rng(1)
    u, A = rng.normal(size=3), 1.5 * rng.normal(size=(3, 1))
    v = gfy.Pairwise.Input(jax.numpy.asarray(u), jax.numpy.asarray(A))
    truth = exact(u[None], A[None], np.zeros((1, 3))).marginals[0]
    y = jax.numpy.zeros((20_000, 3))
    sweep = jax.jit(lambda y, key: gibbs_sweep(gfy.Pairwise(), v, y, key))
    for step in range(30):
        y = sweep(y, jax.random.PRNGKey(step))
    assert np.abs(np.asarray(y).mean(0) - truth).max() < 0.015
    first = np.asarray(sweep(jax.numpy.zeros((20_000, 3)), jax.random.PRNGKey(0))).mean(0)
    assert np.abs(first - truth).max() > 0.03  # one sweep is not enough to forget


@pytest.mark.slow
def test_the_joint_loss_reaches_the_likelihood_of_maximum_likelihood() -> None:
    """On a network of one input the optimum is the table of frequencies: both ways must find it, tau must be log Z."""
    from bench.experiments.common.models import Model
    from bench.experiments.minmin.training import Trainer, Training

    rng = np.random.default_rng(2)
    X = np.ones((4000, 3))
    Y = (rng.uniform(size=(4000, 3)) < (0.3, 0.5, 0.7)).astype(float)
    Y[:, 1] = np.where(rng.uniform(size=4000) < 0.5, 1 - Y[:, 0], Y[:, 1])  # a pair that avoids each other
    share = Y.mean(0)
    best = {}
    for way in ("likelihood", "minmin"):
        training = Training(Model("pairwise", 3, 3, regularizer="shannon"), way, steps=3000, batch=128)
        params = Trainer(training, share)(X, Y, [1e-2], [0.0], [0])
        one = {name: np.asarray(value[0]) for name, value in params.items()}
        v = training.input(one, np.asarray(X[:1], np.float32), share)
        u, A = (np.repeat(np.asarray(a, dtype=float), len(Y), 0) for a in v)
        found = exact(u, A, Y)
        best[way] = -found.log_p.mean()
        if way == "minmin":
            tau = float(np.asarray(training.tau(one, np.asarray(X[:1], np.float32)))[0])
            assert tau == pytest.approx(found.log_z[0] + np.log1p(-share).sum(), abs=0.03)
    assert best["minmin"] == pytest.approx(best["likelihood"], abs=0.005)
    alone = -(share * np.log(share) + (1 - share) * np.log1p(-share)).sum()
    assert best["minmin"] < alone - 0.05  # the interaction was learned, not the labels alone


@pytest.mark.slow
def test_rows_are_kept_and_give_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.experiments.minmin import experiment

    monkeypatch.setattr(experiment, "ENERGIES", ("unary-rectifier",))
    monkeypatch.setattr(experiment, "WAYS", ("minmin", "gfy"))
    said: list[str] = []
    with Store(tmp_path / "beyond.sqlite") as store:
        rows = experiment.run(store, said.append, quick=True)
        assert len(rows) == 2 * experiment.SEEDS
        assert len(said) == 2
        experiment.run(store, said.append, quick=True)
        assert len(said) == 2
        assert all(50 < row["score"] <= 100 for row in rows)  # after a hundred steps
        text = beyond.text(store.frame(), "minmin")
    assert text.count("| synthetic | unary-rectifier |") == 2


def row(loss: str, seed: int, score: float, **extra: float) -> dict[str, Any]:
    found = {"nll": 2.0, "marginal_accuracy": 80.0} | extra
    return dict.fromkeys(COLUMNS) | {
        "kind": "minmin", "problem": "yeast", "energy": "pairwise", "loss": loss, "seed": seed, "score": score,
        "steady_s": 1.5, "key": f"{loss}{seed}", "extra": json.dumps(found),
    }  # fmt: skip


def test_the_table_marks_the_best_that_lists_nothing() -> None:
    import pandas as pd

    frame = pd.DataFrame([
        row("likelihood", 0, 90.0), row("likelihood", 1, 92.0), row("gfy", 0, 80.0), row("gfy", 1, 82.0),
        row("minmin", 0, 79.0, tau_error=0.25), row("minmin", 1, 79.0, tau_error=0.75),
    ])  # fmt: skip
    text = beyond.text(frame, "minmin")
    assert "| yeast | pairwise | exact likelihood | 91.00 ± 1.41 | 80.00 | 2.000 | - | 1.50 |" in text
    assert "| joint (min-min) | 79.00 ± 0.00 | 80.00 | 2.000 | 0.500 | 1.50 |" in text
    assert "| Fenchel-Young | **81.00 ± 1.41** |" in text
    assert text.endswith("Fenchel-Young less joint, in points: yeast pairwise +2.00.")
