"""Calibration: the bound is never broken, how tight it can be, and the consistency that follows from it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gfy
from gfy.theory.biconjugate import touching_input

pytestmark = pytest.mark.thin(4)  # compiling for JAX takes most of the time

SEEDS = st.integers(0, 2**31)
B, K = 64, 3
BITS = np.array(list(itertools.product((0.0, 1.0), repeat=K)))
BOX = gfy.Box(0.0, 1.0)
PROBLEMS = {
    "bilinear": gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), BOX),
    "logistic": gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryShannon(0.5), BOX),
    "pairwise": gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(0.7), BOX),
}


def random_input(problem: gfy.InnerProblem, rng: np.random.Generator, asarray: Any, size: float = 1.0) -> Any:
    u = asarray(rng.normal(scale=size, size=(B, K)))
    return (
        gfy.Pairwise.Input(u, asarray(rng.normal(size=(B, K, 2)))) if problem is PROBLEMS["pairwise"] else u
    )


@pytest.mark.parametrize("name", PROBLEMS)
@given(seed=SEEDS)
@settings(max_examples=5)
def test_the_bound_is_never_broken(name: str, seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    problem = PROBLEMS[name]
    q = rng.dirichlet(np.full(len(BITS), rng.choice([0.05, 0.3, 1.0])), size=B)
    v = random_input(problem, rng, asarray, rng.choice([0.1, 1.0]))
    for target in ("hamming", gfy.AffineLoss(-np.eye(K) / 2, 0.1)):
        bound = gfy.calibration_bound(problem, target, K)
        risk, surrogate = (
            tonumpy(x) for x in gfy.excess_risks(problem, target, v, asarray(q), asarray(BITS))
        )
        assert risk.min() >= -1e-12
        assert surrogate.min() >= -1e-9
        assert np.all(risk**2 <= bound.tight_factor * surrogate + 1e-9)
        assert bound.tight_factor <= bound.factor <= 8 * bound.sigma**2 * bound.M_joint


def test_half_the_diameter_makes_it_an_equality_for_one_label(asarray: Any, tonumpy: Any) -> None:
    """One label at p = 1/2, rounded the wrong way: the paper's factor is four times what is needed, ours is
    attained.
    """
    problem = PROBLEMS["bilinear"]
    bound = gfy.calibration_bound(problem, "hamming", 1)
    assert math.isclose(bound.factor, 16.0)
    assert math.isclose(bound.tight_factor, 4.0)
    mean = np.array([[0.7]])
    q = np.concatenate([1 - mean, mean], axis=-1)
    risk, surrogate = gfy.excess_risks(
        problem, "hamming", asarray(np.zeros((1, 1))), asarray(q), asarray([[0.0], [1.0]])
    )
    assert np.isclose(tonumpy(risk)[0], 0.4)
    assert np.isclose(tonumpy(risk)[0] ** 2, bound.tight_factor * tonumpy(surrogate)[0])
    assert np.isclose(bound.target_excess(tonumpy(surrogate)[0]), 0.8)
    assert np.isclose(bound.surrogate_needed(0.8), tonumpy(surrogate)[0])


@pytest.mark.parametrize("name", ["bilinear", "pairwise"])
def test_the_excess_surrogate_risk_is_what_minimising_over_inputs_leaves(
    name: str, asarray: Any, tonumpy: Any, rng: Any
) -> None:
    """The closed form of the smallest risk, against the risk at the Bayes input and at 500 others near it."""
    problem = PROBLEMS[name]
    q = rng.dirichlet(np.full(len(BITS), 0.3))
    loss = gfy.FenchelYoungLoss(problem)
    mean = asarray((q @ BITS)[None])

    def risk(v: Any, n: int) -> np.ndarray:
        """E L(v, Y) for each of n inputs: every output with every input, in one batch."""
        many = gfy.Pairwise.Input(
            *(asarray(np.tile(tonumpy(leaf), (len(BITS), *[1] * (leaf.ndim - 1)))) for leaf in v)
        )
        many = many if name == "pairwise" else many[0]
        losses = tonumpy(loss(many, asarray(np.repeat(BITS, n, axis=0))))
        return q @ losses.reshape(len(BITS), n)

    bayes = touching_input(problem, mean)
    u = tonumpy(bayes[0])
    A = np.zeros((1, K, 2))
    best = risk(gfy.Pairwise.Input(asarray(u), asarray(A)), 1)[0]
    smallest = (
        q @ tonumpy(problem.regularizer.value(asarray(BITS))) - tonumpy(problem.regularizer.value(mean))[0]
    )
    assert np.isclose(best, smallest, atol=1e-10)
    around, bent = u + rng.normal(scale=0.3, size=(500, K)), rng.normal(scale=0.3, size=(500, K, 2))
    assert risk(gfy.Pairwise.Input(asarray(around), asarray(bent)), 500).min() >= best - 1e-9


@pytest.mark.parametrize("name", ["bilinear", "pairwise"])
def test_minimising_the_surrogate_risk_gives_the_bayes_predictor(
    name: str, asarray: Any, tonumpy: Any, rng: Any
) -> None:
    """Fisher consistency where everything can be listed: gradient descent on the surrogate, decoded, is
    optimal.
    """
    problem = PROBLEMS[name]
    cases = 5
    q = rng.dirichlet(np.full(len(BITS), 0.3), size=cases)
    v = np.zeros((cases, K))
    A = asarray(0.4 * rng.normal(size=(cases, K, 1)))
    for _ in range(120):  # grad_u = p*(v) - E Y, and the risk is 1/gamma-smooth in u
        given_v = gfy.Pairwise.Input(asarray(v), A) if name == "pairwise" else asarray(v)
        p = tonumpy(gfy.argmax(problem, given_v))
        v = v - problem.regularizer.strong_convexity(BOX) * (p - q @ BITS)
    decoded = tonumpy(gfy.decode(problem, asarray(p), "hamming"))
    hamming = np.abs(BITS[:, None] - BITS[None]).mean(-1)
    bayes = BITS[(q @ hamming).argmin(-1)]
    assert np.allclose(p, q @ BITS, atol=1e-6)
    assert np.array_equal(decoded, bayes)


def test_zero_one_on_classes_is_calibrated_too(asarray: Any, tonumpy: Any, rng: Any) -> None:
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
    bound = gfy.calibration_bound(problem, "zero_one", K)
    assert math.isclose(bound.sigma, 1.0)
    assert math.isclose(bound.half_diameter, math.sqrt(2) / 2)
    q, v = rng.dirichlet(np.full(K, 0.4), size=B), rng.normal(size=(B, K))
    risk, surrogate = (
        tonumpy(x) for x in gfy.excess_risks(problem, "zero_one", asarray(v), asarray(q), asarray(np.eye(K)))
    )
    assert np.all(risk**2 <= bound.tight_factor * surrogate + 1e-12)
    assert (risk > 0).any()


def test_a_mixing_matrix_enters_the_constants() -> None:
    U = np.diag([2.0, 0.5, 1.0])
    plain = gfy.calibration_bound(PROBLEMS["bilinear"], "hamming", K)
    mixed = gfy.calibration_bound(gfy.InnerProblem(gfy.Bilinear(U), gfy.BinaryGini(), BOX), "hamming", K)
    assert math.isclose(mixed.factor, plain.factor * (2.0 / 0.5) ** 2)


@pytest.mark.parametrize(
    ("problem", "target", "said"),
    [
        (gfy.InnerProblem(gfy.Bilinear(), gfy.Zero(), BOX), "hamming", "not strongly convex"),
        (gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), BOX), "hamming", "not concave"),
        (gfy.InnerProblem(gfy.Maxout(), gfy.BinaryGini(), BOX), "hamming", "no linear term"),
        (gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Reals()), "hamming", "unbounded"),
        (
            gfy.InnerProblem(gfy.Bilinear(np.ones((2, 3))), gfy.BinaryGini(), BOX),
            "hamming",
            "full column rank",
        ),
        (PROBLEMS["bilinear"], "zero_one", "classes"),
    ],
)
def test_where_the_theorem_does_not_apply_it_says_why(
    problem: gfy.InnerProblem, target: str, said: str
) -> None:
    with pytest.raises(gfy.UnsupportedError, match=said):
        gfy.calibration_bound(problem, target, K)
