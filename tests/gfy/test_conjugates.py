"""The paper's Propositions 1 and 2: six properties of generalized conjugates, three closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gfy
import solvers
from gfy.backend import get_backend

pytestmark = pytest.mark.thin(3)  # compiling for JAX takes most of the time

SEEDS = st.integers(0, 2**31)
BOX = gfy.Box(0.0, 1.0)
PAIRWISE = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(0.6), BOX)
TIGHT = gfy.Stop(1e-12, 2_000)
B, K, M = 3, 5, 2


def pairwise_input(seed: int, make: Callable[..., Any]) -> gfy.Pairwise.Input:
    rng = np.random.default_rng(seed)
    return gfy.Pairwise.Input(make(rng.normal(size=(B, K))), make(rng.normal(size=(B, K, M))))


def gradient_of(backend: str, fn: Callable[[Any], Any], v: Any, ones: Any) -> Any:
    return get_backend(backend).vjp(fn, v)[1](ones)[0]


def test_generalized_fenchel_young_inequality(
    asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    @given(SEEDS)
    def check(seed: int) -> None:
        v = pairwise_input(seed, asarray)
        p = asarray(np.random.default_rng(seed + 1).uniform(size=(B, K)))
        bound = gfy.conjugate(PAIRWISE, v, stop=TIGHT) - PAIRWISE.value(v, p)
        assert tonumpy(bound).min() >= -1e-10

    check()


@pytest.mark.parametrize(
    ("energy", "convex"),
    [(gfy.Bilinear(), True), (gfy.Rectifier(np.random.default_rng(3).uniform(size=(K, K))), True)],
    ids=["Bilinear", "Rectifier"],
)
def test_conjugate_is_convex_where_the_energy_is_convex_in_v(
    energy: gfy.Energy, convex: bool, asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    problem = gfy.InnerProblem(energy, gfy.BinaryShannon(), BOX)

    @given(SEEDS)
    def check(seed: int) -> None:
        v, w = np.random.default_rng(seed).normal(size=(2, B, K)) * 3
        at = [tonumpy(gfy.conjugate(problem, asarray(x))) for x in (v, w, (v + w) / 2)]
        assert (at[2] <= (at[0] + at[1]) / 2 + 1e-10).all() == convex

    check()


def test_conjugate_is_convex_in_the_quadratic_coupling(
    asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    """Linear in (u, U): convex even though the maximum has no closed form."""
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)

    @given(SEEDS)
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        u, root = rng.normal(size=(2, B, K)), rng.normal(size=(2, B, K, K))
        U = -root @ root.transpose(0, 1, 3, 2)
        values = [
            tonumpy(gfy.conjugate(problem, gfy.LinearQuadratic.Input(asarray(a), asarray(b)), stop=TIGHT))
            for a, b in ((u[0], U[0]), (u[1], U[1]), (u.mean(0), U.mean(0)))
        ]
        assert (values[2] <= (values[0] + values[1]) / 2 + 1e-9).all()

    check()


def test_order_reversing(asarray: Callable[..., Any], tonumpy: Callable[..., Any]) -> None:
    """gamma <p, p - 1> decreases with gamma on [0, 1]."""
    other = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(0.9), BOX)

    @given(SEEDS)
    def check(seed: int) -> None:
        v = pairwise_input(seed, asarray)
        smaller, larger = gfy.conjugate(other, v, stop=TIGHT), gfy.conjugate(PAIRWISE, v, stop=TIGHT)
        assert (tonumpy(smaller) >= tonumpy(larger) - 1e-10).all()

    check()


def test_continuity_modulus_is_the_energy_s(asarray: Callable[..., Any], tonumpy: Callable[..., Any]) -> None:
    """|Omega^Phi(v) - Omega^Phi(w)| <= max_p |Phi(v, p) - Phi(w, p)|: linear on the cube's corners for Bilinear."""
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), BOX)

    @given(SEEDS)
    def check(seed: int) -> None:
        v, w = np.random.default_rng(seed).normal(size=(2, B, K))
        change = tonumpy(gfy.conjugate(problem, asarray(v)) - gfy.conjugate(problem, asarray(w)))
        corners = (v - w) @ BOX.vertices(K).T
        assert (np.abs(change) <= np.abs(corners).max(-1) + 1e-12).all()

    check()


def test_envelope_gradient(backend: str, asarray: Callable[..., Any], tonumpy: Callable[..., Any]) -> None:
    """grad Omega^Phi(v) = grad_1 Phi(v, p*(v)), and central differences agree."""
    v = pairwise_input(4, asarray)
    ones = asarray(np.ones(B))
    found = gradient_of(backend, lambda w: gfy.conjugate(PAIRWISE, w, stop=TIGHT), v, ones)
    p = gfy.argmax(PAIRWISE, v, stop=TIGHT)
    direct = gradient_of(backend, lambda w: gfy.Pairwise().value(w, p), v, ones)
    rng = np.random.default_rng(0)
    for a, b in zip(found, direct, strict=True):
        np.testing.assert_allclose(tonumpy(a), tonumpy(b), atol=1e-9)
    du, dA = rng.normal(size=(B, K)), rng.normal(size=(B, K, M))
    step = 1e-5
    at = [
        tonumpy(
            gfy.conjugate(
                PAIRWISE, gfy.Pairwise.Input(v.u + s * asarray(du), v.A + s * asarray(dA)), stop=TIGHT
            )
        )
        for s in (step, -step)
    ]
    slope = (tonumpy(found.u) * du).sum(-1) + (tonumpy(found.A) * dA).sum((-1, -2))
    np.testing.assert_allclose((at[0] - at[1]) / (2 * step), slope, rtol=1e-6, atol=1e-7)


def test_smoothness_constants(backend: str, asarray: Callable[..., Any], tonumpy: Callable[..., Any]) -> None:
    """Phi beta-smooth, Omega gamma-strongly convex: p* is beta/gamma-Lipschitz, Omega^Phi (beta + beta^2/gamma)-smooth.

    In u alone <u, p> + 1/2 <p, U p> is smooth with beta = the norm of [[0, I], [I, U]].
    """
    rng = np.random.default_rng(8)
    A = rng.normal(size=(K, M))
    gamma = PAIRWISE.regularizer.strong_convexity(BOX)
    block = np.block([[np.zeros((K, K)), np.eye(K)], [np.eye(K), -A @ A.T]])
    beta = np.linalg.norm(block, 2)

    @given(SEEDS)
    def check(seed: int) -> None:
        u, w = np.random.default_rng(seed).normal(size=(2, B, K))
        inputs = [gfy.Pairwise.Input(asarray(x), asarray(A)) for x in (u, w)]
        p, q = (tonumpy(gfy.argmax(PAIRWISE, v, stop=TIGHT)) for v in inputs)
        apart = np.linalg.norm(u - w, axis=-1)
        assert (np.linalg.norm(p - q, axis=-1) <= beta / gamma * apart + 1e-9).all()
        assert (
            np.linalg.norm(p - q, axis=-1) <= (beta + beta**2 / gamma) * apart + 1e-9
        ).all()  # grad in u is p*

    check()


def test_bilinear_closed_form(
    asarray: Callable[..., Any], tonumpy: Callable[..., Any], rng: np.random.Generator
) -> None:
    U, v = rng.normal(size=(4, K)), rng.normal(size=(B, 4))
    for regularizer in (gfy.Shannon(0.7), gfy.Gini(), gfy.Tsallis(1.5)):
        problem = gfy.InnerProblem(gfy.Bilinear(U), regularizer, gfy.Simplex())
        expected = regularizer.conjugate(v @ U, gfy.Simplex())
        np.testing.assert_allclose(tonumpy(gfy.conjugate(problem, asarray(v))), expected, rtol=1e-12)
        p = gfy.argmax(problem, asarray(v), solver=solvers.ClosedForm())
        np.testing.assert_allclose(tonumpy(p), regularizer.argmax(v @ U, gfy.Simplex()), atol=1e-12)


def test_linear_quadratic_closed_form(
    asarray: Callable[..., Any], tonumpy: Callable[..., Any], rng: np.random.Generator
) -> None:
    """(gamma I - A)^-1 b and 1/2 <b, (gamma I - A)^-1 b>; positive definiteness of gamma I - A suffices."""
    gamma, b, root = 0.8, rng.normal(size=(B, K)), rng.normal(size=(B, K, K))
    indefinite = 0.3 * np.eye(K) - root @ root.transpose(0, 2, 1)
    for A, concave in ((-root @ root.transpose(0, 2, 1), True), (indefinite, False)):
        problem = gfy.InnerProblem(gfy.LinearQuadratic(concave=concave), gfy.SquaredNorm(gamma), gfy.Reals())
        v = gfy.LinearQuadratic.Input(asarray(b), asarray(A))
        p = np.linalg.solve(gamma * np.eye(K) - A, b[..., None])[..., 0]
        np.testing.assert_allclose(tonumpy(gfy.argmax(problem, v, solver=solvers.ClosedForm())), p, rtol=1e-9)
        np.testing.assert_allclose(tonumpy(gfy.conjugate(problem, v)), 0.5 * (b * p).sum(-1), rtol=1e-9)


@pytest.mark.parametrize("cost", ["euclidean", "manhattan"])
def test_metric_closed_form(
    cost: str, asarray: Callable[..., Any], tonumpy: Callable[..., Any], rng: np.random.Generator
) -> None:
    """Omega 1-Lipschitz: p* = v and Omega^Phi = -Omega; checked against a fine grid in one dimension."""
    problem = gfy.InnerProblem(gfy.Metric(cost), gfy.SquaredNorm(0.9), gfy.Ball(1.0))
    v = 0.5 * rng.normal(size=(B, 2))
    v /= np.maximum(1, np.linalg.norm(v, axis=-1, keepdims=True))
    np.testing.assert_allclose(tonumpy(gfy.argmax(problem, asarray(v))), v, atol=1e-12)
    np.testing.assert_allclose(
        tonumpy(gfy.conjugate(problem, asarray(v))), -0.45 * (v**2).sum(-1), rtol=1e-12
    )
    grid = np.linspace(-1, 1, 4001)[:, None]
    line = v[:1, :1]
    best = grid[
        (problem.energy.value(gfy.Metric.Input(line), grid) - problem.regularizer.value(grid)).argmax()
    ]
    np.testing.assert_allclose(best, line[0], atol=1e-3)


def test_geometric_picture(asarray: Callable[..., Any], tonumpy: Callable[..., Any]) -> None:
    """Figure 1: Omega = p^2 / 2, Phi = a p^2 / 2 + b p, a = -1, b = 1: p* = 1/2, value 1/4, loss (p - 1/2)^2."""
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(1.0), gfy.Reals())
    v = gfy.LinearQuadratic.Input(asarray([1.0]), asarray([[-1.0]]))
    assert float(tonumpy(gfy.conjugate(problem, v))) == pytest.approx(0.25)
    assert float(tonumpy(gfy.argmax(problem, v))[0]) == pytest.approx(0.5)
    for y in (-1.0, 0.0, 0.5, 2.0):
        loss = float(tonumpy(gfy.FenchelYoungLoss(problem)(v, asarray([y]))))
        assert loss == pytest.approx((y - 0.5) ** 2, abs=1e-12)
