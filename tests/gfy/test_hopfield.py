"""Retrieval from an associative memory, against the updates written out in NumPy and the margins of sparse weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy
from gfy.backend import get_backend
from gfy.errors import GfyTypeError, GfyValueError, UnsupportedError

REALS = gfy.Reals()


def put(backend: str, x: Any) -> Any:
    return get_backend(backend).asarray(np.array(x), dtype="float64")


def out(backend: str, x: Any) -> np.ndarray:
    return np.asarray(get_backend(backend).to_numpy(x))


def sparsemax(z: np.ndarray) -> np.ndarray:
    """The projection onto the simplex, by sorting: Held, Wolfe and Crowder (1974)."""
    ordered = -np.sort(-z)
    tail = (np.cumsum(ordered) - 1) / np.arange(1, len(z) + 1)
    count = int((ordered > tail).sum())
    return np.maximum(z - tail[count - 1], 0)


def entmax15(z: np.ndarray) -> np.ndarray:
    """The 1.5-entmax by bisection on its threshold: Peters, Niculae and Martins (2019)."""
    low, high = z.max() / 2 - 1, z.max() / 2
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if (np.maximum(z / 2 - tau, 0) ** 2).sum() > 1 else (low, tau)
    return np.maximum(z / 2 - (low + high) / 2, 0) ** 2


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max())
    return e / e.sum()


MAPS = {"gini": (gfy.Gini(), sparsemax, 1.0), "entmax": (gfy.Tsallis(1.5), entmax15, 2.0),
        "shannon": (gfy.Shannon(), softmax, np.inf)}  # fmt: skip


@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize("kind", MAPS)
def test_an_update_is_the_one_written_out(kind: str, backend: str) -> None:
    psi, weights, _ = MAPS[kind]
    rng = np.random.default_rng(0)
    X, query, u, beta = rng.normal(size=(5, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), 1.7
    problem = gfy.InnerProblem(gfy.Hopfield(psi, beta), gfy.SquaredNorm(), REALS)
    v = gfy.Hopfield.Input(put(backend, u), put(backend, X))
    found = gfy.retrieve(problem, v, put(backend, query), steps=3)
    expected = query
    for _ in range(3):
        expected = u + np.array([X.T @ weights(beta * X @ q) for q in expected])
    assert np.abs(out(backend, found.p) - expected).max() <= 1e-9
    rises = np.diff(out(backend, found.values), axis=0)
    assert (rises >= -1e-12).all()
    assert rises[0].max() > 1e-3


def patterns(rng: np.random.Generator, n: int = 6, k: int = 16) -> np.ndarray:
    return rng.choice([-1.0, 1.0], size=(n, k)) * rng.uniform(0.8, 1.2, size=(n, 1))


@pytest.mark.parametrize("kind", ["gini", "entmax"])
def test_sparse_weights_retrieve_exactly_within_the_radius_and_not_beyond(kind: str) -> None:
    pytest.importorskip("torch")
    backend = "torch"
    psi, _, margin = MAPS[kind]
    rng = np.random.default_rng(1)
    X = patterns(rng)
    n, k = X.shape
    beta = 0.5
    energy = gfy.Hopfield(psi, beta)
    problem = gfy.InnerProblem(energy, gfy.SquaredNorm(), REALS)

    def once(query: np.ndarray) -> np.ndarray:
        v = gfy.Hopfield.Input(put(backend, np.zeros_like(query)), put(backend, X))
        return out(backend, gfy.retrieve(problem, v, put(backend, query)).p)

    radius = out(backend, energy.retrieval_radius(gfy.Hopfield.Input(put(backend, X[0]), put(backend, X))))
    others = [[j for j in range(n) if j != i] for i in range(n)]
    by_hand = [
        min(((X[i] - X[j]) @ X[i] - margin / beta) / np.linalg.norm(X[i] - X[j]) for j in others[i])
        for i in range(n)
    ]
    np.testing.assert_allclose(radius, by_hand, rtol=1e-12)
    assert (radius > 0.5).all()
    noise = rng.normal(size=(200, n, k))
    noise *= 0.999 * radius[:, None] / np.linalg.norm(noise, axis=-1, keepdims=True)
    got = once((X + noise).reshape(-1, k)).reshape(200, n, k)
    assert np.array_equal(got, np.broadcast_to(X, got.shape))  # exactly: not a digit is off
    # towards the pattern that binds, a step beyond the radius mixes in some of it
    for i in range(n):
        j = min(others[i], key=lambda j: ((X[i] - X[j]) @ X[i] - margin / beta) / np.linalg.norm(X[i] - X[j]))
        towards = (X[j] - X[i]) / np.linalg.norm(X[j] - X[i])
        assert not np.array_equal(once((X[i] + 1.01 * radius[i] * towards)[None])[0], X[i])


def test_softmax_weights_never_retrieve_exactly(backend: str) -> None:
    X = patterns(np.random.default_rng(1))
    energy = gfy.Hopfield(gfy.Shannon(), 0.5)
    v = gfy.Hopfield.Input(put(backend, 0 * X), put(backend, X))
    assert (out(backend, energy.retrieval_radius(v)) == -np.inf).all()
    problem = gfy.InnerProblem(energy, gfy.SquaredNorm(), REALS)
    off = np.abs(out(backend, gfy.retrieve(problem, v, put(backend, X)).p) - X).max(-1)
    assert ((off > 1e-6) & (off < 0.2)).all()


def test_a_retrieval_can_be_differentiated() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    problem = gfy.InnerProblem(gfy.Hopfield(gfy.Shannon(), 1.3), gfy.SquaredNorm(), REALS)
    X, q = (torch.tensor(rng.normal(size=s), requires_grad=True) for s in ((5, 4), (3, 4)))
    assert torch.autograd.gradcheck(
        lambda X, q: gfy.retrieve(problem, gfy.Hopfield.Input(torch.zeros_like(q), X), q, steps=2).p, (X, q)
    )


def test_wrong_calls_are_answered_with_a_sentence() -> None:
    torch = pytest.importorskip("torch")
    X = torch.ones(3, 4, dtype=torch.float64)
    problem = gfy.InnerProblem(gfy.Hopfield(), gfy.SquaredNorm(), REALS)
    v = gfy.Hopfield.Input(torch.zeros(2, 4, dtype=torch.float64), X)
    with pytest.raises(GfyValueError, match="steps must be at least 1"):
        gfy.retrieve(problem, v, v.u, steps=0)
    with pytest.raises(GfyValueError, match="shape of p"):
        gfy.retrieve(problem, v, X)
    with pytest.raises(GfyValueError, match="beta must be a finite number > 0"):
        gfy.Hopfield(beta=0.0)
    with pytest.raises(GfyTypeError, match="association must be a regularizer"):
        gfy.Hopfield("gini")  # type: ignore[arg-type]
    with pytest.raises(GfyValueError, match="argmax map on the simplex"):
        gfy.Hopfield(gfy.ChainEntropy(gfy.Chain(2, 2)))
    concave = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    with pytest.raises(UnsupportedError, match="convex in p"):
        gfy.retrieve(concave, gfy.Pairwise.Input(v.u, X.T), v.u)
