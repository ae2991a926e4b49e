"""Generalized biconjugates: below Omega, equal to it when Psi-convex, and above every other Psi-convex lower
bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gfy
from gfy.regularizers.base import Regularizer
from gfy.theory.biconjugate import grid_conjugate, touching_input

pytestmark = pytest.mark.thin(4)  # compiling for JAX takes most of the time

SEEDS = st.integers(0, 2**31)
B, K = 3, 3
MIX = np.array([[0.9, 0.1, 0.4], [0.2, 1.1, 0.0], [0.3, 0.0, 0.8], [0.0, 0.5, 0.6]])


class DoubleWell(Regularizer):
    """(p^2 - 1)^2: nonconvex, to see what its biconjugates make of it."""

    def value(self, p: Any) -> Any:
        return ((p * p - 1) ** 2).sum(-1)

    def grad(self, p: Any) -> Any:
        return 4 * p * (p * p - 1)


def interior(rng: np.random.Generator, simplex: bool) -> np.ndarray:
    return rng.dirichlet(np.full(K, 2.0), size=B) if simplex else rng.uniform(0.05, 0.95, size=(B, K))


BOX = gfy.Box(0.0, 1.0)
# Problems that have a touching input; each with the leaves other than its linear term, drawn anew.
TOUCHED: dict[str, tuple[gfy.InnerProblem, Any]] = {
    "shannon": (gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(0.7), gfy.Simplex()), None),
    "metric": (gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(0.5), BOX), None),
    "pairwise": (
        gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(1.3), BOX),
        lambda draw: (draw(K), draw(K, 2)),
    ),
    "icnn": (
        gfy.InnerProblem(gfy.InputConvexNetwork(), gfy.BinaryGini(), BOX),
        lambda draw: (draw(K), draw(2, K), draw(2), draw(4, 2), draw(4, K), draw(4), draw(4)),
    ),
}


@pytest.mark.parametrize("name", TOUCHED)
@given(seed=SEEDS)
@settings(max_examples=5)
def test_a_touching_input_makes_the_biconjugate_omega(
    name: str, seed: int, asarray: Any, tonumpy: Any
) -> None:
    rng = np.random.default_rng(seed)
    problem, others = TOUCHED[name]
    p = asarray(interior(rng, isinstance(problem.domain, gfy.Simplex)))
    start = others and problem.energy.Input(
        *(asarray(leaf) for leaf in others(lambda *s: rng.normal(size=s)))
    )
    found = gfy.solve_biconjugate(problem, p, start=start)
    omega = tonumpy(problem.regularizer.value(p))
    reached = problem.energy.value(found.v, p) - gfy.conjugate(problem, found.v, stop=gfy.Stop(1e-10, 3000))
    assert np.allclose(tonumpy(found.value), omega)
    assert np.allclose(tonumpy(reached), omega, atol=1e-7)


SEARCHED = {
    "mixing": (gfy.InnerProblem(gfy.Bilinear(MIX[:2]), gfy.Gini(), gfy.Simplex()), "auto"),
    "rectifier": (gfy.InnerProblem(gfy.Rectifier(MIX), gfy.SquaredNorm(), gfy.Box(0.0, 1.0)), "auto"),
    "pairwise": (gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0)), "ascent"),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_stays_below_omega_and_reports_what_it_reached(
    name: str, asarray: Any, tonumpy: Any, rng: Any
) -> None:
    problem, method = SEARCHED[name]
    p = asarray(interior(rng, isinstance(problem.domain, gfy.Simplex)))
    found = gfy.solve_biconjugate(problem, p, method, stop=gfy.Stop(1e-9, 400), solver=None)
    omega = tonumpy(problem.regularizer.value(p))
    assert np.all(tonumpy(found.value) <= omega + 1e-9)
    reached = tonumpy(problem.energy.value(found.v, p) - gfy.conjugate(problem, found.v))
    assert np.allclose(reached, tonumpy(found.value), atol=1e-7)
    if name == "pairwise":  # Psi-convex: the search must find that Omega is touched
        assert np.allclose(tonumpy(found.value), omega, atol=1e-6)
    if name == "mixing":  # the infimum of Omega over the fibre {q in C : U q = U p}
        assert np.allclose(tonumpy(found.value), [fibre(MIX[:2], x) for x in tonumpy(p)], atol=1e-5)


def fibre(U: np.ndarray, p: np.ndarray) -> float:
    """min 1/2 <q, q - 1> over the simplex with U q = U p, by brute force along the one free direction."""
    direction = (
        np.linalg.svd(np.vstack([U, np.ones(3)]))[2][-1]
        if np.linalg.matrix_rank(np.vstack([U, np.ones(3)])) < 3
        else None
    )
    if direction is None:
        return float(0.5 * p @ (p - 1))
    steps = np.linspace(-2, 2, 400001)
    q = p + steps[:, None] * direction
    q = q[(q >= -1e-12).all(1)]
    return float((0.5 * (q * (q - 1)).sum(1)).min())


def test_maxout_is_touched_from_the_best_of_several_starts(asarray: Any, tonumpy: Any) -> None:
    problem = gfy.InnerProblem(gfy.Maxout(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    p = asarray(np.array([[0.1], [0.45], [0.8]]))
    found = gfy.solve_biconjugate(
        problem, p, start=gfy.Maxout.Input(asarray(np.zeros(2))), stop=gfy.Stop(1e-9, 400)
    )
    assert np.allclose(tonumpy(found.gap), 0.0, atol=1e-7)  # max(v) takes every value: as the bilinear energy


def grids(asarray: Any) -> tuple[Any, Any]:
    points = np.linspace(-1.5, 1.5, 121)[:, None]
    inputs = np.linspace(-12, 12, 241)[:, None]
    return asarray(points), asarray(inputs)


def test_the_bilinear_biconjugate_of_a_double_well_is_its_convex_envelope(asarray: Any, tonumpy: Any) -> None:
    points, inputs = grids(asarray)
    problem = gfy.InnerProblem(gfy.Bilinear(), DoubleWell(), gfy.Box(-1.5, 1.5))
    envelope = tonumpy(gfy.biconjugate(problem, points, "grid", inputs=inputs, points=points))
    x = tonumpy(points)[:, 0]
    expected = np.where(np.abs(x) <= 1, 0.0, (x * x - 1) ** 2)
    assert np.all(envelope <= tonumpy(DoubleWell().value(points)) + 1e-12)
    assert np.allclose(envelope, expected, atol=2e-3)


def test_a_bent_coupling_gives_a_tighter_envelope(asarray: Any, tonumpy: Any) -> None:
    points, slopes = grids(asarray)
    bends = np.array([0.0, -2.0, -4.0])
    u = np.repeat(tonumpy(slopes), len(bends), axis=0)
    U = np.tile(bends, len(tonumpy(slopes)))[:, None, None]
    inputs = gfy.LinearQuadratic.Input(asarray(u), asarray(U))
    well, box = DoubleWell(), gfy.Box(-1.5, 1.5)
    bent = gfy.biconjugate(
        gfy.InnerProblem(gfy.LinearQuadratic(), well, box), points, "grid", inputs=inputs, points=points
    )
    straight = gfy.biconjugate(
        gfy.InnerProblem(gfy.Bilinear(), well, box), points, "grid", inputs=slopes, points=points
    )
    gain = tonumpy(bent) - tonumpy(straight)
    assert gain.min() >= -1e-12
    assert gain.max() > 0.3
    assert np.all(tonumpy(bent) <= tonumpy(well.value(points)) + 1e-12)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_no_psi_convex_lower_bound_lies_above_the_biconjugate(seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    points = asarray(rng.uniform(size=(17, 2)))
    inputs = gfy.LinearQuadratic.Input(
        asarray(rng.normal(size=(23, 2))), asarray(rng.normal(size=(23, 2, 2)))
    )
    problem = gfy.InnerProblem(gfy.LinearQuadratic(concave=False), gfy.BinaryShannon(), gfy.Box(0.0, 1.0))
    omega = tonumpy(problem.regularizer.value(points))
    tightest = tonumpy(gfy.biconjugate(problem, points, "grid", inputs=inputs, points=points))
    pairs = tonumpy(
        problem.energy.value(gfy.LinearQuadratic.Input(inputs.u[:, None], inputs.U[:, None]), points[None])
    )
    other = (pairs - rng.normal(size=(23, 1))).max(0)
    other = other - (other - omega).max()  # shifted until it is a lower bound
    assert np.all(tightest <= omega + 1e-12)
    assert np.all(other <= tightest + 1e-12)
    # and a function that is Psi-convex to begin with is given back: conjugating three times is conjugating
    # once
    once = tonumpy(grid_conjugate(problem, inputs, points))
    psi = (pairs - once[:, None]).max(0)
    assert np.allclose(once, (pairs - psi).max(1), atol=1e-12)


def test_what_cannot_be_done_is_said(asarray: Any) -> None:
    p = asarray(np.full((2, 3), 0.3))
    spen = gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    quadratic = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    with pytest.raises(gfy.UnsupportedError, match="not concave"):
        gfy.biconjugate(spen, p, "exact")
    with pytest.raises(gfy.UnsupportedError, match=r"start=Spen\.Input"):
        gfy.biconjugate(spen, p)
    with pytest.raises(gfy.UnsupportedError, match="negative semi-definite"):
        gfy.biconjugate(quadratic, p, "ascent")
    with pytest.raises(gfy.GfyValueError, match="inputs="):
        gfy.biconjugate(quadratic, p, "grid")
    with pytest.raises(gfy.GfyValueError, match="one of auto"):
        gfy.biconjugate(quadratic, p, "guess")
    with pytest.raises(gfy.UnsupportedError, match="1-Lipschitz"):
        touching_input(gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(9.0), gfy.Box(0.0, 1.0)), p)
