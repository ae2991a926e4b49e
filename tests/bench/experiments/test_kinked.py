"""Steps on the multipliers of kinks, against problems solved by CVXPY and central differences of their maxima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import gfy  # noqa: E402
from bench.experiments.common.kinked import DualSteps, KinkedLoss, saddle_point  # noqa: E402
from gfy.errors import GfyValueError  # noqa: E402

CONCAVE = gfy.InnerProblem(gfy.ConcaveSpen(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))


def drawn(rng: np.random.Generator, examples: int = 6, k: int = 7, n: int = 4) -> dict[str, np.ndarray]:
    return {"u": rng.normal(size=(examples, k)), "W1": rng.normal(size=(n, k)), "b1": rng.normal(size=n),
            "W2": rng.normal(size=n), "b2": np.zeros(())}  # fmt: skip


def tensors(arrays: dict[str, np.ndarray], dtype: Any = torch.float64) -> Any:
    return gfy.ConcaveSpen.Input(*(torch.tensor(a, dtype=dtype, requires_grad=True) for a in arrays.values()))


def maximum(arrays: dict[str, np.ndarray]) -> float:
    """The sum over examples of max <u, p> - w relu(W1 p + b1) - <p, p - 1> over the box, by CVXPY."""
    cvxpy = pytest.importorskip("cvxpy", reason="CVXPY is not installed")
    p = cvxpy.Variable(arrays["u"].shape)
    hidden = cvxpy.pos(p @ arrays["W1"].T + arrays["b1"][None, :])
    value = cvxpy.sum(cvxpy.multiply(arrays["u"], p)) - cvxpy.sum(hidden @ np.log1p(np.exp(arrays["W2"])))
    value = value - cvxpy.sum_squares(p) + cvxpy.sum(p)
    told = cvxpy.Problem(cvxpy.Maximize(value), [p >= 0, p <= 1])
    return float(told.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11))


def test_the_derivative_is_that_of_the_maximum(rng: np.random.Generator) -> None:
    """p* lies on kinks here: relu's own slope, 0 or 1, would be wrong by far more than the tolerance."""
    arrays = drawn(rng)
    v = tensors(arrays)
    y = torch.tensor((rng.uniform(size=arrays["u"].shape) > 0.5).astype(float))
    p, s = saddle_point(CONCAVE, v, 2000)
    a = v.W1 @ p[..., None]
    on_kinks = ((a[..., 0] + v.b1).abs() < 1e-7).sum()
    assert on_kinks >= 3
    KinkedLoss(CONCAVE, 2000)(v, y).sum().backward()
    at_y = tensors(arrays)
    (-CONCAVE.energy.value(at_y, y)).sum().backward()
    for name, place in (("W1", (0, 2)), ("W1", (3, 5)), ("b1", (1,)), ("W2", (2,)), ("u", (1, 3))):
        up, down = ({**arrays, name: arrays[name].copy()} for _ in range(2))
        up[name][place] += 1e-4
        down[name][place] -= 1e-4
        slope = (maximum(up) - maximum(down)) / 2e-4
        found = getattr(v, name).grad[place] - getattr(at_y, name).grad[place]
        assert float(found) == pytest.approx(slope, abs=2e-4), (name, place)


def test_the_loss_bounds_the_exact_one_from_above_and_reaches_it(rng: np.random.Generator) -> None:
    arrays = drawn(rng)
    v = tensors(arrays)
    y = torch.tensor((rng.uniform(size=arrays["u"].shape) > 0.5).astype(float))
    at_y = (CONCAVE.regularizer.value(y) - CONCAVE.energy.value(v, y)).detach().sum()
    exact = maximum(arrays) + float(at_y)
    found = [float(KinkedLoss(CONCAVE, steps)(v, y).detach().sum()) for steps in (1, 4, 16, 64, 1000)]
    assert all(loss >= exact - 1e-7 for loss in found)
    assert found[0] - exact > 1e-3
    assert found[-1] == pytest.approx(exact, abs=1e-7)
    assert found[2] - exact < 0.02 * (found[0] - exact)


def test_a_spen_ends_at_a_local_maximum(rng: np.random.Generator) -> None:
    problem = gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    arrays = drawn(rng)
    v = gfy.Spen.Input(*(torch.tensor(a) for a in arrays.values()))  # W2 has both signs
    found = DualSteps().solve(problem, v, None, gfy.Stop(tol=1e-6, max_steps=2000))
    assert found.converged.all()
    value = problem.value(v, found.p)
    for _ in range(200):
        near = (found.p + 1e-3 * torch.tensor(rng.normal(size=found.p.shape))).clip(0.0, 1.0)
        assert (problem.value(v, near) <= value + 1e-6).all()


def test_jax_and_torch_take_the_same_steps(rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    arrays = drawn(rng)
    p, s = saddle_point(CONCAVE, tensors(arrays, torch.float32), 8)
    v = gfy.ConcaveSpen.Input(*(jax.numpy.asarray(a, jax.numpy.float32) for a in arrays.values()))
    for ours, theirs in zip(saddle_point(CONCAVE, v, 8), (p, s), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-5)


def test_energies_without_multipliers_are_refused() -> None:
    plain = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    assert "no kinks" in str(DualSteps().unsupported(plain))
    flat = gfy.InnerProblem(gfy.ConcaveSpen(), gfy.Zero(), gfy.Box(0.0, 1.0))
    assert "not strongly convex" in str(DualSteps().unsupported(flat))
    with pytest.raises(GfyValueError, match="no kinks"):
        saddle_point(plain, gfy.Pairwise.Input(torch.zeros(1, 3), torch.zeros(1, 3, 1)), 2)


@pytest.mark.slow
def test_the_solver_keeps_the_protocols_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    from solvers import conformance

    monkeypatch.setattr(conformance, "STOP", gfy.Stop(1e-8, 1000))  # it takes all the steps it is given
    rows = conformance.run(DualSteps(), "torch", conformance.cases())
    assert all(row.ok for row in rows), "\n".join(conformance.show(rows))
