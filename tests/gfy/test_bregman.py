"""The five properties of generalized Bregman divergences, and the divergence between inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gfy
from gfy.theory.biconjugate import touching_input

SEEDS = st.integers(0, 2**31)
B, K = 4, 3
PAIRWISE = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
SIMPLEX = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(0.6), gfy.Simplex())


def draw(rng: np.random.Generator, problem: gfy.InnerProblem) -> np.ndarray:
    if isinstance(problem.domain, gfy.Simplex):
        return rng.dirichlet(np.ones(K), size=B)
    return rng.uniform(0.05, 0.95, size=(B, K))


def case(seed: int, asarray: Any, pairwise: bool) -> tuple[gfy.InnerProblem, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    problem = PAIRWISE if pairwise else SIMPLEX
    start = gfy.Pairwise.Input(asarray(np.zeros(K)), asarray(rng.normal(size=(K, 2)))) if pairwise else None
    return problem, asarray(draw(rng, problem)), asarray(draw(rng, problem)), start


@pytest.mark.parametrize("pairwise", [False, True])
@given(seed=SEEDS)
@settings(max_examples=5)
def test_it_is_the_loss_at_the_touching_input(pairwise: bool, seed: int, asarray: Any, tonumpy: Any) -> None:
    problem, p, q, start = case(seed, asarray, pairwise)
    divergence = tonumpy(gfy.bregman(problem, p, q, start=start))
    v = touching_input(problem, q, start)
    assert np.allclose(divergence, tonumpy(gfy.FenchelYoungLoss(problem)(v, p)), atol=1e-7)
    assert np.allclose(divergence, tonumpy(gfy.bregman(problem, p, q, v=v)), atol=1e-10)
    assert divergence.min() >= -1e-12


@pytest.mark.parametrize("pairwise", [False, True])
@given(seed=SEEDS)
def test_it_tells_points_apart_and_is_convex_in_the_first(
    pairwise: bool, seed: int, asarray: Any, tonumpy: Any
) -> None:
    problem, p, q, start = case(seed, asarray, pairwise)
    apart = tonumpy(gfy.bregman(problem, p, q, start=start))
    gamma = problem.regularizer.strong_convexity(problem.domain)
    assert np.allclose(tonumpy(gfy.bregman(problem, q, q, start=start)), 0.0, atol=1e-14)
    assert np.all(apart >= gamma / 2 * ((tonumpy(p) - tonumpy(q)) ** 2).sum(-1) - 1e-12)
    other = asarray(np.roll(tonumpy(p), 1, axis=0))
    middle = tonumpy(gfy.bregman(problem, 0.3 * p + 0.7 * other, q, start=start))
    chord = 0.3 * apart + 0.7 * tonumpy(gfy.bregman(problem, other, q, start=start))
    assert np.all(middle <= chord + 1e-12)


def test_the_bilinear_one_is_kullback_leibler_or_squared_distance(
    asarray: Any, tonumpy: Any, rng: Any
) -> None:
    p, q = rng.dirichlet(np.ones(K), size=(2, B))
    found = tonumpy(gfy.bregman(SIMPLEX, asarray(p), asarray(q)))
    assert np.allclose(found, 0.6 * (p * np.log(p / q)).sum(-1))
    flat = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(1.7), gfy.Reals())
    assert np.allclose(tonumpy(gfy.bregman(flat, asarray(p), asarray(q))), 0.85 * ((p - q) ** 2).sum(-1))


def test_on_the_boundary_it_is_infinite_exactly_where_mass_is_missing(asarray: Any, tonumpy: Any) -> None:
    q = asarray([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    p = asarray([[0.2, 0.8, 0.0], [0.2, 0.7, 0.1]])
    found = tonumpy(gfy.bregman(SIMPLEX, p, q))
    assert np.isclose(found[0], 0.6 * (0.2 * np.log(0.4) + 0.8 * np.log(1.6)))
    assert found[1] == np.inf


def test_a_searched_input_gives_the_metric_divergence(asarray: Any, tonumpy: Any, rng: Any) -> None:
    problem = gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(0.4), gfy.Box(0.0, 1.0))
    p, q = rng.uniform(size=(2, B, 2))
    found = tonumpy(gfy.bregman(problem, asarray(p), asarray(q)))
    expected = 0.2 * (p**2 - q**2).sum(-1) + np.linalg.norm(p - q, axis=-1)
    assert np.allclose(found, expected)
    assert found.min() >= 0


@given(seed=SEEDS)
@settings(max_examples=5)
def test_between_inputs_it_is_the_loss_at_the_other_argmax(seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    v, w = (
        gfy.Pairwise.Input(asarray(rng.normal(size=(B, K))), asarray(rng.normal(size=(B, K, 2))))
        for _ in range(2)
    )
    found = tonumpy(gfy.bregman_dual(PAIRWISE, v, w))
    loss = gfy.FenchelYoungLoss(PAIRWISE)
    assert np.allclose(found, tonumpy(loss(v, loss.predict(w))), atol=1e-9)
    assert found.min() >= -1e-10
    assert np.allclose(tonumpy(gfy.bregman_dual(PAIRWISE, v, v)), 0.0, atol=1e-10)


def test_between_inputs_the_definition_is_kept(asarray: Any, tonumpy: Any, rng: Any) -> None:
    v, w = (asarray(rng.normal(size=(B, K))) for _ in range(2))
    found = tonumpy(gfy.bregman_dual(SIMPLEX, v, w))
    p = gfy.argmax(SIMPLEX, w)
    energy = SIMPLEX.energy
    vv, ww = energy.coerce(v), energy.coerce(w)
    expected = (
        gfy.conjugate(SIMPLEX, v) - energy.value(vv, p) - gfy.conjugate(SIMPLEX, w) + energy.value(ww, p)
    )
    assert np.allclose(found, tonumpy(expected))
    a, b = tonumpy(v) / 0.6, tonumpy(w) / 0.6  # and that is KL between softmaxes, the arguments swapped
    a, b = a - np.log(np.exp(a).sum(-1, keepdims=True)), b - np.log(np.exp(b).sum(-1, keepdims=True))
    assert np.allclose(found, 0.6 * (np.exp(b) * (b - a)).sum(-1))
