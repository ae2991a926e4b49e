"""Projections, oracles and membership of every set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from zoo import K, domains

import gfy

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.thin(3)]
ALL = [*domains(), gfy.Birkhoff()]


def dim(domain: gfy.ConvexSet) -> int:
    return 9 if isinstance(domain, gfy.Birkhoff) else K


@pytest.mark.thin(6)
@pytest.mark.parametrize("domain", ALL, ids=lambda d: d.name)
def test_projection_lands_inside_rests_and_is_nearest(
    domain: gfy.ConvexSet, asarray: Callable[..., Any], tonumpy: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.normal(size=(3, dim(domain))) * 2
    p = tonumpy(domain.project(asarray(x)))
    assert tonumpy(domain.violation(asarray(p))).max() < 1e-9
    np.testing.assert_allclose(tonumpy(domain.project(asarray(p))), p, atol=1e-9)
    others = tonumpy(domain.project(asarray(rng.normal(size=(20, 3, dim(domain))))))
    # <x - p, q - p> <= 0 for every q in C characterises the projection
    assert ((x - p) * (others - p)).sum(-1).max() < 1e-8


@pytest.mark.parametrize("domain", [d for d in ALL if d.compact], ids=lambda d: d.name)
def test_oracle_beats_every_point_and_lies_inside(
    domain: gfy.ConvexSet, asarray: Callable[..., Any], tonumpy: Callable[..., Any], rng: np.random.Generator
) -> None:
    scores = rng.normal(size=(3, dim(domain)))
    best = tonumpy(domain.linear_oracle(asarray(scores)))
    assert tonumpy(domain.violation(asarray(best))).max() < 1e-9
    others = tonumpy(domain.project(asarray(rng.normal(size=(30, 3, dim(domain))))))
    assert ((scores * others).sum(-1) - (scores * best).sum(-1)).max() < 1e-9
    np.testing.assert_allclose(tonumpy(domain.support(asarray(scores))), (scores * best).sum(-1), rtol=1e-12)


@pytest.mark.parametrize("domain", ALL, ids=lambda d: d.name)
def test_center_is_a_member(
    domain: gfy.ConvexSet, asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    center = domain.center(asarray(np.zeros((2, dim(domain)))))
    assert tuple(center.shape) == (2, dim(domain))
    assert bool(tonumpy(domain.contains(center, 1e-9)).all())


@pytest.mark.parametrize(
    "domain",
    [gfy.Box(0.0, 1.0), gfy.Box(-1.0, 2.5), gfy.Simplex(), gfy.CappedSimplex(2), gfy.Birkhoff()],
    ids=lambda d: d.name,
)
def test_vertices_span_the_diameter_and_answer_the_oracle(
    domain: gfy.ConvexSet, rng: np.random.Generator
) -> None:
    k = 4
    vertices = domain.vertices(k)
    assert domain.violation(vertices).max() == 0
    apart = np.linalg.norm(vertices[:, None] - vertices[None], axis=-1).max()
    assert apart == pytest.approx(domain.diameter(k))
    scores = rng.normal(size=(5, k))
    np.testing.assert_allclose(domain.support(scores), (scores @ vertices.T).max(-1), rtol=1e-12)


def test_diameters_of_the_others() -> None:
    assert gfy.Ball(1.5).diameter(3) == 3.0
    assert gfy.Reals().diameter(3) == math.inf
    assert gfy.CappedSimplex(2.5).diameter(6) == pytest.approx(math.sqrt(2 * 2 + 2 * 0.25))
    assert gfy.ConvexHull([[0.0, 0.0], [3.0, 4.0]]).diameter(2) == 5.0


@pytest.mark.thin(6)
@pytest.mark.parametrize("domain", ALL, ids=lambda d: d.name)
def test_projection_is_the_same_alone_and_in_a_batch(
    domain: gfy.ConvexSet, asarray: Callable[..., Any], tonumpy: Callable[..., Any], rng: np.random.Generator
) -> None:
    x = rng.normal(size=(2, 2, dim(domain)))
    together = tonumpy(domain.project(asarray(x)))
    np.testing.assert_allclose(together[1, 0], tonumpy(domain.project(asarray(x[1, 0]))), atol=1e-10)


def test_bad_sets_get_a_sentence() -> None:
    with pytest.raises(gfy.GfyValueError, match=r"Box\.low must not exceed"):
        gfy.Box(1.0, 0.0)
    with pytest.raises(gfy.GfyValueError, match="radius must be positive"):
        gfy.Ball(-1.0)
    with pytest.raises(gfy.GfyValueError, match="positive number"):
        gfy.CappedSimplex(0)
    with pytest.raises(gfy.GfyValueError, match="square number, got 7"):
        gfy.Birkhoff().project(np.zeros(7))
    with pytest.raises(gfy.GfyValueError, match="unbounded"):
        gfy.Reals().linear_oracle(np.zeros(2))
    with pytest.raises(gfy.GfyValueError, match=r"\[n, k\]"):
        gfy.ConvexHull(np.zeros(3))
    with pytest.raises(gfy.GfyValueError, match="2\\^30 vertices"):
        gfy.Box(0.0, 1.0).vertices(30)
