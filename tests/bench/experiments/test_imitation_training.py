"""Behaviour cloning of many runs at once: it learns, exactly, and each run is its own."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("optax", reason="optax is not installed (pip install -e '.[train]')")

import jax

from bench.experiments.imitation.demonstrations import Demonstrations, Scaling
from bench.experiments.imitation.models import MODELS, Model
from bench.experiments.imitation.training import Run, Trained, train
from gfy.errors import GfyValueError

D, K = 5, 3


@pytest.fixture
def expert(rng: np.random.Generator) -> Demonstrations:
    """An expert whose torques are tied to one another and often at their limits."""
    x = rng.normal(size=(400, D)).astype(np.float32)
    y = np.clip(x @ rng.normal(size=(D, K)), -1, 1).astype(np.float32)
    return Demonstrations(x, y, np.ones(400, np.float32), np.repeat([0, 1], 200), "made here")


def model(kind: str, hidden: int = 8, gamma: float = 2.0) -> Model:
    return Model(kind, D, K, hidden, gamma)


@pytest.mark.parametrize("kind", MODELS)
def test_training_lowers_the_loss_and_never_below_zero(
    kind: str, expert: Demonstrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.experiments.imitation.training.CHUNK", 50)
    runs, seen = [Run(3, 3e-3), Run(4, 3e-3)], []
    short = train(model(kind), expert, runs, steps=50, batch=64)
    longer = train(model(kind), expert, runs, steps=400, batch=64, progress=lambda *at: seen.append(at))
    assert (longer.losses < 0.3 * short.losses).all()
    assert (longer.losses > 0).all(), (
        "a Fenchel-Young loss is non-negative: below zero the inner solve is wrong"
    )
    assert seen == [(done, 400) for done in range(50, 401, 50)]


def test_a_run_does_not_depend_on_the_runs_beside_it(expert: Demonstrations) -> None:
    one = model("pairwise")
    alone = train(one, expert, [Run(7, 1e-3)], steps=30, batch=16)
    beside = train(one, expert, [Run(5, 1e-2), Run(7, 1e-3), Run(7, 1e-3, l2=1.0)], steps=30, batch=16)
    for name, value in alone.parameters.items():
        # Adam magnifies rounding; runs that were mixed up would differ by a hundred times as much.
        np.testing.assert_allclose(value[0], beside.parameters[name][1], atol=1e-3)
    weights, decayed = beside.parameters["W2"][1], beside.parameters["W2"][2]
    assert np.linalg.norm(decayed) < np.linalg.norm(weights)


def test_noise_on_observations_is_a_runs_own_and_its_seeds(expert: Demonstrations) -> None:
    one = model("unary")
    runs = [Run(7, 1e-3), Run(7, 1e-3, noise=0.5), Run(5, 1e-3, noise=0.5), Run(7, 1e-3, noise=0.5)]
    found = train(one, expert, runs, steps=20, batch=16).parameters["W1"]
    quiet = train(one, expert, runs[:1], steps=20, batch=16).parameters["W1"]
    np.testing.assert_allclose(found[0], quiet[0], atol=1e-3)
    np.testing.assert_array_equal(found[1], found[3])
    assert np.abs(found[1] - found[0]).max() > 3e-3
    assert np.abs(found[1] - found[2]).max() > 3e-3


@pytest.mark.parametrize("kind", MODELS)
def test_the_gradient_is_that_of_the_loss(kind: str, expert: Demonstrations) -> None:
    """Finite differences of the exactly solved loss, in float64, against the envelope gradient."""
    one = model(kind)
    theta = {n: jax.numpy.asarray(v, "float64") for n, v in one.initial(1).items()}
    x = jax.numpy.asarray(expert.observations[:6], "float64")
    y = jax.numpy.asarray((expert.actions[:6] + 1) / 2, "float64")
    loss = jax.jit(one.loss())
    slope = jax.grad(loss)(theta, x, y)
    rng = np.random.default_rng(0)
    along = {n: jax.numpy.asarray(rng.normal(size=v.shape)) for n, v in theta.items()}
    moved = [{n: v + e * along[n] for n, v in theta.items()} for e in (1e-5, -1e-5)]
    measured = float(loss(moved[0], x, y) - loss(moved[1], x, y)) / 2e-5
    told = sum(float((slope[n] * along[n]).sum()) for n in theta)
    assert told == pytest.approx(measured, rel=1e-4)


def test_policies_are_certified(expert: Demonstrations) -> None:
    from bench.experiments.imitation.program import certificates

    one = model("pairwise", gamma=0.5)
    theta = {n: np.stack([v, 4 * v]) for n, v in one.initial(2).items()}  # the second is badly scaled
    trained = Trained(theta, Scaling.fit(expert), np.zeros(2))
    found = certificates(one, trained, expert)
    assert len(found) == 2
    assert all(one["gap"] < 1e-4 and one["feasibility"] <= 1e-6 for one in found)
    assert found[0]["value"] != found[1]["value"]


def test_interaction_changes_the_action(expert: Demonstrations) -> None:
    one = model("pairwise")
    theta = {n: jax.numpy.asarray(v) for n, v in one.initial(2).items()}
    x = jax.numpy.asarray(expert.observations[:9])
    without = theta | {"Wa": 0 * theta["Wa"]}
    alone = model("unary").act({n: v for n, v in without.items() if n[-1] != "a"}, x)
    np.testing.assert_allclose(one.act(without, x), alone, atol=1e-6)
    assert np.abs(np.asarray(one.act(theta, x)) - np.asarray(alone)).max() > 0.05


def test_bad_models_and_budgets_get_a_sentence(expert: Demonstrations) -> None:
    with pytest.raises(GfyValueError, match="unary, pairwise"):
        model("triple")
    with pytest.raises(GfyValueError, match="positive energy scale"):
        model("unary", gamma=0.0)
    with pytest.raises(GfyValueError, match="steps"):
        train(model("unary"), expert, [Run(0, 1e-3)], steps=0)
    with pytest.raises(GfyValueError, match=r"seed\(s\) \[9\]"):
        train(model("unary"), expert, [Run(8, 1e-3), Run(9, float("inf"))], steps=20, batch=8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_a_policy_step_for_100_environments_costs_less_than_the_simulation(kind: str) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed (pip install -e '.[imitation]')")
    from bench.experiments.imitation.evaluation import trained_policy
    from bench.experiments.imitation.simulation import Simulation
    from bench.experiments.imitation.tasks import find_task

    task = find_task("halfcheetah")  # the fastest simulation of the four
    one = Model(kind, task.observations, task.actions, 128, 1.0)
    theta = {n: v[None] for n, v in one.initial(0).items()}
    zero = Scaling(np.zeros(task.observations), np.ones(task.observations))
    policy = trained_policy(one, theta, zero)
    with Simulation(task, 100, threads=2) as simulation:
        seen = simulation.reset(np.arange(100))
        policy(seen[None])  # compiled here
        thinking, acting = [], []
        for _ in range(15):
            t0 = time.perf_counter()
            actions = policy(seen[None])[0]
            t1 = time.perf_counter()
            seen, _, _ = simulation.step(np.arange(100), actions)
            thinking.append(t1 - t0)
            acting.append(time.perf_counter() - t1)
    assert min(thinking) < min(acting)
