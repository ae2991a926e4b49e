"""Every energy: closed-form derivatives against autodiff, batches against single examples, stated convexity."""

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

pytestmark = pytest.mark.thin(4)  # compiling for JAX takes most of the time

INDICES = range(len(energy_names()))


def build(index: int, seed: int = 1, make: Callable[..., Any] = np.asarray) -> tuple[gfy.Energy, Any, int]:
    energy, leaves, k = energy_inputs(np.random.default_rng(seed))[index]
    return energy, type(energy).Input(**{name: make(leaf) for name, leaf in leaves.items()}), k


@pytest.mark.parametrize("index", INDICES, ids=energy_names())
def test_closed_form_gradient_and_hessian_product_match_autodiff(
    index: int,
    backend: str,
    asarray: Callable[..., Any],
    tonumpy: Callable[..., Any],
    rng: np.random.Generator,
) -> None:
    energy, v, k = build(index, make=asarray)
    ops = get_backend(backend)
    p, x = asarray(rng.uniform(0.1, 0.9, size=(4, k))), asarray(rng.normal(size=(4, k)))
    value, pullback = ops.vjp(lambda q: energy.value(v, q), p)
    assert tuple(value.shape) == (4,)
    np.testing.assert_allclose(
        tonumpy(energy.grad_p(v, p)), tonumpy(pullback(asarray(np.ones(4)))[0]), atol=1e-12
    )
    if energy.smooth:
        _, pull_grad = ops.vjp(lambda q: energy.grad_p(v, q), p)
        product = tonumpy(energy.hessian_product(v, p, x))
        np.testing.assert_allclose(product, tonumpy(pull_grad(x)[0]), atol=1e-11)  # the Hessian is symmetric


@pytest.mark.parametrize("index", INDICES, ids=energy_names())
def test_a_batch_is_its_examples(index: int, rng: np.random.Generator) -> None:
    energy, v, k = build(index)
    p = rng.uniform(0.1, 0.9, size=(4, k))
    together = energy.value(v, p)
    assert energy.dim(v) == k
    assert energy.batch_shape(v) == (4,)
    for row in range(4):
        leaves = [
            leaf[row] if leaf.ndim > energy.ranks.get(field, 1) else leaf
            for field, leaf in zip(type(v)._fields, v, strict=True)
        ]
        assert energy.value(type(v)(*leaves), p[row]) == pytest.approx(together[row], rel=1e-12)


@pytest.mark.parametrize("index", INDICES, ids=energy_names())
def test_stated_concavity_and_smoothness_hold(index: int) -> None:
    @given(st.integers(0, 2**31))
    def check(seed: int) -> None:
        energy, v, k = build(index, seed)
        rng = np.random.default_rng(seed + 1)
        p, q = rng.uniform(size=(2, 4, k))
        linearised = energy.value(v, p) + (energy.grad_p(v, p) * (q - p)).sum(-1)
        bend = linearised - energy.value(v, q)
        if energy.concave:
            assert bend.min() >= -1e-9 * (1 + np.abs(linearised).max())
        smoothness = energy.smoothness(v)
        if smoothness is not None:
            assert (np.abs(bend) <= 0.5 * smoothness * ((q - p) ** 2).sum(-1) + 1e-9).all()

    check()


def test_spen_is_not_concave() -> None:
    """The flag is not decoration: a negative output weight bends the energy upwards."""
    energy, v, k = build(energy_names().index("9-Spen"))
    v = v._replace(W2=-np.abs(v.W2))
    p, q = np.zeros((4, k)), np.ones((4, k))
    assert (energy.value(v, (p + q) / 2) < (energy.value(v, p) + energy.value(v, q)) / 2).any()


@pytest.mark.parametrize(
    "index",
    [
        i
        for i, n in enumerate(energy_names())
        if n.split("-")[1] in ("Bilinear", "LinearQuadratic", "Rectifier", "Maxout", "LogSumExp")
    ],
    ids=lambda i: energy_names()[i],
)
def test_stated_convexity_in_v(index: int) -> None:
    """Table 1: linear or convex in v for non-negative p."""

    @given(st.integers(0, 2**31))
    def check(seed: int) -> None:
        energy, v, k = build(index, seed)
        _, w, _ = build(index, seed + 7)
        p = np.random.default_rng(seed).uniform(size=(4, k))
        middle = type(v)(*((a + b) / 2 for a, b in zip(v, w, strict=True)))
        chord = (energy.value(v, p) + energy.value(w, p)) / 2
        assert energy.in_v in ("linear", "convex")
        assert (energy.value(middle, p) <= chord + 1e-10).all()
        if energy.in_v == "linear":
            np.testing.assert_allclose(energy.value(middle, p), chord, atol=1e-10)

    check()


def test_pairwise_is_the_dense_energy_it_never_forms(rng: np.random.Generator) -> None:
    u, A, p = rng.normal(size=(3, 5)), rng.normal(size=(3, 5, 2)), rng.uniform(size=(3, 5))
    dense = gfy.LinearQuadratic.Input(u, -A @ A.transpose(0, 2, 1))
    low = gfy.Pairwise.Input(u, A)
    np.testing.assert_allclose(
        gfy.Pairwise().value(low, p), gfy.LinearQuadratic().value(dense, p), rtol=1e-12
    )
    np.testing.assert_allclose(gfy.Pairwise().curvature(low).dense(), dense.U, rtol=1e-12)
    np.testing.assert_allclose(
        gfy.Pairwise().curvature(low).diagonal(), np.diagonal(dense.U, 0, 1, 2), rtol=1e-12
    )
    for curvature in (gfy.Pairwise().curvature(low), gfy.LinearQuadratic().curvature(dense)):
        assert (curvature.bound() >= np.linalg.norm(dense.U, 2, axis=(1, 2)) - 1e-12).all()


def test_bad_inputs_get_a_sentence() -> None:
    def check(energy: gfy.Energy, *leaves: np.ndarray) -> None:
        energy.check(energy.Input(*leaves))

    with pytest.raises(gfy.GfyValueError, match="u's last axis = 4, A's rows = 5"):
        check(gfy.Pairwise(), np.zeros((2, 4)), np.zeros((2, 5, 1)))
    with pytest.raises(gfy.GfyValueError, match="batch axes that do not agree"):
        check(gfy.Pairwise(), np.zeros((2, 4)), np.zeros((3, 4, 1)))
    with pytest.raises(gfy.GfyValueError, match="must have 2 or more axes"):
        check(gfy.LinearQuadratic(), np.zeros(4), np.zeros(4))
    with pytest.raises(gfy.GfyValueError, match="5 rows but v has 4"):
        check(gfy.Bilinear(np.zeros((5, 3))), np.zeros((2, 4)))
    with pytest.raises(gfy.GfyTypeError, match=r"Pairwise\.Input\(u, A\)"):
        gfy.Pairwise().coerce(np.zeros(3))
    with pytest.raises(gfy.GfyTypeError, match="must be arrays"):
        gfy.Pairwise().check(gfy.Pairwise.Input([1.0], np.zeros((1, 1))))
