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
