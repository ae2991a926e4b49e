"""Rank 1: the p that is returned is the p that was evaluated, in single precision as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from gfy.numerics import native
from solvers.dual import many
from solvers.methods.newton_system import positive_solve

BOX = gfy.Box(0.0, 1.0)


def inputs(batch: int, size: float, backend: str, dtype: str) -> Any:
    rng = np.random.default_rng(0)
    v = problems.pairwise(rng, batch, 20, 1, scale=1.0)
    return problems.place(gfy.Pairwise.Input(v.u, size * v.A), backend, dtype)


def exact(u: np.ndarray, a: np.ndarray, gamma: float) -> float:
    """max <u, p> - <a, p>^2 / 2 - gamma <p, p - 1> on the box: the root t = <a, p(t)> by bisection, in float64."""
    low, high = -np.abs(a).sum(), np.abs(a).sum()
    for _ in range(200):
        t = (low + high) / 2
        p = np.clip((u - a * t + gamma) / (2 * gamma), 0, 1)
        low, high = (t, high) if t < a @ p else (low, t)
    ends = [np.clip((u - a * t + gamma) / (2 * gamma), 0, 1) for t in (low, high)]
    return max(float(u @ p - (a @ p) ** 2 / 2 - gamma * (p @ (p - 1))) for p in ends)


@pytest.fixture(params=[True, False], ids=["compiled", "framework"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code solves rank 1 where numba is installed, the framework's own steps elsewhere."""
    if request.param:
        pytest.importorskip("numba")
    monkeypatch.setattr(native, "installed", lambda: request.param)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(("dtype", "gamma", "size", "most"), [
    ("float32", 0.01, 3.0, 2e-6),
    ("float64", 1e-5, 30.0, 1e-9),
])  # fmt: skip
def test_what_is_called_converged_is(dtype: str, gamma: float, size: float, most: float) -> None:
    """Before, alone: `converged` at a suboptimality of 7e-4 (float32) and a relative gap of 5.6 (float64)."""
    pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(gamma), BOX)
    v = inputs(40, size, "torch", dtype)
    together = solvers.DualNewton().solve(problem, v)
    assert bool(together.converged.all())
    for n in range(0, 40, 3):
        one = gfy.Pairwise.Input(v.u[n], v.A[n])
        alone = solvers.DualNewton().solve(problem, one)
        assert bool(alone.converged)
        u, a = v.u[n].double().numpy(), v.A[n, :, 0].double().numpy()
        best = exact(u, a, gamma)
        for p in (alone.p, together.p[n]):
            q = p.double().numpy()
            value = u @ q - (a @ q) ** 2 / 2 - gamma * (q @ (q - 1))
            assert best - value <= most * max(1.0, abs(best))


@pytest.mark.usefixtures("path")
def test_the_error_is_that_of_the_answer(backend: str) -> None:
    """|t - <a, p>| at the returned p: the error reported is not that of another point."""
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(0.1), BOX)
    v = inputs(30, 1.0, backend, "float64")
    found = solvers.DualNewton().solve(problem, v, stop=gfy.Stop(1e-3, 50))
    certificate = gfy.certify(problem, v, found.p)
    a = np.asarray(gfy.get_backend(backend).to_numpy(v.A))[..., 0]
    error = np.asarray(gfy.get_backend(backend).to_numpy(found.error))
    assert (certificate.gap <= (a * a).sum(-1) * error**2 / (2 * 0.2) + 1e-12).all()


def perturbed(rng: np.random.Generator, H: Any) -> Any:
    """H as another processor might have summed it: some units in the last place, not symmetric."""
    noise = rng.integers(-2, 3, size=tuple(H.shape)) * np.finfo(np.float64).eps
    return H * (1 + gfy.backend_of(H).asarray(noise, like=H))


def test_directions_do_not_rest_on_one_processors_rounding(backend: str) -> None:
    """I + A^T J A with a row of 1e9: whatever its last digits are, the step is downhill and not too long."""
    rng = np.random.default_rng(0)
    A = np.abs(rng.normal(size=(50, 40, 3)))
    A[:, 0] *= 1e9
    H = problems.place(np.eye(3) + 0.5 * np.swapaxes(A, -1, -2) @ A, backend)
    for _ in range(20):
        F = problems.place(rng.normal(size=(50, 3)), backend)
        d = gfy.get_backend(backend).to_numpy(positive_solve(perturbed(rng, H), F))
        F = gfy.get_backend(backend).to_numpy(F)
        assert np.isfinite(d).all()
        assert ((d * F).sum(-1) > 0).all()
        assert (np.linalg.norm(d, axis=-1) <= np.linalg.norm(F, axis=-1)).all()


def test_large_rows_on_other_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As test_large_rows_leave_no_error_behind, with the Hessian's last digits at random."""
    pytest.importorskip("torch")
    monkeypatch.setattr(native, "installed", lambda: False)
    rng = np.random.default_rng(20220519)
    original = many._hessian
    monkeypatch.setattr(many, "_hessian", lambda *given: perturbed(rng, original(*given)))
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    for _ in range(5):
        v = problems.pairwise(rng, 50, 40, 3)
        v = gfy.Pairwise.Input(v.u, np.abs(v.A))
        v.A[:, 0] *= 1e9
        v.u[:, 0] = 0.0
        v = problems.place(v, "torch")
        found = solvers.DualNewton().solve(problem, v, stop=gfy.Stop(1e-9, 300))
        assert bool(found.converged.all())
        assert int(found.steps.max()) <= 10
        assert problems.relative_gap(problem, v, found.p).max() <= 1e-12
