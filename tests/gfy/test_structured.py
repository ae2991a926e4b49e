"""Structured outputs: oracles, projections, entropies and solutions against listing every structure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gfy
import solvers

SEEDS = st.integers(0, 2**31)
CHAIN = gfy.Chain(3, 2)
SEQUENCES = CHAIN.sequences()
HULL = CHAIN.polytope()
LISTED = gfy.ConvexHull(SEQUENCES)


def assignment(scores: np.ndarray) -> np.ndarray:
    from scipy.optimize import linear_sum_assignment

    n = math.isqrt(scores.shape[-1])
    out = np.zeros((len(scores), n, n))
    for matrix, best in zip(scores.reshape(-1, n, n), out, strict=True):
        best[linear_sum_assignment(matrix, maximize=True)] = 1.0
    return out.reshape(scores.shape)


@given(seed=SEEDS, length=st.integers(1, 5), states=st.integers(1, 4))
def test_viterbi_and_forward_backward_agree_with_listing(seed: int, length: int, states: int) -> None:
    chain = gfy.Chain(length, states)
    sequences = chain.sequences()
    scores = 2 * np.random.default_rng(seed).normal(size=(3, chain.k))
    each = scores @ sequences.T
    assert np.allclose((chain.viterbi(scores) * scores).sum(-1), each.max(-1))
    weights = np.exp(each - each.max(-1, keepdims=True))
    total, marginals = chain.forward_backward(scores)
    assert np.allclose(total, np.log(weights.sum(-1)) + each.max(-1))
    assert np.allclose(marginals, weights / weights.sum(-1, keepdims=True) @ sequences)
    # the conjugate of the chain's entropy is the log-partition function: <theta, p> - Omega(p) at its
    # marginals
    omega = gfy.ChainEntropy(chain)
    assert np.allclose((scores * marginals).sum(-1) - omega.value(marginals), total)
    assert np.allclose(omega.value(sequences), 0.0)


def test_the_entropy_gradient_and_argmax_are_those_of_autodiff(
    asarray: Any, tonumpy: Any, backend: str, rng: Any
) -> None:
    omega = gfy.ChainEntropy(CHAIN, 0.7)
    theta = rng.normal(size=(4, CHAIN.k))
    framework = gfy.get_backend(backend)

    def slope_of(function: Any, at: Any) -> Any:
        value, pull = framework.vjp(function, at)
        return pull(framework.xp.ones_like(value))[0]

    def all_at_once(t: Any) -> tuple[Any, ...]:  # staged as one: a chain is many small operations
        p = omega.argmax(t, HULL)
        return p, omega.grad(p), slope_of(omega.value, p), slope_of(lambda x: omega.conjugate(x, HULL), t)

    p, gradient, expected, slope = framework.jit(all_at_once)(asarray(theta))
    assert np.allclose(tonumpy(gradient), tonumpy(expected))
    assert np.allclose(tonumpy(slope), tonumpy(p))  # the gradient of a conjugate is its argmax


@given(seed=SEEDS)
@settings(max_examples=8)
def test_an_oracle_is_enough_to_project(seed: int, asarray: Any, tonumpy: Any) -> None:
    x = 2 * np.random.default_rng(seed).normal(size=(3, CHAIN.k))
    found = tonumpy(HULL.project(asarray(x)))
    assert np.allclose(found, LISTED.project(x), atol=1e-9)
    assert np.allclose(tonumpy(HULL.project(asarray(found))), found, atol=1e-9)
    for (atoms, weights), point in zip(HULL.atoms(x), found, strict=True):
        assert np.allclose(weights @ atoms, point)
        assert weights.min() > 0
    assert np.allclose(tonumpy(HULL.violation(asarray(x))), np.linalg.norm(x - found, axis=-1))


def test_the_projection_is_differentiable(asarray: Any, tonumpy: Any, backend: str, rng: Any) -> None:
    x, direction = rng.normal(size=(2, 3, CHAIN.k))
    framework = gfy.get_backend(backend)
    _, pull = framework.vjp(HULL.project, asarray(x))
    (pulled,) = pull(asarray(direction))
    step = 1e-6
    difference = (HULL.project(x + step * direction) - HULL.project(x - step * direction)) / (2 * step)
    assert np.allclose(tonumpy(pulled), difference, atol=1e-6)  # the Jacobian of a projection is symmetric


def test_sizes_and_centres_of_a_set_known_by_its_oracle() -> None:
    middle = HULL.center(np.zeros((2, CHAIN.k)))
    assert (middle > 0).all()
    assert HULL.violation(middle).max() < 1e-12
    assert HULL.diameter(CHAIN.k) >= LISTED.diameter(CHAIN.k) - 1e-12
    with pytest.raises(gfy.GfyValueError, match="OracleHull.k is 14 but p has 5 coordinates"):
        HULL.check_dim(5)
    with pytest.raises(gfy.GfyValueError, match="shaped as its scores"):
        gfy.OracleHull(lambda s: s[:, :1], 3).linear_oracle(np.zeros((2, 3)))


@pytest.mark.parametrize("kind", ["sequences", "matchings"])
def test_frank_wolfe_with_an_oracle_finds_sparsemap(kind: str, asarray: Any, tonumpy: Any, rng: Any) -> None:
    hull = HULL if kind == "sequences" else gfy.OracleHull(assignment, 9)
    listed = LISTED if kind == "sequences" else gfy.ConvexHull(gfy.Birkhoff().vertices(9))
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(0.8), hull)
    theta = rng.normal(size=(4, hull.k))
    found = solvers.FrankWolfe().solve(problem, gfy.Bilinear.Input(asarray(theta)), stop=gfy.Stop(1e-9, 2000))
    assert np.allclose(tonumpy(found.p), listed.project(theta / 0.8), atol=1e-4)
    assert gfy.certify(problem, asarray(theta), found.p).gap.max() <= 1e-8


def test_frank_wolfe_finds_the_marginals_of_a_bent_chain(asarray: Any, tonumpy: Any, rng: Any) -> None:
    """A chain with a further quadratic interaction: the oracle is forward-backward, the check lists all
    sequences.
    """
    u, A = rng.normal(size=(3, CHAIN.k)), 0.6 * rng.normal(size=(3, CHAIN.k, 2))
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.ChainEntropy(CHAIN), HULL)
    v = gfy.Pairwise.Input(asarray(u), asarray(A))
    found = solvers.FrankWolfe().solve(problem, v, stop=gfy.Stop(1e-10, 2000))
    plain = gfy.InnerProblem(gfy.Pairwise(), gfy.Shannon(), gfy.Simplex())
    wide = gfy.Pairwise.Input(asarray(u @ SEQUENCES.T), asarray(np.einsum("yk,bkm->bym", SEQUENCES, A)))
    q = tonumpy(gfy.argmax(plain, wide, solver=solvers.DualNewton(), stop=gfy.Stop(1e-12, 200)))
    assert np.allclose(tonumpy(found.p), q @ SEQUENCES, atol=1e-5)


def test_probabilistic_networks_are_exact_on_a_small_output_space(
    asarray: Any, tonumpy: Any, backend: str, rng: Any
) -> None:
    """Any energy E(v, y) over listed sequences: p* is the Gibbs distribution, the loss its negative log-
    likelihood.
    """
    outputs = asarray(SEQUENCES)
    xp = gfy.get_backend(backend).xp

    def energies(v: Any) -> Any:  # nonlinear in v
        return xp.tanh(v) @ xp.matrix_transpose(outputs)

    problem = gfy.InnerProblem(gfy.Probabilistic(energies), gfy.Shannon(), gfy.Simplex())
    v = rng.normal(size=(3, CHAIN.k))
    p = tonumpy(gfy.argmax(problem, asarray(v)))
    scores = np.tanh(v) @ SEQUENCES.T
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    assert np.allclose(p, expected)
    assert np.allclose(p @ SEQUENCES, CHAIN.forward_backward(np.tanh(v))[1])
    chosen = np.array([0, 3, 5])
    loss = tonumpy(gfy.FenchelYoungLoss(problem)(asarray(v), asarray(np.eye(len(SEQUENCES))[chosen])))
    assert np.allclose(loss, -np.log(expected[np.arange(3), chosen]))
    # the same loss and marginals without listing: the chain's own entropy on its polytope
    short = gfy.InnerProblem(gfy.Bilinear(), gfy.ChainEntropy(CHAIN), HULL)
    crf = gfy.FenchelYoungLoss(short, solver=solvers.ClosedForm())
    assert np.allclose(tonumpy(crf(asarray(np.tanh(v)), asarray(SEQUENCES[chosen]))), loss)


def test_the_entropy_of_another_chain_is_refused(asarray: Any) -> None:
    omega = gfy.ChainEntropy(gfy.Chain(2, 2))
    with pytest.raises(gfy.UnsupportedError, match="its own chain"):
        omega.argmax(asarray(np.zeros((1, 8))), HULL)
    with pytest.raises(gfy.GfyValueError, match="length >= 1"):
        gfy.Chain(0, 2)
    with pytest.raises(gfy.UnsupportedError, match="too many"):
        gfy.Chain(40, 3).sequences()
