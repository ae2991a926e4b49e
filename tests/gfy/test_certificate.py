"""Certificates: valid bounds, float64 whatever solved, honest about what they cannot say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zoo import energy_inputs, energy_names

import gfy
import solvers

Make = Callable[..., Any]
BOX = gfy.Box(0.0, 1.0)
CONCAVE = [
    n
    for n, (e, _, _) in zip(energy_names(), energy_inputs(np.random.default_rng(0)), strict=True)
    if e.concave
]


@pytest.mark.parametrize("name", [n for n in CONCAVE if "Metric" not in n])
def test_gap_bounds_the_suboptimality_of_any_point(name: str) -> None:
    """Against the best of many points: the value at p plus the gap is above the value everywhere."""
    index = energy_names().index(name)

    @given(st.integers(0, 2**31))
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        energy, leaves, k = energy_inputs(rng)[index]
        problem = gfy.InnerProblem(energy, gfy.BinaryGini(0.8), BOX)
        v = type(energy).Input(**leaves)
        certificate = gfy.certify(problem, v, rng.uniform(size=(4, k)))
        others = problem.value(v, rng.uniform(size=(200, 4, k)))
        assert certificate.concave
        assert (others <= certificate.value + certificate.gap + 1e-10).all()

    check()


def test_gap_is_zero_at_the_solution_and_the_frank_wolfe_gap_without_a_regularizer(
    rng: np.random.Generator,
) -> None:
    theta = rng.normal(size=(3, 5))
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
    best = gfy.Shannon().argmax(theta, gfy.Simplex())
    assert gfy.certify(problem, theta, best).gap.max() < 1e-15
    plain = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), BOX)
    v = gfy.Pairwise.Input(theta, rng.normal(size=(3, 5, 2)))
    p = rng.uniform(size=(3, 5))
    slope = plain.energy.grad_p(v, p)
    expected = (slope * (BOX.linear_oracle(slope) - p)).sum(-1)
    np.testing.assert_allclose(gfy.certify(plain, v, p).gap, expected, rtol=1e-10)


def test_kinks_of_rectifiers_are_certified(rng: np.random.Generator) -> None:
    """The tangent's bound stays far away where p* lies on a kink; the chosen slopes close it."""
    energy, leaves, k = energy_inputs(rng)[energy_names().index("12-ConcaveSpen")]
    v = type(energy).Input(**leaves)
    problem = gfy.InnerProblem(energy, gfy.BinaryGini(0.5), BOX)
    torch = pytest.importorskip("torch")
    tensors = type(v)(*(torch.as_tensor(x) for x in v))
    p = solvers.DualNewton().solve(problem, tensors, stop=gfy.Stop(1e-12, 200)).p
    certificate = gfy.certify(problem, tensors, p)
    assert certificate.gap.max() < 1e-9
    hidden = energy.hidden(v, p.numpy())
    assert (np.abs(hidden) < 1e-9).any()  # else the test shows nothing


def test_metric_is_certified_at_its_kink(rng: np.random.Generator) -> None:
    for cost in ("euclidean", "manhattan"):
        problem = gfy.InnerProblem(gfy.Metric(cost), gfy.SquaredNorm(0.9), gfy.Ball(1.0))
        v = 0.3 * rng.normal(size=(4, 3))
        v /= np.maximum(1, np.linalg.norm(v, axis=-1, keepdims=True))
        assert gfy.certify(problem, v, v).gap.max() < 1e-12


def test_a_point_near_the_kink_of_a_metric_has_a_small_gap(asarray: Make, rng: np.random.Generator) -> None:
    """|p - v| is at most 2e-7 and p* = v, so that the maximum is known: the gap is an upper bound and of that order."""
    problem = gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(0.1), BOX)
    v = rng.uniform(0.2, 0.8, size=(6, 8))
    p = v + 1e-7 * rng.uniform(-1, 1, size=v.shape) / np.sqrt(8)
    short = problem.value(gfy.Metric.Input(v), v) - problem.value(gfy.Metric.Input(v), p)
    gap = gfy.certify(problem, gfy.Metric.Input(asarray(v)), asarray(p)).gap
    assert (gap >= short).all()
    assert gap.max() <= 1e-6
    far = rng.uniform(size=v.shape)
    worse = problem.value(gfy.Metric.Input(v), v) - problem.value(gfy.Metric.Input(v), far)
    assert (gfy.certify(problem, gfy.Metric.Input(v), far).gap >= worse).all()


def test_float32_solution_float64_certificate(asarray: Make, rng: np.random.Generator) -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    v = gfy.Pairwise.Input(
        asarray(rng.normal(size=(3, 6)), "float32"), asarray(rng.normal(size=(3, 6, 1)), "float32")
    )
    p = solvers.DualNewton().solve(problem, v).p
    assert "float32" in str(p.dtype)
    certificate = gfy.certify(problem, v, p)
    assert all(
        getattr(certificate, field).dtype == np.float64 for field in ("gap", "residual", "value", "distance")
    )
    assert 0 <= certificate.gap.max() < 1e-10
    assert certificate.residual.max() > 1e-12  # float32 rounding is seen


def test_points_outside_are_certified_at_their_projection(rng: np.random.Generator) -> None:
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), BOX)
    theta = rng.normal(size=(2, 4))
    outside = np.clip(theta, 0, 1) + 0.25
    certificate = gfy.certify(problem, theta, outside)
    assert certificate.feasibility.max() == pytest.approx(0.25, abs=0.25)
    inside = gfy.certify(problem, theta, np.clip(outside, 0, 1))
    np.testing.assert_allclose(certificate.gap, inside.gap)


def test_non_concave_energies_certify_stationarity_only(rng: np.random.Generator) -> None:
    energy, leaves, k = energy_inputs(rng)[energy_names().index("9-Spen")]
    certificate = gfy.certify(
        gfy.InnerProblem(energy, gfy.BinaryGini(), BOX), type(energy).Input(**leaves), np.full((4, k), 0.5)
    )
    assert not certificate.concave
    assert "stationarity only" in certificate.says
    assert np.isinf(certificate.distance).all()


def test_custom_energies_are_certified_in_their_own_framework(
    asarray: Make, rng: np.random.Generator
) -> None:
    energy = gfy.CustomEnergy(lambda v, p: (v * p).sum(-1) - 0.5 * (p * p).sum(-1) ** 2, concave=True, k=4)
    problem = gfy.InnerProblem(energy, gfy.BinaryGini(), BOX)
    v = asarray(rng.normal(size=(3, 4)), "float32")
    p = gfy.argmax(problem, v, solver=solvers.ProjectedGradient(), stop=gfy.Stop(1e-6, 500))
    certificate = gfy.certify(problem, v, p)
    assert certificate.gap.dtype == np.float64
    assert certificate.gap.max() < 1e-8


def test_nothing_to_certify_gets_a_sentence() -> None:
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), BOX)
    with pytest.raises(gfy.GfyValueError, match="NaN or infinite"):
        gfy.certify(problem, np.zeros((1, 2)), np.array([[np.nan, 0.0]]))
    assert gfy.certify(problem, np.zeros((0, 2)), np.zeros((0, 2))).gap.shape == (0,)


def test_an_indefinite_matrix_is_refused_whatever_its_size() -> None:
    """The tangent is no bound then: at most points the gap was below the true suboptimality."""
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    for k in (2, 130):
        U = np.diag(np.linspace(-1.0, 2.0, k))
        with pytest.raises(gfy.GfyValueError, match=r"claims to be concave but U has the eigenvalue 2"):
            gfy.certify(problem, gfy.LinearQuadratic.Input(np.zeros((1, k)), U[None]), np.zeros((1, k)))
    honest = gfy.InnerProblem(gfy.LinearQuadratic(concave=False), gfy.BinaryGini(), BOX)
    found = gfy.certify(honest, gfy.LinearQuadratic.Input(np.zeros((1, k)), U[None]), np.zeros((1, k)))
    assert not found.concave
    assert "stationarity only" in found.says


@pytest.mark.parametrize("concave", [True, False])
def test_an_asymmetric_matrix_is_refused(concave: bool) -> None:
    problem = gfy.InnerProblem(gfy.LinearQuadratic(concave), gfy.BinaryGini(), BOX)
    U = np.array([[[-1.0, 0.5], [0.0, -1.0]]])
    with pytest.raises(gfy.GfyValueError, match="U must be symmetric"):
        gfy.certify(problem, gfy.LinearQuadratic.Input(np.zeros((1, 2)), U), np.zeros((1, 2)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    v = gfy.Pairwise.Input(np.array([[0.0, bad]]), np.zeros((1, 2, 1)))
    with pytest.raises(gfy.GfyValueError, match=r"Pairwise.Input.u holds 1 values that are NaN or infinite"):
        gfy.certify(problem, v, np.zeros((1, 2)))


def test_an_eigenvalue_that_passes_as_rounding_is_paid_for() -> None:
    """Phi = 5e-11 p^2 is not concave, by less than the check can ask for: the bound must hold all the same."""
    for omega in (gfy.Zero(), gfy.SquaredNorm(1e-12), gfy.SquaredNorm(1e-3)):
        problem = gfy.InnerProblem(gfy.LinearQuadratic(), omega, gfy.Box(-1.0, 1.0))
        # the second example is large, and with it what counts as rounding
        U = np.array([[[1e-10, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, -1.0]]])
        found = gfy.certify(problem, gfy.LinearQuadratic.Input(np.zeros((2, 2)), U), np.zeros((2, 2)))
        at_the_end = 5e-11 - omega.value(np.array([[1.0, 0.0]]))[0]
        assert found.gap[0] >= at_the_end - found.value[0]


def test_a_claim_of_concavity_is_told_and_tried(asarray: Make, rng: np.random.Generator) -> None:
    v, p = asarray(rng.normal(size=(3, 4))), asarray(rng.uniform(size=(3, 4)))
    true = gfy.CustomEnergy(lambda v, p: (v * p).sum(-1) - (p**4).sum(-1), concave=True, k=4)
    found = gfy.certify(gfy.InnerProblem(true, gfy.BinaryGini(), BOX), v, p)
    assert found.concave
    assert found.claimed
    assert "claims" in found.says
    false = gfy.CustomEnergy(lambda v, p: (v * p).sum(-1) + (p**4).sum(-1), concave=True, k=4)
    for domain in (BOX, gfy.Simplex(), gfy.Ball(2.0), gfy.Reals()):
        with pytest.raises(gfy.GfyValueError, match="claims to be concave in p but is not"):
            gfy.certify(gfy.InnerProblem(false, gfy.SquaredNorm(), domain), v, p)
    said = gfy.CustomEnergy(lambda v, p: (v * p).sum(-1) + (p**4).sum(-1), k=4)
    assert not gfy.certify(gfy.InnerProblem(said, gfy.SquaredNorm(), BOX), v, p).concave


@pytest.mark.parametrize("domain", [gfy.Reals(), gfy.Box(0.0, float("inf"))], ids=lambda domain: domain.name)
def test_a_value_that_overflows_has_an_infinite_gap(domain: gfy.ConvexSet) -> None:
    """Omega(p) = 5e399 is infinite in float64; the maximum is 0.5, so that no smaller bound is right."""
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), domain)
    with np.errstate(all="ignore"):
        found = gfy.certify(problem, gfy.Bilinear.Input(np.array([[0.0, 1.0]])), np.array([[1e200, 0.0]]))
    assert found.gap.tolist() == found.distance.tolist() == [float("inf")]
