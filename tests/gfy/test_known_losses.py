"""Losses the world already has, recovered exactly: written out, or from independent implementations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp, softmax, xlogy

import gfy

B, K = 5, 4
BOX = gfy.Box(0.0, 1.0)
Make = Callable[..., Any]


def fy(regularizer: gfy.Regularizer, domain: gfy.ConvexSet) -> gfy.FenchelYoungLoss:
    return gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Bilinear(), regularizer, domain))


@pytest.fixture
def scores(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(B, K)) * 2


def test_squared_loss(scores: np.ndarray, asarray: Make, tonumpy: Make, rng: np.random.Generator) -> None:
    y = rng.normal(size=(B, K))
    loss = fy(gfy.SquaredNorm(), gfy.Reals())(asarray(scores), asarray(y))
    np.testing.assert_allclose(tonumpy(loss), 0.5 * ((scores - y) ** 2).sum(-1), rtol=1e-12)


def test_logistic_loss_is_gamma_times_kl(
    scores: np.ndarray, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    gamma, y = 0.6, rng.dirichlet(np.ones(K), size=B)
    loss = fy(gfy.Shannon(gamma), gfy.Simplex())(asarray(scores), asarray(y))
    q = softmax(scores / gamma, axis=-1)
    np.testing.assert_allclose(tonumpy(loss), gamma * (xlogy(y, y) - y * np.log(q)).sum(-1), rtol=1e-10)


def test_class_indices_and_one_hot_rows_are_the_same_target(
    scores: np.ndarray, asarray: Make, tonumpy: Make
) -> None:
    from sklearn.metrics import log_loss

    classes = np.array([0, 3, 2, 2, 1])
    loss = fy(gfy.Shannon(), gfy.Simplex())
    by_index = tonumpy(loss(asarray(scores), asarray(classes)))
    np.testing.assert_allclose(
        by_index, tonumpy(loss(asarray(scores), asarray(np.eye(K)[classes]))), rtol=1e-12
    )
    np.testing.assert_allclose(
        by_index, tonumpy(loss(asarray(scores), asarray(np.eye(K, dtype=int)[classes])))
    )
    expected = log_loss(classes, softmax(scores, axis=-1), labels=range(K))
    assert by_index.mean() == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(
        by_index, logsumexp(scores, axis=-1) - scores[np.arange(B), classes], rtol=1e-12
    )


def test_binary_logistic_loss(
    scores: np.ndarray, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    y = rng.integers(0, 2, size=(B, K))
    loss = fy(gfy.BinaryShannon(), BOX)(asarray(scores), asarray(y))
    expected = (np.logaddexp(0, scores) - y * scores).sum(-1)
    np.testing.assert_allclose(tonumpy(loss), expected, rtol=1e-12)


def test_binary_sparsemax_loss(
    scores: np.ndarray, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    """Per coordinate, with s = v for y = 1 and -v for y = 0: 0 past 1, -s below -1, (1 - s)^2 / 4 between."""
    y = rng.integers(0, 2, size=(B, K))
    s = np.where(y == 1, scores, -scores)
    expected = np.where(s >= 1, 0, np.where(s <= -1, -s, (1 - s) ** 2 / 4)).sum(-1)
    loss = fy(gfy.BinaryGini(), BOX)(asarray(scores), asarray(y))
    np.testing.assert_allclose(tonumpy(loss), expected, atol=1e-12)


def test_sparsemax_and_entmax_losses_of_the_entmax_package(scores: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    entmax = pytest.importorskip("entmax")
    v = torch.tensor(scores)
    classes = torch.tensor([0, 3, 2, 2, 1])
    peers = {
        "sparsemax": (gfy.Gini(), entmax.sparsemax_loss),
        "entmax15": (gfy.Tsallis(1.5), entmax.entmax15_loss),
    }
    for regularizer, peer in peers.values():
        ours = fy(regularizer, gfy.Simplex())(v, classes)
        np.testing.assert_allclose(ours.numpy(), peer(v, classes).numpy(), atol=1e-9)
    np.testing.assert_allclose(
        gfy.Tsallis(1.5).argmax(v, gfy.Simplex()).numpy(), entmax.entmax15(v).numpy(), atol=1e-9
    )


def test_losses_of_optax(scores: np.ndarray) -> None:
    jnp = pytest.importorskip("jax.numpy")
    optax = pytest.importorskip("optax")
    v, y = jnp.asarray(scores), jnp.asarray(np.eye(K)[[0, 3, 2, 2, 1]])
    for ours, theirs in (
        (fy(gfy.Shannon(), gfy.Simplex())(v, y), optax.losses.softmax_cross_entropy(v, y)),
        (fy(gfy.BinaryShannon(), BOX)(v, y), optax.losses.sigmoid_binary_cross_entropy(v, y).sum(-1)),
        (fy(gfy.SquaredNorm(), gfy.Reals())(v, y), optax.losses.l2_loss(v, y).sum(-1)),
    ):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-10)


def test_gibbs_distribution_of_a_probabilistic_network(
    scores: np.ndarray, asarray: Make, tonumpy: Make
) -> None:
    """Table 1: with Shannon on the simplex, p* is exp(E) normalised and the loss the negative log-likelihood."""
    problem = gfy.InnerProblem(gfy.Probabilistic(lambda v: v * v - 1), gfy.Shannon(), gfy.Simplex())
    energies = scores**2 - 1
    np.testing.assert_allclose(
        tonumpy(gfy.argmax(problem, asarray(scores))), softmax(energies, axis=-1), atol=1e-12
    )
    loss = tonumpy(gfy.FenchelYoungLoss(problem)(asarray(scores), asarray(np.array([1, 1, 0, 2, 3]))))
    expected = logsumexp(energies, -1) - energies[np.arange(B), [1, 1, 0, 2, 3]]
    np.testing.assert_allclose(loss, expected, rtol=1e-10, atol=1e-12)


def test_perceptron_and_hinge_losses_of_classes(scores: np.ndarray, asarray: Make, tonumpy: Make) -> None:
    classes = np.array([0, 3, 2, 2, 1])
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
    own = scores[np.arange(B), classes]
    perceptron = tonumpy(gfy.PerceptronLoss(problem)(asarray(scores), asarray(classes)))
    np.testing.assert_allclose(perceptron, scores.max(-1) - own, atol=1e-12)
    margin = tonumpy(gfy.MarginLoss(problem, cost="zero_one", margin=0.7)(asarray(scores), asarray(classes)))
    cost = 0.7 * (1 - np.eye(K)[classes])
    np.testing.assert_allclose(margin, (scores + cost).max(-1) - own, atol=1e-12)


def test_margin_loss_of_labels(
    scores: np.ndarray, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    """On the cube with the Hamming cost: a hinge for each label; U given, so the linear term goes through Shifted."""
    y, U = rng.integers(0, 2, size=(B, K)), rng.normal(size=(K, K))
    expected = np.maximum(0, 1 + np.where(y == 1, -1, 1) * (scores @ U)).sum(-1)
    for energy, v in ((gfy.Bilinear(), scores @ U), (gfy.Bilinear(U), scores)):
        problem = gfy.InnerProblem(energy, gfy.BinaryGini(), BOX)
        np.testing.assert_allclose(
            tonumpy(gfy.MarginLoss(problem)(asarray(v), asarray(y))), expected, atol=1e-12
        )


def test_energy_and_argmax_losses(
    scores: np.ndarray, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    y = rng.integers(0, 2, size=(B, K)).astype(float)
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryShannon(), BOX)
    v = asarray(scores)
    np.testing.assert_allclose(
        tonumpy(gfy.EnergyLoss(problem)(v, asarray(y))), -(scores * y).sum(-1), rtol=1e-12
    )
    p = 1 / (1 + np.exp(-scores))
    squared = tonumpy(gfy.ArgmaxLoss("squared", problem)(v, asarray(y)))
    np.testing.assert_allclose(squared, 0.5 * ((p - y) ** 2).sum(-1), rtol=1e-10)
    entropy = tonumpy(gfy.ArgmaxLoss("cross_entropy", problem, eps=0.0)(v, asarray(y)))
    np.testing.assert_allclose(entropy, (np.logaddexp(0, scores) - y * scores).sum(-1), rtol=1e-10)
    multiclass = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
    classes = asarray(np.array([0, 3, 2, 2, 1]))
    np.testing.assert_allclose(
        tonumpy(gfy.ArgmaxLoss(multiclass, eps=0.0)(v, classes)),
        tonumpy(gfy.FenchelYoungLoss(multiclass)(v, classes)),
        rtol=1e-10,
    )


def test_reductions_and_edge_shapes(scores: np.ndarray, asarray: Make, tonumpy: Make) -> None:
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), BOX)
    v, y = asarray(scores), asarray(np.ones((B, K)))
    each = tonumpy(gfy.FenchelYoungLoss(problem)(v, y))
    assert float(tonumpy(gfy.FenchelYoungLoss(problem, reduction="mean")(v, y))) == pytest.approx(each.mean())
    assert float(tonumpy(gfy.FenchelYoungLoss(problem, reduction="sum")(v, y))) == pytest.approx(each.sum())
    assert tuple(gfy.FenchelYoungLoss(problem)(v[:0], y[:0]).shape) == (0,)
    assert tuple(gfy.FenchelYoungLoss(problem)(v[:, :1], y[:, :1]).shape) == (B,)
    single = gfy.FenchelYoungLoss(problem)(v[0], y[0])
    assert float(tonumpy(single)) == pytest.approx(each[0])
