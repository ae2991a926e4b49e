"""The permutahedron against scikit-learn's isotonic regression, CVXPY's lifted model, and brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import get_backend
from gfy.numerics import isotonic

K = 5
PROFILE = (2.5, 0.2, 1.0, 1.0, 0.7)
SETS = {"ranks": gfy.Permutahedron(), "profile": gfy.Permutahedron(PROFILE)}
Make = Callable[..., Any]


def lifted(objective: Any, w: np.ndarray) -> np.ndarray:
    """CVXPY's maximum of objective(p) over p = M w, M doubly stochastic."""
    cp = pytest.importorskip("cvxpy")
    M, p = cp.Variable((len(w), len(w)), nonneg=True), cp.Variable(len(w))
    sides = [cp.sum(M, axis=0) == 1, cp.sum(M, axis=1) == 1, p == M @ w]
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    cp.Problem(cp.Maximize(objective(p)), sides).solve(cp.CLARABEL, **tight)
    return np.asarray(p.value)


@pytest.mark.parametrize("name", SETS)
def test_projection_is_isotonic_regression(name: str, rng: np.random.Generator) -> None:
    isotonic_regression = pytest.importorskip("sklearn.isotonic").isotonic_regression
    for k, scale in ((K, 0.3), (K, 3.0), (K, 1e4), (1, 1.0), (60, 20.0)):
        domain = SETS[name] if k == K else gfy.Permutahedron(rng.normal(size=k))
        x = scale * rng.normal(size=(7, k))
        w, order = domain.profile(k), np.argsort(-x, axis=-1)
        s = np.take_along_axis(x, order, -1)
        expected = np.empty_like(x)
        pools = np.stack([isotonic_regression(row - w, increasing=False) for row in s])
        np.put_along_axis(expected, order, s - pools, -1)
        found = domain.project(x)
        np.testing.assert_allclose(found, expected, atol=1e-12 * (1 + scale))
        assert domain.violation(found).max() <= 1e-12 * (1 + scale) * k
        np.testing.assert_allclose(
            domain.project(x.astype(np.float32)), expected, atol=1e-5 * (1 + scale / 10)
        )


@pytest.mark.parametrize("name", SETS)
def test_both_projections_are_what_cvxpy_finds(name: str, rng: np.random.Generator) -> None:
    cp = pytest.importorskip("cvxpy")
    domain, w = SETS[name], SETS[name].profile(K)
    for scale in (0.4, 3.0):
        x = scale * rng.normal(size=K)
        euclidean = lifted(lambda p, x=x: -0.5 * cp.sum_squares(p - x), w)
        np.testing.assert_allclose(domain.project(x), euclidean, atol=2e-6)
        entropic = lifted(lambda p, x=x: x @ p + cp.sum(cp.entr(p)), w)
        np.testing.assert_allclose(domain.entropic(x), entropic, atol=2e-5)
        np.testing.assert_allclose(gfy.Shannon(0.7).argmax(0.7 * x, domain), entropic, atol=2e-5)


def test_oracle_vertices_and_constants_by_brute_force(rng: np.random.Generator) -> None:
    for domain in SETS.values():
        every = np.array(list(itertools.permutations(domain.profile(K))))
        assert {tuple(v) for v in domain.vertices(K)} == {tuple(v) for v in every}
        scores = rng.normal(size=(6, K))
        np.testing.assert_allclose(domain.support(scores), (scores @ every.T).max(-1), rtol=1e-14)
        apart = np.linalg.norm(every[:, None] - every[None], axis=-1).max()
        assert domain.diameter(K) == pytest.approx(apart)
        assert domain.largest_norm(K) == pytest.approx(np.linalg.norm(every, axis=-1).max())
        assert domain.violation(every).max() < 1e-12
        inside = rng.dirichlet(np.ones(len(every)), size=4) @ every
        assert domain.violation(inside).max() < 1e-12
        assert domain.violation(inside + 0.01).min() > 0.009  # the sum is fixed
        outside = domain.center(np.zeros(K)) + 1.1 * (every - domain.center(np.zeros(K)))
        assert domain.violation(outside).min() > 0.01


def test_loop_without_numba_is_the_same(rng: np.random.Generator) -> None:
    s, w = -np.sort(-rng.normal(size=(20, 9)), axis=-1), np.sort(rng.uniform(size=9))[::-1]
    w[-1] = 0.0
    for entropic in (False, True):
        ours = isotonic.pooled(s, w, entropic)
        plain = [np.empty(s.shape), np.empty(s.shape, dtype=np.int64), np.empty(s.shape, dtype=np.int64)]
        isotonic._pool(s, w.copy(), entropic, *plain)
        for one, other in zip(ours, plain, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-14)
        np.testing.assert_allclose(ours[0].sum(-1), w.sum(), rtol=1e-12)


@pytest.mark.parametrize("which", ["project", "entropic"])
def test_derivatives_are_those_of_differences(
    which: str, backend: str, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    """Forwards (in JAX: torch.func.jvp passes no host calls), backwards and twice, against central differences."""
    domain, ops = SETS["profile"], get_backend(backend)
    x, d, c = 1.2 * rng.normal(size=(2, K)), rng.normal(size=(2, K)), rng.normal(size=(2, K))
    step = 1e-5
    value = getattr(domain, which)
    wanted = (value(x + step * d) - value(x - step * d)) / (2 * step)
    if backend == "jax":
        _, forwards = ops.jvp(value, (asarray(x),), (asarray(d),))
        np.testing.assert_allclose(tonumpy(forwards), wanted, atol=1e-8)
    _, pullback = ops.vjp(value, asarray(x))
    np.testing.assert_allclose(tonumpy(pullback(asarray(d))[0]), wanted, atol=1e-8)  # symmetric

    def slope(y: np.ndarray) -> np.ndarray:
        return np.asarray((value(y + step * c) - value(y - step * c)) / (2 * step))

    second = ops.hessian_product(lambda y: (value(y) * asarray(c)).sum(-1), asarray(x), asarray(d))
    by_difference = (slope(x + 1e-4 * d) - slope(x - 1e-4 * d)) / 2e-4
    np.testing.assert_allclose(tonumpy(second), by_difference, atol=1e-5)


@pytest.mark.parametrize("solver", ["Auto", "ProjectedGradient", "DualNewton", "FrankWolfe"])
@pytest.mark.parametrize("omega", [gfy.SquaredNorm(0.8), gfy.Shannon(0.9)], ids=lambda o: o.name)
def test_solvers_and_their_certificates(
    solver: str, omega: Any, backend: str, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    """p* of CVXPY; the certified gap is at least the true one, at p* and away from it."""
    cp = pytest.importorskip("cvxpy")
    if backend == "jax" and (solver != "DualNewton" or omega.name != "SquaredNorm"):
        pytest.skip("one case is compiled")
    domain = SETS["profile"]
    u, A = rng.normal(size=K), 0.6 * rng.normal(size=(K, 2))
    problem = gfy.InnerProblem(gfy.Pairwise(), omega, domain)

    def objective(p: Any) -> Any:
        quadratic = 0.4 * cp.sum_squares(p)
        own = quadratic if omega.name == "SquaredNorm" else -0.9 * cp.sum(cp.entr(p))
        return u @ p - 0.5 * cp.sum_squares(A.T @ p) - own

    best = lifted(objective, domain.profile(K))
    v, host = (gfy.Pairwise.Input(u=f(u[None]), A=f(A[None])) for f in (asarray, np.asarray))
    found = tonumpy(getattr(solvers, solver)().solve(problem, v, stop=gfy.Stop(1e-9, 5_000)).p)
    np.testing.assert_allclose(found[0], best, atol=3e-5)
    assert gfy.certify(problem, host, found).gap.max() < 1e-7
    for away in domain.project(best + 0.3 * rng.normal(size=(3, 1, K))):
        short = problem.value(host, domain.project(best[None])) - problem.value(host, away)
        assert (gfy.certify(problem, host, away).gap >= short - 1e-12).all()


def test_gradient_of_a_ranking(asarray: Make, tonumpy: Make, backend: str, rng: np.random.Generator) -> None:
    """The implicit derivative of p* with interactions, against central differences of tight solves."""
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.SquaredNorm(), SETS["ranks"])
    u, A, c = 2 * rng.normal(size=K), 0.5 * rng.normal(size=(K, 1)), rng.normal(size=K)

    def best(u: Any, how: Any = asarray) -> Any:
        v = gfy.Pairwise.Input(u=u, A=how(A))
        return gfy.argmax(problem, v, solver=solvers.DualNewton(), gradient=gfy.Implicit())

    _, pullback = get_backend(backend).vjp(best, asarray(u))
    step = 1e-5
    wanted = [
        c @ tonumpy(best(asarray(u + step * e)) - best(asarray(u - step * e))) / (2 * step) for e in np.eye(K)
    ]
    np.testing.assert_allclose(tonumpy(pullback(asarray(c))[0]), wanted, atol=1e-7)


def test_bad_arguments_get_a_sentence() -> None:
    for w in (3.0, (1.0, np.inf), np.ones((2, 2)), "abc"):
        with pytest.raises(gfy.GfyValueError, match="Permutahedron.w must be"):
            gfy.Permutahedron(w)
    with pytest.raises(gfy.GfyValueError, match="has 5 numbers but p has 4"):
        SETS["profile"].project(np.zeros(4))
    with pytest.raises(gfy.UnsupportedError, match="is defined for"):
        gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Permutahedron((-1.0, 1.0)))
    with pytest.raises(gfy.UnsupportedError, match="listed up to"):
        gfy.Permutahedron().vertices(9)
