"""All five linear solves of implicit differentiation on all sets, against central differences of exact maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import exact
import numpy as np
import pytest

import gfy
from gfy.gradients import linear

pytestmark = pytest.mark.thin(3)  # compiling for JAX takes most of the time

Make = Callable[..., Any]
K, M, BATCH = 4, 2, 3
GAMMA = 0.7
POINTS = np.random.default_rng(5).uniform(0.0, 1.0, size=(6, K))
LOW = np.linspace(0.05, 0.2, K)
METHODS = ("auto", "dense", "cg", "gmres", "neumann")
SETS: dict[str, tuple[gfy.ConvexSet, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "reals": (gfy.Reals(), lambda u, M: np.linalg.solve(M, u)),
    "box": (gfy.Box(0.0, 1.0), lambda u, M: exact.band(u, M, np.zeros(K), np.ones(K))),
    "uneven box": (gfy.Box(LOW, LOW + 0.5), lambda u, M: exact.band(u, M, LOW, LOW + 0.5)),
    "simplex": (gfy.Simplex(), lambda u, M: exact.band(u, M, np.zeros(K), np.ones(K), 1.0)),
    "capped": (gfy.CappedSimplex(2.5), lambda u, M: exact.band(u, M, np.zeros(K), np.ones(K), 2.5)),
    "capped whole": (gfy.CappedSimplex(2), lambda u, M: exact.band(u, M, np.zeros(K), np.ones(K), 2.0)),
    "ball": (gfy.Ball(0.9), lambda u, M: exact.ball(u, M, 0.9)),
    "hull": (gfy.ConvexHull(POINTS), lambda u, M: exact.hull(u, M, POINTS)),
    "birkhoff": (gfy.Birkhoff(), exact.doubly_stochastic),
}


def _answer(name: str, u: np.ndarray, A: np.ndarray) -> np.ndarray:
    return np.stack([SETS[name][1](row, A @ A.T + GAMMA * np.eye(K)) for row in u])


def _data(seed: int, k: int) -> tuple[np.ndarray, ...]:
    """u [batch, k], A [k, m] shared by the batch, weights of the loss, and a direction for u and for A."""
    rng = np.random.default_rng(seed)
    shapes = ((BATCH, k), (k, M), (BATCH, k), (BATCH, k), (k, M))
    return tuple(rng.normal(size=shape) for shape in shapes)


@pytest.mark.parametrize("name", SETS)
def test_every_linear_solve_agrees_with_central_differences(name: str) -> None:
    torch = pytest.importorskip("torch")
    for seed in (101, 102):
        u, A, weights, along_u, along_A = _data(seed, K)
        ends = [_answer(name, u + h * along_u, A + h * along_A) for h in (1e-6, -1e-6)]
        wanted = (weights * (ends[0] - ends[1])).sum() / 2e-6
        problem = gfy.InnerProblem(gfy.Pairwise(), gfy.SquaredNorm(GAMMA), SETS[name][0])
        for method in METHODS:
            leaves = [torch.tensor(x, requires_grad=True) for x in (u, A)]
            mode = gfy.Implicit(method, tol=1e-11)
            p = mode.attach(problem, gfy.Pairwise.Input(*leaves), torch.tensor(_answer(name, u, A)))
            found = torch.autograd.grad((p * torch.tensor(weights)).sum(), leaves)
            got = (found[0].numpy() * along_u).sum() + (found[1].numpy() * along_A).sum()
            assert got == pytest.approx(wanted, abs=1e-6), (method, seed)


@pytest.mark.thin(3)
@pytest.mark.parametrize("method", ["cg", "neumann"])
def test_a_part_that_the_jacobian_ignores_leaves_no_noise_behind(asarray: Make, method: str) -> None:
    """Two free labels on the simplex: J has rank 1, and most of every right-hand side is invisible to it."""
    k = 6
    rng = np.random.default_rng(2)
    A, u, weights = rng.normal(size=(k, 2)), rng.normal(size=(3, k))[2:], rng.normal(size=(3, k))[2:]
    free = np.array([1, 2])
    along = np.eye(k)[:, free[:1]] - np.eye(k)[:, free[1:]]
    hessian = A @ A.T + GAMMA * np.eye(k)
    inner = along @ np.linalg.inv(along.T @ hessian @ along) @ along.T
    base = np.eye(k)[free[0]]
    solved = (base + inner @ (u[0] - hessian @ base))[None]
    slope = u[0] - hessian @ solved[0]  # equal on the two free labels, smaller elsewhere: this is the maximum
    assert solved.min() >= 0
    assert slope.max() == pytest.approx(slope[free].min())
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.SquaredNorm(GAMMA), gfy.Simplex())
    mode, constant = gfy.Implicit(method, tol=1e-10), asarray(solved)

    def loss(v: Any) -> Any:
        return (mode.attach(problem, v, constant) * asarray(weights)).sum()

    v = gfy.Pairwise.Input(asarray(u), asarray(A))
    backend = gfy.backend_of(v)
    found = backend.vjp(loss, v)[1](asarray(np.ones(())))[0].u
    np.testing.assert_allclose(backend.to_numpy(found), weights @ inner, atol=1e-8)


def test_conjugate_gradients_take_nothing_from_what_the_set_ignores() -> None:
    """J ignores b up to rounding, as on a simplex where all free labels have one cotangent: steps along it may grow."""
    rng = np.random.default_rng(0)
    n, k = 400, 5
    root = rng.normal(size=(n, k, k)).astype("float32")
    U = -root @ np.swapaxes(root, 1, 2)
    free = (rng.random((n, k)) > 0.3).astype("float32")
    free[:, 0] = 1

    def jacobian(x: np.ndarray) -> np.ndarray:
        mean = (free * x).sum(-1) / free.sum(-1)
        return free * (x - mean[:, None]) / np.float32(0.3)

    def hessian(x: np.ndarray) -> np.ndarray:
        return (U @ x[..., None])[..., 0]

    b = (rng.normal(size=(n, 1)) + (1 - free) * rng.normal(size=(n, k))).astype("float32")
    _, adjoint, _ = linear._conjugate_gradient(jacobian, hessian, 1e-6)
    with np.errstate(all="ignore"):
        assert np.abs(adjoint(b) - b).max() <= 1e-4
