"""Calibrated decoding: each decoder minimises its own target loss, checked by listing every prediction."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gfy
from gfy.theory.decoding import as_target
from gfy.theory.targets import Ndcg

SEEDS = st.integers(0, 2**31)
K = 4
BOX = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
SIMPLEX = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
BITS = np.array(list(itertools.product((0.0, 1.0), repeat=K)))


def risks(target: Any, candidates: np.ndarray, q: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """E L(candidate, Y) for each candidate, Y ~ q over outputs."""
    return np.array(
        [q @ np.asarray(target.loss(np.broadcast_to(c, outputs.shape), outputs)) for c in candidates]
    )


@given(seed=SEEDS)
def test_hamming_and_precision_decode_the_mean_to_the_bayes_prediction(
    seed: int, asarray: Any, tonumpy: Any
) -> None:
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(len(BITS), 0.3))
    mean = (q @ BITS)[None]
    for name, k, candidates in (("hamming", None, BITS), ("precision_at_k", 2, BITS[BITS.sum(1) == 2])):
        target = as_target(name, k)
        decoded = tonumpy(gfy.decode(BOX, asarray(mean), name, k=k))
        assert np.isin(decoded, (0.0, 1.0)).all()
        best = risks(target, candidates, q, BITS)
        assert np.isclose(risks(target, decoded, q, BITS)[0], best.min())
    assert np.array_equal(tonumpy(gfy.decode(BOX, asarray(mean), "hamming")), (mean > 0.5).astype(float))


@given(seed=SEEDS)
def test_zero_one_decodes_to_the_most_likely_class(seed: int, asarray: Any, tonumpy: Any) -> None:
    p = np.random.default_rng(seed).dirichlet(np.ones(K), size=(2, 3))
    decoded = tonumpy(gfy.decode(SIMPLEX, asarray(p), "zero_one"))
    assert decoded.shape == p.shape
    assert np.array_equal(decoded.argmax(-1), p.argmax(-1))
    assert np.array_equal(decoded.sum(-1), np.ones((2, 3)))


@given(seed=SEEDS)
def test_ndcg_ranks_by_expected_normalised_gain(seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    relevance = rng.integers(0, 4, size=(6, K)).astype(float)
    q = rng.dirichlet(np.ones(6))
    target = Ndcg()
    p = q @ target.gains(relevance)
    assert (p <= 1).all()
    order = tonumpy(gfy.decode(BOX, asarray(p[None]), "ndcg"))[0]
    orders = np.array(list(itertools.permutations(range(K))))
    assert np.isclose(risks(target, order[None], q, relevance)[0], risks(target, orders, q, relevance).min())


def test_ndcg_loss_agrees_with_scikit_learn(rng: Any) -> None:
    ndcg_score = pytest.importorskip("sklearn.metrics").ndcg_score
    relevance = rng.integers(0, 4, size=(5, K)).astype(float)
    scores = rng.normal(size=(5, K))
    found = Ndcg().loss(np.argsort(-scores, axis=-1), relevance)
    expected = [1 - ndcg_score([2**y - 1], [s]) for y, s in zip(relevance, scores, strict=True)]
    assert np.allclose(found, expected)


@given(seed=SEEDS)
def test_any_affine_loss_decodes_by_its_own_decomposition(seed: int, asarray: Any, tonumpy: Any) -> None:
    rng = np.random.default_rng(seed)
    V, b = rng.normal(size=(K, K)), rng.normal(size=K)
    p = rng.uniform(size=(3, K))
    expected = BITS[(BITS @ (p @ V.T + b).T).argmin(0)]
    assert np.array_equal(tonumpy(gfy.decode(BOX, asarray(p), (V, b, None))), expected)
    listed = gfy.AffineLoss(V, b, outputs=BITS)
    assert np.array_equal(tonumpy(gfy.decode(BOX, asarray(p), listed)), expected)
    # a loss of pairs: phi(y) = (y_i y_j), decoded over the list of outputs
    W = rng.normal(size=(K * K, K * K))
    pairs = gfy.AffineLoss(
        W, 0.0, varphi=lambda y: (y[..., :, None] * y[..., None, :]).reshape(*y.shape[:-1], -1), outputs=BITS
    )
    chosen = tonumpy(gfy.decode(BOX, asarray(p), pairs))
    for y, x in zip(chosen, p, strict=True):
        scores = [np.outer(c, c).ravel() @ W @ np.outer(x, x).ravel() for c in BITS]
        assert np.array_equal(y, BITS[int(np.argmin(scores))])


def test_hamming_on_a_polytope_picks_its_best_vertex(asarray: Any, tonumpy: Any, rng: Any) -> None:
    birkhoff = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Birkhoff())
    p = rng.dirichlet(np.ones(3), size=(2, 3)).reshape(2, 9)
    decoded = tonumpy(gfy.decode(birkhoff, asarray(p), "hamming"))
    vertices = gfy.Birkhoff().vertices(9)
    assert np.array_equal(decoded, vertices[(p @ vertices.T).argmax(1)])


def test_bad_targets_get_a_sentence(asarray: Any) -> None:
    p = asarray(np.full((1, K), 0.25))
    with pytest.raises(gfy.UnsupportedError, match="Simplex"):
        gfy.decode(BOX, p, "zero_one")
    with pytest.raises(gfy.UnsupportedError, match="0/1"):
        gfy.decode(gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Box(-1.0, 1.0)), p, "hamming")
    with pytest.raises(gfy.GfyTypeError, match="needs k="):
        gfy.decode(BOX, p, "precision_at_k")
    with pytest.raises(gfy.GfyValueError, match="one of zero_one"):
        gfy.decode(BOX, p, "f1")
    with pytest.raises(gfy.GfyTypeError, match="outputs="):
        gfy.AffineLoss(np.eye(2), 0.0, varphi=lambda y: y)
