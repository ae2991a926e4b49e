"""The compiled dp*/dv against NumPy's formula and differences of enumerated solutions, in every way it is called.

The references are outside the library: the free coordinates' system written out in NumPy, and the solutions of small
problems found by trying every set of active bounds.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import get_backend
from solvers.kernels.response import ByFramework, response
from tests.solvers.test_kernels import KINDS, NAMES, dense, place

pytest.importorskip("numba")

STOP = gfy.Stop(tol=1e-13, max_steps=500)
FRAMEWORKS = ("jax", "torch")


def low_rank(seed: int, m: int, batch: int = 5, k: int = 6) -> Any:
    rng = np.random.default_rng(seed)
    return gfy.Pairwise.Input(2 * rng.normal(size=(batch, k)), rng.normal(size=(batch, k, m)) / np.sqrt(m))


def jacobian(problem: Any, p: np.ndarray) -> np.ndarray:
    """J = dp_Omega/dtheta of one example in NumPy, from p alone."""
    omega, domain = problem.regularizer, problem.domain
    low, high = (np.broadcast_to(b, p.shape) for b in domain.bounds(p))
    if omega.entropy is None:
        D = ((p > low) & (p < high)) / omega.curvature
    else:
        inside = p * (1 - p) if omega.entropy == "binary" else p
        D = np.where((p > low + 1e-12) & (p < high - 1e-12), inside, 0.0) / omega.gamma
    J = np.diag(D)
    return J if domain.total is None else J - np.outer(D, D) / max(D.sum(), 1e-300)


def pulled(problem: Any, v: Any, c: np.ndarray, solver: Any) -> Any:
    """d<c, p*>/dv, every leaf in NumPy."""
    library = get_backend("torch" if type(v.u).__module__.startswith("torch") else "jax")
    weight = library.asarray(c, like=v.u)

    def total(v: Any) -> Any:
        p = gfy.argmax(problem, v, solver=solver, gradient=gfy.Implicit(), stop=STOP)
        return (p * weight).sum()

    return type(v)(*(library.to_numpy(x) for x in library.value_and_grad(total)(v)[1]))


# the framework makes no difference to the kernel: torch shows all kinds, JAX a few
CASES = [(n, thin, "torch") for n in range(len(KINDS)) for thin in (0, 1, 3)]
CASES += [(0, 0, "jax"), (5, 0, "jax"), (3, 3, "jax")]


@pytest.mark.parametrize(
    ("kind", "thin", "framework"), CASES, ids=[f"{NAMES[n]}-{thin}-{f}" for n, thin, f in CASES]
)
def test_it_is_the_formula(kind: int, thin: int, framework: str) -> None:
    omega, domain = KINDS[kind]
    given = low_rank(3, thin) if thin else dense(3)
    energy = gfy.Pairwise() if thin else gfy.LinearQuadratic()
    problem, v = gfy.InnerProblem(energy, omega, domain), place(given, framework)
    solver = solvers.DualNewton() if thin else solvers.ActiveSet()
    found = solver.solve(problem, v, None, STOP)
    p = np.asarray(found.p)
    assert solver.response(problem, v, found.p) is not None
    c = np.random.default_rng(1).normal(size=p.shape)
    gradient = pulled(problem, v, c, solver)
    for n in range(len(p)):
        H = -given.A[n] @ given.A[n].T if thin else given.U[n]
        J = jacobian(problem, p[n])
        z = np.linalg.solve(np.eye(len(H)) - J @ H, J @ c[n])
        np.testing.assert_allclose(gradient.u[n], z, atol=1e-9 * max(1, np.abs(z).max()))
        pairs = -np.outer(z, p[n] @ given.A[n]) - np.outer(p[n], z @ given.A[n]) if thin else None
        whole = np.outer(z, p[n]) if pairs is None else pairs
        np.testing.assert_allclose(gradient[1][n], whole, atol=1e-9 * max(1, np.abs(whole).max()))


def enumerated(u: np.ndarray, U: np.ndarray, c: float, total: float | None) -> np.ndarray:
    """argmax <u, p> + 1/2 <p, U p> - c/2 |p|^2 on [0, 1]^k by trying every set of active bounds."""
    k, best, chosen = len(u), -np.inf, None
    for state in product((0.0, 1.0, None), repeat=k):
        free = np.array([s is None for s in state])
        p = np.array([0.0 if s is None else s for s in state])
        M, r = c * np.eye(k) - U, u + U @ p - c * p
        n = int(free.sum())
        if n:
            system = M[np.ix_(free, free)]
            right = r[free]
            if total is not None:
                system = np.block([[system, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
                right = np.append(right, total - p.sum())
            p[free] = np.linalg.solve(system, right)[:n]
        if (p < -1e-12).any() or (p > 1 + 1e-12).any() or (total is not None and abs(p.sum() - total) > 1e-9):
            continue
        value = u @ p + 0.5 * p @ U @ p - 0.5 * c * p @ p
        if value > best:
            best, chosen = value, p
    assert chosen is not None
    return chosen


@pytest.mark.parametrize(
    ("omega", "domain"),
    [(gfy.SquaredNorm(0.4), gfy.Box(0.0, 1.0)), (gfy.SquaredNorm(0.4), gfy.Simplex()),
     (gfy.SquaredNorm(0.4), gfy.CappedSimplex(2))],
    ids=["box", "simplex", "capped"],
)  # fmt: skip
def test_differences_of_enumerated_solutions(omega: Any, domain: Any) -> None:
    """Central differences of p*, which no solver of this library takes part in."""
    given, h = dense(8, batch=2, k=4), 1e-5
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), omega, domain)
    rng = np.random.default_rng(0)
    c, du = rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    dU = rng.normal(size=(2, 4, 4))
    dU = dU + np.swapaxes(dU, -1, -2)
    gradient = pulled(problem, place(given, "torch"), c, solvers.Auto())
    for n in range(2):
        ends = [
            enumerated(given.u[n] + s * h * du[n], given.U[n] + s * h * dU[n], 0.4, domain.total)
            for s in (1, -1)
        ]
        slope = c[n] @ (ends[0] - ends[1]) / (2 * h)
        ours = (gradient.u[n] * du[n]).sum() + (gradient.U[n] * dU[n]).sum()
        assert ours == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("thin", [False, True])
def test_jax_differentiates_it_in_every_way(thin: bool) -> None:
    import jax
    import jax.numpy as jnp

    given = low_rank(4, 2, batch=3, k=4) if thin else dense(4, batch=3, k=4)
    energy = gfy.Pairwise() if thin else gfy.LinearQuadratic()
    problem = gfy.InnerProblem(energy, gfy.BinaryShannon(), gfy.Box(0.0, 1.0))
    v = place(given, "jax")
    c = jnp.asarray(np.random.default_rng(2).normal(size=v.u.shape))

    def total(u: Any) -> Any:
        p = gfy.argmax(problem, v._replace(u=u), gradient=gfy.Implicit(), stop=STOP)
        return (c * p**2).sum()

    backward = jax.jit(jax.grad(total))(v.u)
    tangent = jnp.asarray(np.random.default_rng(3).normal(size=v.u.shape))
    forward = jax.jvp(total, (v.u,), (tangent,))[1]
    assert float(forward) == pytest.approx(float((backward * tangent).sum()), rel=1e-9)
    h = 1e-5
    difference = (total(v.u + h * tangent) - total(v.u - h * tangent)) / (2 * h)
    assert float(forward) == pytest.approx(float(difference), rel=1e-6)
    second = jax.jvp(jax.grad(total), (v.u,), (tangent,))[1]
    ends = [jax.grad(total)(v.u + s * h * tangent) for s in (1, -1)]
    np.testing.assert_allclose(second, (ends[0] - ends[1]) / (2 * h), atol=1e-6)
    solver = solvers.DualNewton() if thin else solvers.ActiveSet()

    def one(u: Any, matrix: Any, c: Any) -> Any:
        p = gfy.argmax(problem, type(v)(u, matrix), solver, gfy.Implicit(), stop=STOP)
        return (c * p**2).sum()

    mapped = jax.vmap(jax.grad(one))
    np.testing.assert_allclose(mapped(v.u, v[1], c), backward, atol=1e-10)


def test_torch_differentiates_it_in_every_way() -> None:
    import torch

    given = dense(5, batch=3, k=5)
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = place(given, "torch")

    def solved(u: Any) -> Any:
        return gfy.argmax(problem, v._replace(u=u), gradient=gfy.Implicit(), stop=STOP)

    rows = [torch.autograd.functional.jacobian(lambda u, n=n: solved(u)[n], v.u)[:, n] for n in range(3)]
    for n in range(3):
        J = jacobian(problem, solved(v.u)[n].numpy())
        exact = np.linalg.solve(np.eye(5) - J @ given.U[n], J)
        np.testing.assert_allclose(rows[n].numpy(), exact, atol=1e-10)
    from solvers.kernels import torch_call
    from solvers.kernels.response import _numbers

    facts = torch.tensor(_numbers(False, False, 1, "float64").tolist(), dtype=torch.float64)
    torch.library.opcheck(torch_call._response, (v.u, v.U, torch.ones_like(v.u), facts))


@pytest.mark.parametrize("thin", [False, True])
def test_a_loss_is_twice_differentiable_in_torch(thin: bool) -> None:
    """The derivative passes through the compiled answer a second time, by torch's own operations."""
    import torch

    given = low_rank(4, 2, batch=2, k=4) if thin else dense(4, batch=2, k=4)
    energy = gfy.Pairwise() if thin else gfy.LinearQuadratic()
    problem = gfy.InnerProblem(energy, gfy.BinaryShannon(), gfy.Box(0.0, 1.0))
    solver = solvers.DualNewton() if thin else solvers.ActiveSet()
    loss = gfy.FenchelYoungLoss(problem, solver, gfy.Implicit(), stop=STOP)
    v, rng = place(given, "torch"), np.random.default_rng(2)
    y, move = torch.tensor(rng.random((2, 4))), torch.tensor(rng.normal(size=(2, 4)))

    def first(u: Any) -> Any:
        return torch.autograd.grad(loss(v._replace(u=u), y).sum(), u, create_graph=True)[0]

    live = v.u.clone().requires_grad_()
    second = torch.autograd.grad((first(live) * move).sum(), live)[0]
    ends = [first((v.u + s * 1e-5 * move).requires_grad_()).detach() for s in (1, -1)]
    np.testing.assert_allclose(second, (ends[0] - ends[1]) / 2e-5, atol=1e-6)
    assert float(second.abs().max()) > 0.01


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("thin", [False, True])
def test_the_framework_says_the_same(framework: str, thin: bool) -> None:
    """What JAX lowers for a GPU, and the derivative of the operator itself."""
    library = get_backend(framework)
    rng = np.random.default_rng(6)
    matrix = low_rank(6, 3).A if thin else dense(6).U
    D = np.abs(rng.normal(size=(5, 6))) * (rng.random((5, 6)) > 0.3)
    r = rng.normal(size=(5, 6))
    for balanced in (False, True):
        H = -matrix @ np.swapaxes(matrix, -1, -2) if thin else matrix
        found = library.to_numpy(ByFramework(thin, balanced)(*(library.asarray(x) for x in (r, matrix, D))))
        for n in range(5):
            J = np.diag(D[n]) - (np.outer(D[n], D[n]) / D[n].sum() if balanced else 0.0)
            np.testing.assert_allclose(found[n], np.linalg.solve(np.eye(6) - J @ H[n], J @ r[n]), atol=1e-10)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_edges(framework: str) -> None:
    """Single precision, no examples, a NaN, matrices that the batch shares, more than one batch axis, threads."""
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    given = dense(9, batch=4, shared=True)
    c = np.random.default_rng(7).normal(size=(4, 6))
    exact = pulled(problem, place(given, framework), c, solvers.Auto())
    own = given._replace(U=np.broadcast_to(given.U, (4, 6, 6)))
    np.testing.assert_allclose(
        pulled(problem, place(own, framework), c, solvers.Auto()).u, exact.u, atol=1e-12
    )
    two = given._replace(u=given.u.reshape(2, 2, 6))
    found = pulled(problem, place(two, framework), c.reshape(2, 2, 6), solvers.Auto())
    np.testing.assert_allclose(found.u.reshape(4, 6), exact.u, atol=1e-12)
    np.testing.assert_allclose(found.U, exact.U, atol=1e-12)
    single = pulled(problem, place(given, framework, "float32"), c, solvers.Auto())
    assert single.u.dtype == np.float32
    np.testing.assert_allclose(single.u, exact.u, atol=1e-5)
    none = given._replace(u=given.u[:0])
    assert pulled(problem, place(none, framework), c[:0], solvers.Auto()).u.shape == (0, 6)
    broken = own._replace(u=own.u.copy())
    broken.u[1, 2] = np.nan
    library = get_backend(framework)
    v = place(broken, framework)
    p = solvers.Auto().solve(problem, v).p
    answer = response(problem, v, p)
    assert answer is not None
    z = library.to_numpy(answer(library.asarray(c, like=v.u)))
    np.testing.assert_allclose(z[[0, 2, 3]], exact.u[[0, 2, 3]], atol=1e-12)


def test_threads_answer_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from solvers.kernels import call

    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v, c = place(dense(11, batch=40, k=9), "torch"), np.random.default_rng(7).normal(size=(40, 9))
    found = []
    for threads in (1, 5):
        monkeypatch.setattr(call, "threads_for", lambda *_, n=threads: n)
        found.append(pulled(problem, v, c, solvers.ActiveSet()))
    np.testing.assert_array_equal(found[0].u, found[1].u)


def test_without_numba_the_framework_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    from gfy.numerics import native

    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v, c = place(dense(12), "torch"), np.random.default_rng(7).normal(size=(5, 6))
    compiled = pulled(problem, v, c, solvers.Auto())
    monkeypatch.setattr(native, "installed", lambda: False)
    assert response(problem, v, v.u) is None
    for one, other in zip(compiled, pulled(problem, v, c, solvers.Auto()), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
