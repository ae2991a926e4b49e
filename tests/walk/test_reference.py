"""The references of the walk hold against closed forms, so that a test that fails there speaks of the library."""

from __future__ import annotations

import numpy as np
import pytest

from walk.expected import by_name, example, expected
from walk.formulas_sets import Omega, Region
from walk.reference import Problem, solve


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_softmax_and_its_derivative() -> None:
    right = expected("Bilinear", "Simplex", "Shannon", "batch")
    scores = right.leaves["v"]
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(right.p, p, atol=1e-13)
    np.testing.assert_allclose(right.value, np.log(np.exp(scores).sum(-1)), atol=1e-13)
    for d, slope in zip(right.directions["v"], right.slopes["v"], strict=True):
        moved = p * (d - (p * d).sum(-1, keepdims=True))
        np.testing.assert_allclose(slope.p, moved, atol=1e-9)
        np.testing.assert_allclose(slope.value, (p * d).sum(-1), atol=1e-9)
        np.testing.assert_allclose(slope.loss, ((p - right.y) * d).sum(-1), atol=1e-9)
        np.testing.assert_allclose(slope.second, (moved * d).sum(-1), atol=1e-4)


def test_sparse_sigmoid() -> None:
    right = expected("Bilinear", "Box", "BinaryGini", "batch")
    np.testing.assert_allclose(right.p, np.clip((right.leaves["v"] + 1) / 2, 0, 1), atol=1e-13)


def test_sigmoid() -> None:
    right = expected("Bilinear", "Box", "BinaryShannon(0.375)", "batch")
    np.testing.assert_allclose(right.p, logistic(right.leaves["v"] / 0.375), atol=1e-13)


def test_the_linear_system_of_a_quadratic_energy_and_its_derivative() -> None:
    right = expected("LinearQuadratic", "Reals", "SquaredNorm(0.375)", "shared rest")
    U, u = right.leaves["U"], right.leaves["u"]
    inverse = np.linalg.inv(0.375 * np.eye(len(U)) - U)
    np.testing.assert_allclose(right.p, u @ inverse, atol=1e-12)
    for d, slope in zip(right.directions["U"], right.slopes["U"], strict=True):
        np.testing.assert_allclose(slope.p, right.p @ d @ inverse, atol=1e-8)
        np.testing.assert_allclose(slope.value, np.einsum("bi,ij,bj->b", right.p, d, right.p) / 2, atol=1e-8)


def test_a_ball_without_a_regularizer() -> None:
    right = expected("Bilinear", "Ball", "Zero", "batch")
    scores = right.leaves["v"]
    np.testing.assert_allclose(
        right.p, 0.875 * scores / np.linalg.norm(scores, axis=-1, keepdims=True), atol=1e-12
    )


def test_the_closed_form_of_a_metric() -> None:
    right = expected("Metric(inside)", "Box", "Gini(0.375)", "batch")
    np.testing.assert_allclose(right.p, right.leaves["v"], atol=1e-14)
    for d, slope in zip(right.directions["v"], right.slopes["v"], strict=True):
        np.testing.assert_allclose(slope.p, d, atol=1e-9)
        np.testing.assert_allclose(slope.value, -(0.375 * (right.p - 0.5) * d).sum(-1), atol=1e-9)


@pytest.mark.parametrize("energy", ["ConcaveSpen(relu)", "InputConvexNetwork(relu)"])
def test_no_point_of_the_set_beats_the_reference_of_a_kinked_energy(energy: str) -> None:
    right = expected(energy, "Box", "BinaryGini", "batch")
    from walk.expected import by_name

    entry, _, regularizer = by_name(energy, "Box", "BinaryGini")
    formula, rng = entry.formula(), np.random.default_rng(0)
    for index in np.ndindex(*right.value.shape):
        leaves = example(entry, right.leaves, index)
        tries = np.clip(
            right.p[index] + rng.normal(size=(4000, 5)) * 10.0 ** rng.uniform(-4, 0, (4000, 1)), 0, 1
        )
        best = max(formula.value(leaves, p) - regularizer.omega.value(p) for p in tries)
        assert best <= right.value[index]
        here = formula.value(leaves, right.p[index]) - regularizer.omega.value(right.p[index])
        assert here == pytest.approx(right.value[index], abs=1e-12)


def test_a_point_on_a_bound_where_nothing_pushes_is_seen() -> None:
    """p* = 0 with a zero multiplier is not differentiable: the margin is zero."""
    from walk.formulas_energies import Scores

    problem = Problem(Scores(lambda v: v), Omega("norm"), Region(2, 0.0, 1.0), {"v": np.array([0.0, 0.5])})
    assert solve(problem).margin < 1e-6


def test_a_target_on_a_kink_of_the_energy_is_drawn_again() -> None:
    """A target 2e-4 from a kink of |p - v| gave a derivative of the loss that was off by 8e-3."""
    right = expected("Metric(manhattan)", "ConvexHull", "Gini", "two axes")
    assert np.abs(right.y - right.leaves["v"]).min() > 4e-4  # the farthest sample of the differences
    for d, slope in zip(right.directions["v"], right.slopes["v"], strict=True):
        np.testing.assert_allclose(
            slope.loss, slope.value - (np.sign(right.y - right.leaves["v"]) * d).sum(-1), atol=1e-6
        )


def test_a_hull_in_one_dimension_is_an_interval() -> None:
    right = expected("Maxout", "ConvexHull", "SquaredNorm", "two axes")
    points = by_name("Maxout", "ConvexHull", "SquaredNorm")[1].make(1).points
    best = right.leaves["v"].max(-1, keepdims=True)
    np.testing.assert_allclose(right.p, np.clip(best, points.min(), points.max()), atol=1e-12)
