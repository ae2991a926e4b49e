"""Every regularizer on every set it suits: argmax maps, conjugates, Jacobians, constants, boundaries, large scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zoo import K, pair_id, pairs, regularizers

import gfy
from gfy.backend import get_backend

PAIRS = pairs()
SEEDS = st.integers(0, 2**31)


@pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=pair_id)
def test_argmax_is_feasible_optimal_and_attains_the_conjugate(
    regularizer: gfy.Regularizer, domain: gfy.ConvexSet
) -> None:
    @given(SEEDS)
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=(3, K)) * rng.choice([0.1, 1.0, 10.0])
        p = regularizer.argmax(theta, domain)
        assert domain.violation(p).max() < 1e-9
        value = (theta * p).sum(-1) - regularizer.value(p)
        np.testing.assert_allclose(regularizer.conjugate(theta, domain), value, rtol=1e-9, atol=1e-9)
        q = domain.project(rng.normal(size=(15, 3, K)))
        assert ((theta * q).sum(-1) - regularizer.value(q) - value).max() < 1e-8 * (1 + np.abs(value).max())

    check()


@pytest.mark.thin(3)
@pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=pair_id)
def test_backends_agree_with_numpy(
    regularizer: gfy.Regularizer,
    domain: gfy.ConvexSet,
    backend: str,
    asarray: Callable[..., Any],
    tonumpy: Callable[..., Any],
    rng: np.random.Generator,
) -> None:
    theta = rng.normal(size=(3, K)) * 1.5
    staged = get_backend(backend).jit(
        lambda t: (regularizer.argmax(t, domain), regularizer.conjugate(t, domain))
    )
    p, conjugate = staged(asarray(theta))
    np.testing.assert_allclose(tonumpy(p), regularizer.argmax(theta, domain), atol=1e-12)
    np.testing.assert_allclose(
        tonumpy(conjugate), regularizer.conjugate(theta, domain), rtol=1e-12, atol=1e-12
    )


@pytest.mark.thin(12)
@pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=pair_id)
def test_conjugate_gradient_is_the_argmax_and_jacobian_product_its_derivative(
    regularizer: gfy.Regularizer,
    domain: gfy.ConvexSet,
    backend: str,
    asarray: Callable[..., Any],
    tonumpy: Callable[..., Any],
    rng: np.random.Generator,
) -> None:
    ops = get_backend(backend)
    theta, x = rng.normal(size=(3, K)), rng.normal(size=(3, K))
    out, pullback = ops.vjp(lambda t: regularizer.conjugate(t, domain), asarray(theta))
    gradient = tonumpy(pullback(asarray(np.ones(3)))[0])
    np.testing.assert_allclose(gradient, regularizer.argmax(theta, domain), atol=1e-9)
    step = 1e-6
    ahead, behind = (regularizer.argmax(theta + s * step * x, domain) for s in (1, -1))
    by_difference = (ahead - behind) / (2 * step)
    by_product = tonumpy(regularizer.jacobian_product(asarray(theta), domain, asarray(x)))
    np.testing.assert_allclose(by_product, by_difference, atol=2e-6)
    _, pullback = ops.vjp(lambda t: regularizer.argmax(t, domain), asarray(theta))
    np.testing.assert_allclose(tonumpy(pullback(asarray(x))[0]), by_product, atol=1e-8)  # J is symmetric


@pytest.mark.parametrize("regularizer", [r for r in regularizers() if r.name != "Zero"], ids=pair_id)
def test_strong_convexity_and_gradient(regularizer: gfy.Regularizer) -> None:
    domain = gfy.Box(0.0, 1.0)

    @given(SEEDS)
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        p, q = rng.uniform(0.01, 0.99, size=(2, K))
        gap = regularizer.value(q) - regularizer.value(p) - (regularizer.grad(p) * (q - p)).sum()
        assert gap >= 0.5 * regularizer.strong_convexity(domain) * ((p - q) ** 2).sum() - 1e-10
        step = 1e-6 * rng.normal(size=K)
        slope = (regularizer.value(p + step) - regularizer.value(p - step)) / 2
        assert slope == pytest.approx((regularizer.grad(p) * step).sum(), rel=1e-4, abs=1e-10)

    check()


def test_constants_of_the_paper() -> None:
    box, simplex = gfy.Box(0.0, 1.0), gfy.Simplex()
    assert gfy.SquaredNorm(0.7).strong_convexity(gfy.Reals()) == 0.7
    assert gfy.Shannon(0.7).strong_convexity(simplex) == 0.7
    assert gfy.BinaryGini(1.0).strong_convexity(box) == 2.0
    assert gfy.BinaryShannon(1.0).strong_convexity(box) == 4.0
    assert gfy.Zero().strong_convexity(box) == 0.0
    assert gfy.Tsallis(3.0).strong_convexity(box) == 0.0


def test_gini_is_convex_and_gives_the_sparse_sigmoid() -> None:
    """The paper's printed sign would make it concave."""
    theta = np.array([-3.0, -0.4, 0.0, 0.6, 2.0])
    np.testing.assert_allclose(
        gfy.BinaryGini().argmax(theta, gfy.Box(0.0, 1.0)), np.clip((theta + 1) / 2, 0, 1)
    )
    p = np.array([0.2, 0.9])
    assert gfy.Gini().value(p) + gfy.Gini().value(1 - p) == pytest.approx(gfy.BinaryGini().value(p))
    assert gfy.Gini().value(p) == pytest.approx(0.5 * (p * (p - 1)).sum())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "regularizer", [r for r in regularizers(4) if r.divergence_from is None], ids=pair_id
)
def test_boundary_is_exact(
    regularizer: gfy.Regularizer,
    dtype: str,
    backend: str,
    asarray: Callable[..., Any],
    tonumpy: Callable[..., Any],
) -> None:
    vertex = asarray(np.eye(4)[1:2], dtype)
    value = tonumpy(regularizer.value(vertex))
    assert value.dtype == dtype
    expected = {"SquaredNorm": 0.35}.get(regularizer.name, 0.0)
    assert value == pytest.approx(expected, abs=1e-6)
    out, pullback = get_backend(backend).vjp(regularizer.value, vertex)
    assert np.isfinite(
        tonumpy(pullback(asarray(np.ones(1), dtype))[0])
    ).all()  # autodiff gives no NaN at a vertex
    slope = tonumpy(regularizer.grad(vertex))
    assert not np.isnan(slope).any()
    if regularizer.name == "Shannon":
        assert (slope[0, [0, 2, 3]] == -math.inf).all()


@pytest.mark.thin(3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    ("regularizer", "domain"),
    [(r, d) for r in regularizers(5) for d in (gfy.Box(0.0, 1.0), gfy.Simplex(), gfy.CappedSimplex(2))],
    ids=pair_id,
)
def test_large_scores_overflow_nowhere(
    regularizer: gfy.Regularizer,
    domain: gfy.ConvexSet,
    dtype: str,
    backend: str,
    asarray: Callable[..., Any],
    tonumpy: Callable[..., Any],
) -> None:
    theta = np.array([[1e4, -1e4, 3.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0], [-1e4, -1e4, -1e4, -1e4, -9e3]])
    staged = get_backend(backend).jit(
        lambda t: (regularizer.argmax(t, domain), regularizer.conjugate(t, domain))
    )
    p, conjugate = (tonumpy(x).astype(np.float64) for x in staged(asarray(theta, dtype)))
    assert np.isfinite(p).all()
    assert np.isfinite(conjugate).all()
    tol = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 0.1}[dtype]
    assert domain.violation(p).max() <= tol


def test_pairs_that_make_no_sense_get_a_sentence() -> None:
    for regularizer, domain in [
        (gfy.Shannon(), gfy.Reals()),
        (gfy.BinaryShannon(), gfy.Box(0.0, 2.0)),
        (gfy.Tsallis(1.5), gfy.Ball()),
    ]:
        with pytest.raises(gfy.UnsupportedError, match="is defined for"):
            gfy.InnerProblem(gfy.Bilinear(), regularizer, domain)
    with pytest.raises(gfy.UnsupportedError, match="only quadratic regularizers"):
        gfy.Shannon().argmax(np.zeros(2), gfy.ConvexHull(np.eye(2)))
    with pytest.raises(gfy.GfyValueError, match="above 1"):
        gfy.Tsallis(1.0)
    with pytest.raises(gfy.GfyValueError, match="positive number"):
        gfy.Shannon(-1.0)
