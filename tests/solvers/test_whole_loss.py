"""The Fenchel-Young loss of eager torch tensors in one compiled call, against SciPy and central differences."""

from __future__ import annotations

import pickle
import sys
import warnings
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

import gfy
import solvers
from gfy.numerics import native

torch = pytest.importorskip("torch")
if not native.installed():
    pytest.skip("numba is not installed: no loss is compiled", allow_module_level=True)

K, BATCH = 4, 3
TERMS = {
    "quadratic": lambda p, c: c / 2 * p @ p,
    "binary": lambda p, c: c * sum(x * np.log(x) for x in (*p, *(1 - p)) if x > 0),
    "shannon": lambda p, c: c * sum(x * np.log(x) for x in p if x > 0),
}
CASES = {
    "gini-box": (gfy.BinaryGini(), gfy.Box(0.0, 1.0), lambda p: p @ (p - 1), None),
    "norm-box": (gfy.SquaredNorm(0.7), gfy.Box(-1.0, 2.0), lambda p: 0.35 * p @ p, None),
    "shannon-box": (gfy.BinaryShannon(0.5), gfy.Box(0.0, 1.0), lambda p: TERMS["binary"](p, 0.5), None),
    "gini-simplex": (gfy.Gini(), gfy.Simplex(), lambda p: 0.5 * p @ (p - 1), 1.0),
    "shannon-simplex": (gfy.Shannon(0.8), gfy.Simplex(), lambda p: TERMS["shannon"](p, 0.8), 1.0),
    "norm-capped": (gfy.SquaredNorm(), gfy.CappedSimplex(2), lambda p: 0.5 * p @ p, 2.0),
}
ENERGIES = ("linear", "dense", "rank 1", "rank 2")


def inputs(energy: str, seed: int = 0) -> tuple[gfy.Energy, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    u, A = rng.normal(size=(BATCH, K)), rng.normal(size=(BATCH, K, 2))
    if energy == "linear":
        return gfy.Bilinear(), [u]
    if energy == "dense":
        return gfy.LinearQuadratic(), [u, -A @ A.swapaxes(1, 2)]
    return gfy.Pairwise(), [u, A[..., : int(energy[-1])]]


def targets(total: float | None) -> np.ndarray:
    y = np.zeros((BATCH, K))
    for row in range(BATCH):
        y[row, row : row + int(total or 2)] = 1.0
    return y


def reference(energy: str, leaves: list[np.ndarray], y: np.ndarray, case: str) -> float:
    """The loss of one example by SciPy, which knows nothing of this library."""
    _, domain, omega, total = CASES[case]
    low, high = (-1.0, 2.0) if case == "norm-box" else (0.0, 1.0)

    def value(p: np.ndarray) -> float:
        found = leaves[0] @ p
        if energy == "dense":
            found += 0.5 * p @ leaves[1] @ p
        elif energy != "linear":
            found -= 0.5 * ((leaves[1].T @ p) ** 2).sum()
        return found - omega(np.clip(p, low, high))

    held = [] if total is None else [{"type": "eq", "fun": lambda p: p.sum() - total}]
    start = np.full(K, 0.5 if total is None else total / K)
    found = minimize(lambda p: -value(p), start, bounds=[(low, high)] * K, constraints=held, method="SLSQP",
                     options={"ftol": 1e-14, "maxiter": 500})  # fmt: skip
    return value(np.clip(found.x, low, high)) - value(y)


def as_input(energy: gfy.Energy, leaves: list[np.ndarray], dtype=torch.float64, grad: bool = True):
    return type(energy).Input(*(torch.tensor(x, dtype=dtype, requires_grad=grad) for x in leaves))


def compiled_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a loss that is not computed in one call fail."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the loss was computed step by step")

    monkeypatch.setattr(gfy.losses.Loss, "_step_by_step", refuse)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("energy", "case"), list(product(ENERGIES, CASES)))
def test_value_and_gradient_are_those_of_scipy(
    energy: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_only(monkeypatch)
    omega, domain, _, total = CASES[case]
    phi, leaves = inputs(energy)
    y = targets(total)
    v = as_input(phi, leaves)
    loss = gfy.FenchelYoungLoss(gfy.InnerProblem(phi, omega, domain), reduction="sum")(v, torch.tensor(y))
    expected = sum(reference(energy, [x[i] for x in leaves], y[i], case) for i in range(BATCH))
    assert loss.item() == pytest.approx(expected, abs=2e-6)
    grads = torch.autograd.grad(loss, list(v))
    rng = np.random.default_rng(1)
    for at, grad in enumerate(grads):
        way = rng.normal(size=leaves[at].shape)
        if energy == "dense" and at == 1:
            way = way + way.swapaxes(1, 2)
        step = 1e-4

        def moved(sign: int, at: int = at, way: np.ndarray = way, step: float = step) -> float:
            some = [x + sign * step * way if n == at else x for n, x in enumerate(leaves)]
            return sum(reference(energy, [x[i] for x in some], y[i], case) for i in range(BATCH))

        slope = (moved(1) - moved(-1)) / (2 * step)
        assert float((grad.numpy() * way).sum()) == pytest.approx(slope, rel=1e-3, abs=2e-4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reductions_and_dtypes(reduction: str, dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    phi, leaves = inputs("rank 2")
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss, y = gfy.FenchelYoungLoss(problem, reduction=reduction), torch.tensor(targets(None), dtype=dtype)
    v = as_input(phi, leaves, dtype)
    slow, expected = loss._step_by_step(v, y, return_solution=True)
    compiled_only(monkeypatch)
    quick, found = loss(v, y, return_solution=True)
    assert bool(found.converged.all())
    torch.testing.assert_close(found.p, expected.p)
    torch.testing.assert_close(found.result, expected.result)
    weight = torch.rand_like(quick)
    assert quick.dtype == dtype
    assert quick.shape == slow.shape
    close = {
        "rtol": 1e-5 if dtype == torch.float32 else 1e-12,
        "atol": 1e-6 if dtype == torch.float32 else 1e-12,
    }
    torch.testing.assert_close(quick, slow, **close)
    for a, b in zip(
        torch.autograd.grad(quick, list(v), weight), torch.autograd.grad(slow, list(v), weight), strict=True
    ):
        torch.testing.assert_close(a, b, **close)


def test_a_gradient_is_differentiated_in_its_cotangent_and_refused_in_v(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gradient in A is y (A^T y)^T - p (A^T p)^T; its derivative in A would lack the part of dp*/dA."""
    compiled_only(monkeypatch)
    phi, leaves = inputs("rank 1")
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v, y = as_input(phi, leaves), torch.tensor(targets(None))
    p = gfy.argmax(problem, as_input(phi, leaves, grad=False))
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    value = scale * gfy.FenchelYoungLoss(problem, reduction="sum")(v, y)
    (grad,) = torch.autograd.grad(value, v.A, create_graph=True)
    way = torch.randn_like(grad)
    (found,) = torch.autograd.grad((grad * way).sum(), scale, retain_graph=True)
    A = v.A.detach()
    truth = y[:, :, None] * (y[:, None] @ A) - p[:, :, None] * (p[:, None] @ A)
    torch.testing.assert_close(found, (truth * way).sum())
    with pytest.raises(gfy.UnsupportedError, match="first derivatives only"):
        torch.autograd.grad((grad * way).sum(), v.A)


def bad_target(v, y):
    return v, y + 1.5


def bad_score(v, y):
    return v._replace(u=torch.where(y > 0, float("nan"), v.u)), y


def bad_matrix(v, y):
    return v._replace(U=-v.U.detach()), y


def lopsided(v, y):
    return v._replace(U=v.U + torch.triu(torch.ones(K, K, dtype=v.U.dtype), 1)), y


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (bad_target, "lies outside"),
        (bad_score, "NaN or infinite"),
        (bad_matrix, "semi-definite"),
        (lopsided, "symmetric"),
    ],
)
def test_what_is_wrong_in_a_later_call_gets_its_sentence(spoil, sentence: str) -> None:
    phi, leaves = inputs("dense")
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss, v, y = gfy.FenchelYoungLoss(problem), as_input(phi, leaves), torch.tensor(targets(None))
    loss(v, y)  # shapes, dtypes and devices are known from here on
    with pytest.raises(gfy.GfyValueError, match=sentence):
        loss(*spoil(v, y))


@pytest.mark.parametrize(
    ("solver", "energy"), [("DualNewton", "rank 2"), ("ActiveSet", "dense"), ("ClosedForm", "linear")]
)
def test_a_solver_that_is_named_is_one_call_too(
    solver: str, energy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    phi, leaves = inputs(energy)
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v, y = as_input(phi, leaves), torch.tensor(targets(None))
    expected = gfy.FenchelYoungLoss(problem, solver=solver)._step_by_step(v, y)
    compiled_only(monkeypatch)
    torch.testing.assert_close(gfy.FenchelYoungLoss(problem, solver=solver)(v, y), expected)


def test_a_solver_that_does_not_serve_is_refused_at_shapes_that_another_one_served() -> None:
    _, leaves = inputs("rank 1")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = gfy.Pairwise.Input(*map(torch.as_tensor, leaves))
    refused = solvers.ClosedForm()
    y = torch.as_tensor(targets(None))
    gfy.argmax(problem, v)
    gfy.FenchelYoungLoss(problem)(v, y)
    with pytest.raises(gfy.UnsupportedError, match="ClosedForm"):
        gfy.argmax(problem, v, solver=refused)
    with pytest.raises(gfy.UnsupportedError, match="ClosedForm"):
        refused.solve(problem, v)
    with pytest.raises(gfy.UnsupportedError, match="ClosedForm"):
        gfy.FenchelYoungLoss(problem, solver=refused)(v, y)


def test_an_unsolved_example_is_told() -> None:
    phi, leaves = inputs("dense")
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss = gfy.FenchelYoungLoss(problem, solver="ActiveSet", stop=gfy.Stop(tol=0.0, max_steps=1))
    gfy.calling.telling.forget_warnings()
    with pytest.warns(gfy.UnsolvedWarning):
        loss(as_input(phi, leaves), torch.tensor(targets(None)))


def test_other_ways_of_calling_are_right() -> None:
    """Shared and turned matrices, integers, starts and a pickled loss all give the same numbers."""
    phi, leaves = inputs("rank 1")
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss, y = gfy.FenchelYoungLoss(problem), torch.tensor(targets(None))
    v = as_input(phi, leaves, grad=False)
    expected = loss(v, y)
    torch.testing.assert_close(pickle.loads(pickle.dumps(loss))(v, y), expected)
    torch.testing.assert_close(loss(v, y.int()), expected)
    torch.testing.assert_close(loss(v, y, torch.full_like(v.u, 0.3)), expected)
    torch.testing.assert_close(loss(v._replace(A=v.A.mT.contiguous().mT), y), expected)
    shared = loss(v._replace(A=v.A[0]), y)
    torch.testing.assert_close(shared[0], expected[0])
    with pytest.raises(gfy.GfyValueError, match="p0"):
        loss(v, y, torch.full_like(v.u, float("nan")))


def test_the_argmax_without_a_mode_is_one_call_and_tells_of_a_dropped_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phi, leaves = inputs("dense")
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = as_input(phi, leaves, grad=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = gfy.argmax(problem, v)
    assert float(gfy.certify(problem, v, p).gap.max()) <= 1e-12
    gfy.calling.telling.forget_warnings()
    solved_again: list[object] = []
    monkeypatch.setattr(sys.modules["gfy.conjugate"], "solve_given", solved_again.append)
    with pytest.warns(gfy.GradientDroppedWarning):
        p = gfy.argmax(problem, as_input(phi, leaves))
    monkeypatch.undo()
    assert not p.requires_grad
    with pytest.raises(gfy.GfyValueError, match="semi-definite"):
        gfy.argmax(problem, v._replace(U=-v.U))


def test_memory_that_changed_before_the_backward_pass_is_noticed() -> None:
    phi, leaves = inputs("rank 1")
    problem = gfy.InnerProblem(phi, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v, y = as_input(phi, leaves), torch.tensor(targets(None))
    loss = gfy.FenchelYoungLoss(problem, reduction="sum")(v, y)
    y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
