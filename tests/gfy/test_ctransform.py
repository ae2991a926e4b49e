"""C-transforms: the sign flip of generalized conjugates, and what optimal transport knows them as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gfy

pytestmark = pytest.mark.thin(3)  # compiling for JAX takes most of the time

SEEDS = st.integers(0, 2**31)
BILINEAR, METRICS = gfy.Bilinear(), {name: gfy.Metric(name) for name in ("euclidean", "manhattan")}


@given(seed=SEEDS)
def test_a_matrix_is_minimised_row_by_row(seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    cost, potential = rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 4))
    found = tonumpy(gfy.c_transform(asarray(cost), asarray(potential)))
    assert np.array_equal(found, (cost - potential[:, None]).min(-1))


@given(seed=SEEDS)
@settings(max_examples=5)
def test_the_transform_of_minus_omega_is_minus_the_conjugate(seed: int, asarray: Any, tonumpy: Any) -> None:
    """Omega = -Lambda <=> Omega^Phi = -Lambda_C with C = -Phi: over points by brute force, over a set by a
    solver.
    """
    rng = np.random.default_rng(seed)
    energy, omega = BILINEAR, gfy.Gini(0.8)
    v = asarray(rng.normal(size=(3, 2)))
    points = np.stack([np.linspace(0, 1, 2001), 1 - np.linspace(0, 1, 2001)], axis=-1)
    p = asarray(points)
    over_set = tonumpy(gfy.c_transform(energy, omega, v, domain=gfy.Simplex()))
    over_points = tonumpy(
        gfy.c_transform(lambda x, q: -(x * q).sum(-1), lambda q: -omega.value(q), v, points=p)
    )
    conjugate = tonumpy(gfy.conjugate(gfy.InnerProblem(energy, omega, gfy.Simplex()), v))
    assert np.allclose(over_set, -conjugate, atol=1e-12)
    assert np.allclose(over_points, -conjugate, atol=1e-6)
    # conversely, from equal transforms on all v follow equal potentials, by transforming back (Omega is
    # convex)
    grid = asarray(np.stack([np.linspace(-6, 6, 601), np.zeros(601)], axis=-1))
    transformed = gfy.c_transform(energy, omega, grid, domain=gfy.Simplex())
    back = tonumpy(gfy.c_transform(lambda q, x: -(x * q).sum(-1), transformed, p[::200], points=grid))
    assert np.allclose(-back, tonumpy(omega.value(p[::200])), atol=1e-3)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@given(seed=SEEDS)
@settings(max_examples=4)
def test_a_metric_leaves_a_lipschitz_potential_but_for_its_sign(
    metric: str, seed: int, asarray: Any, tonumpy: Any
) -> None:
    rng = np.random.default_rng(seed)
    points = asarray(rng.normal(size=(40, 2)))
    steep = asarray(rng.normal(size=(40,)))
    # a transform of anything is 1-Lipschitz for the metric, and a further transform only flips its sign
    once = gfy.c_transform(metric, steep, points, points=points)
    twice = gfy.c_transform(metric, once, points, points=points)
    assert np.allclose(tonumpy(twice), -tonumpy(once), atol=1e-12)
    energy = METRICS[metric]
    gentle = gfy.SquaredNorm(0.3)
    v = asarray(rng.uniform(size=(3, 2)))
    found = gfy.c_transform(energy, gentle, v, domain=gfy.Box(0.0, 1.0))
    assert np.allclose(tonumpy(found), tonumpy(gentle.value(v)), atol=1e-8)


def test_concave_conjugates_and_infimal_convolutions(asarray: Any, tonumpy: Any) -> None:
    points = asarray(np.linspace(-4, 4, 4001)[:, None])
    v = asarray(np.array([[-1.3], [0.2], [2.5]]))
    concave = tonumpy(gfy.concave_conjugate(lambda p: -0.5 * (p * p).sum(-1), v, points))
    assert np.allclose(concave, -0.5 * tonumpy(v)[:, 0] ** 2, atol=1e-5)
    # the Moreau envelope of |.| is Huber's function
    huber = tonumpy(
        gfy.infimal_convolution(lambda d: 0.5 * (d * d).sum(-1), lambda p: abs(p).sum(-1), v, points)
    )
    x = np.abs(tonumpy(v)[:, 0])
    assert np.allclose(huber, np.where(x <= 1, 0.5 * x**2, x - 0.5), atol=1e-5)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_the_soft_transform_approaches_the_hard_one(seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    cost, potential = asarray(rng.normal(size=(4, 6))), asarray(rng.normal(size=6))
    hard = tonumpy(gfy.c_transform(cost, potential))
    for gamma in (1.0, 0.1, 0.01):
        soft = tonumpy(gfy.c_transform(cost, potential, gamma=gamma))
        assert np.all(soft <= hard + 1e-12)
        assert np.all(soft >= hard - gamma * np.log(6) - 1e-12)


def test_soft_transforms_are_sinkhorn_half_steps(asarray: Any, tonumpy: Any, rng: Any) -> None:
    ot = pytest.importorskip("ot", reason="POT is not installed (pip install pot)")
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(7, 2))
    a, b = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(7))
    cost = 0.5 * ((x[:, None] - y[None]) ** 2).sum(-1)
    gamma = 1.0
    plan, log = ot.bregman.sinkhorn_log(
        a, b, cost, gamma, numItermax=2000, stopThr=1e-14, log=True, warn=False
    )
    f, g = (gamma * (log[name] - np.log(weights)) for name, weights in (("log_u", a), ("log_v", b)))
    # at Sinkhorn's fixed point each potential is the soft transform of the other
    f_again = tonumpy(gfy.c_transform(asarray(cost), asarray(g), gamma=gamma, weights=asarray(b)))
    g_again = tonumpy(gfy.c_transform(asarray(cost.T), asarray(f), gamma=gamma, weights=asarray(a)))
    assert np.allclose(f_again, f, atol=1e-10)
    assert np.allclose(g_again, g, atol=1e-10)
    # and alternating them from zero gives its plan
    h = asarray(np.zeros(7))
    for _ in range(25):
        u = gfy.c_transform(asarray(cost), h, gamma=gamma, weights=asarray(b))
        h = gfy.c_transform(asarray(cost.T), u, gamma=gamma, weights=asarray(a))
    ours = a[:, None] * b * np.exp((tonumpy(u)[:, None] + tonumpy(h) - cost) / gamma)
    assert np.allclose(ours, plan, atol=1e-7)


def test_bad_requests_get_a_sentence(asarray: Any) -> None:
    with pytest.raises(gfy.GfyTypeError, match="points="):
        gfy.c_transform("euclidean", asarray(np.zeros(3)))
    with pytest.raises(gfy.GfyValueError, match="cost must be one of bilinear"):
        gfy.c_transform(
            "taxi", asarray(np.zeros(3)), asarray(np.zeros((1, 2))), points=asarray(np.zeros((3, 2)))
        )
    with pytest.raises(gfy.GfyValueError, match="gamma"):
        gfy.c_transform(asarray(np.zeros((2, 3))), asarray(np.zeros(3)), gamma=-1.0)
    with pytest.raises(gfy.GfyValueError, match="weights soften"):
        gfy.c_transform(asarray(np.zeros((2, 3))), asarray(np.zeros(3)), weights=asarray(np.ones(3)))
    with pytest.raises(gfy.GfyTypeError, match="domain"):
        gfy.c_transform(gfy.Bilinear(), gfy.Gini(), asarray(np.zeros((1, 2))))
