"""The convex-concave procedure: bounds that touch, descent that never rises, and who may use it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gfy

pytestmark = pytest.mark.thin(4)  # compiling for JAX takes most of the time

SEEDS = st.integers(0, 2**31)
BOX = gfy.Box(0.0, 1.0)
N, D, M = 6, 4, 3
LOSSES = {
    "rectifier": gfy.FenchelYoungLoss(
        gfy.InnerProblem(gfy.Rectifier(np.eye(M)[:, :2] + 0.1), gfy.SquaredNorm(), BOX)
    ),
    "maxout": gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Maxout(), gfy.BinaryGini(), BOX)),
    "lse": gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.LogSumExp(0.5), gfy.BinaryShannon(), BOX)),
}


@pytest.mark.parametrize("name", LOSSES)
@given(seed=SEEDS)
@settings(max_examples=6)
def test_the_bound_is_above_the_loss_and_touches_it(name: str, seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    loss = LOSSES[name]
    procedure = gfy.ConvexConcave(loss)
    v, anchor, other = (asarray(rng.normal(size=(N, M))) for _ in range(3))
    y = asarray(rng.integers(0, 2, size=(N, 2 if name == "rectifier" else 1)).astype(float))
    bound = tonumpy(procedure.majorant(v, y, anchor))
    assert np.all(bound >= tonumpy(loss(v, y)) - 1e-12)
    assert np.allclose(tonumpy(procedure.majorant(anchor, y, anchor)), tonumpy(loss(anchor, y)))
    middle = tonumpy(procedure.majorant(0.4 * v + 0.6 * other, y, anchor))
    chord = 0.4 * bound + 0.6 * tonumpy(procedure.majorant(other, y, anchor))
    assert np.all(middle <= chord + 1e-12)  # and it is convex, which the loss is not


@pytest.mark.parametrize("name", LOSSES)
def test_the_objective_never_rises(name: str, asarray: Any, tonumpy: Any, rng: Any) -> None:
    loss = LOSSES[name]
    x = asarray(rng.normal(size=(N, D)))
    y = asarray(rng.integers(0, 2, size=(N, 2 if name == "rectifier" else 1)).astype(float))
    theta = {"W": asarray(rng.normal(size=(D, M))), "b": asarray(0.1 * rng.normal(size=M))}

    def network(t: Any) -> Any:
        return x @ t["W"] + t["b"]

    found = gfy.ConvexConcave(loss, rounds=4, inner=gfy.Stop(1e-6, 25)).minimize(
        network, theta, y, penalty=0.05
    )
    size = sum(float((tonumpy(leaf) ** 2).sum()) for leaf in found.theta.values())
    ended = float(tonumpy(loss(network(found.theta), y)).mean()) + 0.025 * size
    assert np.isclose(found.objectives[-1], ended)
    assert np.all(np.diff(found.objectives) <= 1e-10)
    assert found.objectives[-1] < 0.7 * found.objectives[0]
    assert found.evaluations == sorted(found.evaluations)
    assert {k: tuple(v.shape) for k, v in found.theta.items()} == {"W": (D, M), "b": (M,)}


def test_a_convex_loss_is_minimised_in_one_round(asarray: Any, tonumpy: Any, rng: Any) -> None:
    """Where Phi is linear in v the bound is the loss: logistic regression, against its stationarity
    condition.
    """
    loss = gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryShannon(), BOX))
    x, y = rng.normal(size=(20, 3)), rng.integers(0, 2, size=(20, 1)).astype(float)
    procedure = gfy.ConvexConcave(loss, rounds=1, inner=gfy.Stop(1e-9, 300))
    found = procedure.minimize(lambda t: asarray(x) @ t, asarray(np.zeros((3, 1))), asarray(y), penalty=0.1)
    w = tonumpy(found.theta)
    gradient = x.T @ (1 / (1 + np.exp(-x @ w)) - y) / 20 + 0.1 * w
    assert np.abs(gradient).max() < 1e-7


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (gfy.InnerProblem(gfy.Rectifier(-np.eye(2)), gfy.SquaredNorm(), BOX), "not convex in v"),
        (gfy.InnerProblem(gfy.Maxout(), gfy.SquaredNorm(), gfy.Box(-1.0, 1.0)), "allows p < 0"),
        (gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), BOX), "not convex in v"),
    ],
)
def test_losses_that_are_not_a_difference_of_convex_functions_are_refused(problem: Any, said: str) -> None:
    with pytest.raises(gfy.UnsupportedError, match=said):
        gfy.ConvexConcave(gfy.FenchelYoungLoss(problem))


def test_bad_settings_get_a_sentence() -> None:
    with pytest.raises(gfy.GfyTypeError, match="FenchelYoungLoss"):
        gfy.ConvexConcave("maxout")  # type: ignore[arg-type]
    with pytest.raises(gfy.GfyValueError, match="rounds"):
        gfy.ConvexConcave(LOSSES["maxout"], rounds=0)
