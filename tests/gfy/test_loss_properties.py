"""The paper's Proposition 3: seven properties of generalized Fenchel-Young losses, and Table 1's claims on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zoo import energy_inputs, energy_names

import gfy
from gfy.backend import get_backend

pytestmark = pytest.mark.thin(3)  # compiling for JAX takes most of the time

SEEDS = st.integers(0, 2**31)
BOX = gfy.Box(0.0, 1.0)
TIGHT = gfy.Stop(1e-12, 3_000)
B, K, M = 3, 5, 2
PROBLEMS = [
    gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(0.6), BOX),
    gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryShannon(0.8), BOX),
    gfy.InnerProblem(gfy.Pairwise(), gfy.Shannon(1.1), gfy.Simplex()),
    gfy.InnerProblem(gfy.Pairwise(), gfy.Gini(1.1), gfy.CappedSimplex(2)),
]


def draw(seed: int, make: Callable[..., Any], problem: gfy.InnerProblem) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    v = gfy.Pairwise.Input(make(rng.normal(size=(B, K)) * 2), make(rng.normal(size=(B, K, M))))
    p = problem.domain.project(rng.uniform(0.05, 0.95, size=(B, K)))
    return v, make(p)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_bounds(problem: gfy.InnerProblem, asarray: Callable[..., Any], tonumpy: Callable[..., Any]) -> None:
    """Non-negative; at least gamma/2 |p - p*|^2; at most L_Omega(grad_2 Phi(v, p), p)."""
    loss = gfy.FenchelYoungLoss(problem, stop=TIGHT)

    @given(SEEDS)
    def check(seed: int) -> None:
        v, p = draw(seed, asarray, problem)
        value = tonumpy(loss(v, p))
        best = tonumpy(loss.predict(v))
        assert value.min() >= -1e-9
        lower = 0.5 * problem.strong_concavity * ((tonumpy(p) - best) ** 2).sum(-1)
        assert (lower <= value + 1e-9).all()
        certificate = gfy.certify(problem, v, p)
        assert certificate.concave
        assert (value <= certificate.gap + 1e-9).all()

    check()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_zero_exactly_at_the_prediction(
    problem: gfy.InnerProblem, asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    loss = gfy.FenchelYoungLoss(problem, stop=TIGHT)
    v, p = draw(3, asarray, problem)
    best = loss.predict(v)
    np.testing.assert_allclose(tonumpy(loss(v, best)), 0.0, atol=1e-10)
    assert (tonumpy(loss(v, p)) > 1e-3).all()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_lipschitz_upper_bound(
    problem: gfy.InnerProblem, tonumpy: Callable[..., Any], asarray: Callable[..., Any]
) -> None:
    """L(v, p) <= alpha |p - p*| with alpha the largest slope of Phi - Omega met between the two."""
    loss = gfy.FenchelYoungLoss(problem, stop=TIGHT)

    @given(SEEDS)
    def check(seed: int) -> None:
        v, p = draw(seed, asarray, problem)
        best, point = tonumpy(loss.predict(v)), tonumpy(p)
        v64 = gfy.Pairwise.Input(*(tonumpy(x) for x in v))
        path = [best + s * (point - best) for s in np.linspace(0, 1, 200) if s > 0]
        slopes = np.stack([np.linalg.norm(problem.grad(v64, q), axis=-1) for q in path])
        alpha = slopes.max(0)
        assert (tonumpy(loss(v, p)) <= alpha * np.linalg.norm(point - best, axis=-1) + 1e-9).all()

    check()


def test_gradient_is_a_difference_of_energy_gradients(
    backend: str, asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    problem = PROBLEMS[0]
    loss = gfy.FenchelYoungLoss(problem, stop=TIGHT)
    v, y = draw(6, asarray, problem)
    ops, ones = get_backend(backend), asarray(np.ones(B))
    found = ops.vjp(lambda w: loss(w, y), v)[1](ones)[0]
    best = loss.predict(v)
    expected = ops.vjp(lambda w: problem.energy.value(w, best) - problem.energy.value(w, y), v)[1](ones)[0]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(tonumpy(a), tonumpy(b), atol=1e-9)


def test_smaller_set_smaller_loss(asarray: Callable[..., Any], tonumpy: Callable[..., Any]) -> None:
    """The simplex is inside the unit box."""
    large = gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX), stop=TIGHT)
    small = gfy.FenchelYoungLoss(
        gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Simplex()), stop=TIGHT
    )

    @given(SEEDS)
    def check(seed: int) -> None:
        v, y = draw(seed, asarray, small.problem)
        assert (tonumpy(small(v, y)) <= tonumpy(large(v, y)) + 1e-9).all()

    check()


@pytest.mark.parametrize("name", ["2-LinearQuadratic", "0-Bilinear"])
def test_loss_is_convex_where_the_energy_is_linear_in_v(
    name: str, asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    index = energy_names().index(name)
    energy, _, k = energy_inputs(np.random.default_rng(0))[index]
    loss = gfy.FenchelYoungLoss(gfy.InnerProblem(energy, gfy.BinaryGini(), BOX), stop=TIGHT)

    @given(SEEDS)
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        v, w = (energy_inputs(rng)[index][1] for _ in range(2))
        y = asarray(rng.integers(0, 2, size=(4, k)).astype(float))
        middle = {field: (v[field] + w[field]) / 2 for field in v}
        at = [
            tonumpy(loss(type(energy).Input(**{f: asarray(x) for f, x in leaves.items()}), y))
            for leaves in (v, w, middle)
        ]
        assert (at[2] <= (at[0] + at[1]) / 2 + 1e-9).all()

    check()


@pytest.mark.parametrize("name", ["5-Rectifier", "6-Maxout", "7-LogSumExp"])
def test_difference_of_convex_functions(
    name: str, asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    """Both parts, Omega^Phi and Phi(., y), are convex in v; the loss need not be."""
    index = energy_names().index(name)
    energy, _, k = energy_inputs(np.random.default_rng(0))[index]
    problem = gfy.InnerProblem(energy, gfy.BinaryShannon(), BOX)

    @given(SEEDS)
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        v, w = rng.normal(size=(2, 4, 5)) * 2
        y = asarray(rng.uniform(size=(4, k)))
        for part in (
            lambda x: gfy.conjugate(problem, asarray(x)),
            lambda x: energy.value(energy.Input(asarray(x)), y),
        ):
            at = [tonumpy(part(x)) for x in (v, w, (v + w) / 2)]
            assert (at[2] <= (at[0] + at[1]) / 2 + 1e-10).all()

    check()


def test_perceptron_is_the_loss_of_the_indicator(
    asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    """Omega = 0: max over the cube of a concave quadratic, minus the energy of the target."""
    problem = PROBLEMS[0]
    v, _ = draw(2, asarray, problem)
    y = np.random.default_rng(0).integers(0, 2, size=(B, K)).astype(float)
    value = tonumpy(gfy.PerceptronLoss(problem, stop=gfy.Stop(1e-12, 20_000))(v, asarray(y)))
    v64 = gfy.Pairwise.Input(*(tonumpy(x) for x in v))
    p = np.full((B, K), 0.5)
    for _ in range(20_000):  # plain projected gradient ascent in NumPy
        p = np.clip(p + 0.05 * problem.energy.grad_p(v64, p), 0, 1)
    expected = problem.energy.value(v64, p) - problem.energy.value(v64, y)
    np.testing.assert_allclose(value, expected, atol=1e-7)
    assert (value >= -1e-9).all()
