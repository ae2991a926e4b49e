"""Losses of torch tensors that XLA computes: the same answers and derivatives, and only where they may."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.calling.staging import patience, portable

torch = pytest.importorskip("torch")
pytest.importorskip("jax")
from gfy.backend import torch_staged  # noqa: E402

PROBLEM = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
# projected gradients compile in a second; what is staged does not depend on the solver
LOSS = gfy.FenchelYoungLoss(PROBLEM, solver=solvers.ProjectedGradient("steady"), stop=gfy.Stop(1e-12, 5000))


@pytest.fixture(autouse=True)
def _keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is dropped for being slow on a busy machine."""
    monkeypatch.setattr(torch_staged, "_TRIALS", 10**9)


def inputs(rng: np.random.Generator, dtype: Any = torch.float64) -> tuple[Any, Any]:
    u, A = (torch.tensor(rng.normal(size=s), dtype=dtype, requires_grad=True) for s in ((5, 4), (4, 1)))
    y = torch.tensor(rng.integers(0, 2, size=(5, 4)), dtype=dtype)
    return gfy.Pairwise.Input(u, A), y  # A is shared by the batch


def staged_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    forward = torch_staged._Program.forward

    def counted(self: Any, flat: Any, *g: Any) -> Any:
        calls.append(len(flat))
        return forward(self, flat, *g)

    monkeypatch.setattr(torch_staged._Program, "forward", counted)
    return calls


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_staged_loss_has_the_values_and_derivatives_of_central_differences(
    dtype: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    v, y = inputs(rng, dtype)
    weights = torch.tensor(rng.normal(size=5), dtype=dtype)
    calls = staged_calls(monkeypatch)
    with gfy.staging(after=0.0):
        for _ in range(2):
            values, found = LOSS(v, y, return_solution=True)
        (values @ weights).backward()
    assert calls
    assert values.dtype == found.p.dtype == dtype
    assert not found.p.requires_grad
    assert bool(found.converged.all())

    def total(u: np.ndarray, A: np.ndarray) -> float:
        """The weighted loss, its inner problems solved by SciPy."""
        from scipy.optimize import minimize

        out = 0.0
        for i in range(5):
            H = np.outer(A[:, 0], A[:, 0])

            def minus(p: np.ndarray, i: int = i, H: np.ndarray = H) -> tuple[float, np.ndarray]:
                return (-(u[i] @ p) + p @ H @ p / 2 + p @ (p - 1), -u[i] + H @ p + 2 * p - 1)

            best = minimize(minus, np.full(4, 0.5), jac=True, bounds=[(0, 1)] * 4, method="L-BFGS-B",
                            options={"ftol": 1e-15, "gtol": 1e-12})  # fmt: skip
            target = y[i].numpy().astype(float)
            out += float(weights[i]) * (-best.fun + minus(target)[0])
        return out

    u, A = (x.detach().numpy().astype(float) for x in v)
    tight = 1e-6 if dtype == torch.float64 else 1e-3
    assert float((values @ weights).detach()) == pytest.approx(total(u, A), rel=tight, abs=tight)
    for leaf, at in ((v.u, (2, 1)), (v.A, (3, 0))):
        h = 1e-4
        move = [np.zeros_like(u), np.zeros_like(A)]
        move[0 if leaf is v.u else 1][at] = h
        slope = (total(u + move[0], A + move[1]) - total(u - move[0], A - move[1])) / (2 * h)
        assert float(leaf.grad[at]) == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_argmax_and_predictions_are_staged_too(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    v, _ = inputs(rng)
    settings: Any = {"solver": LOSS.solver, "stop": LOSS.stop}
    plain = v._replace(u=v.u.detach(), A=v.A.detach())
    with gfy.staging(None):
        expected = gfy.argmax(PROBLEM, plain, **settings)
        slope = torch.autograd.grad(gfy.conjugate(PROBLEM, v, **settings).sum(), v.A)[0]
    calls = staged_calls(monkeypatch)
    with gfy.staging(0.0):
        for _ in range(2):
            found = gfy.argmax(PROBLEM, plain, return_solution=True, **settings)
        first = len(calls)
        assert first in (2, 3), "compiled, then called: at once where another test has met the shape"
        predicted = LOSS.predict(v)
        value = gfy.conjugate(PROBLEM, v, **settings).sum()
        assert len(calls) == first + 2
    torch.testing.assert_close(found.p, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(predicted, expected, rtol=1e-9, atol=1e-10)
    assert not predicted.requires_grad
    assert bool(found.converged.all())
    torch.testing.assert_close(torch.autograd.grad(value, v.A)[0], slope, rtol=1e-8, atol=1e-9)


def test_the_gradient_of_a_mean_is_that_of_torch(rng: np.random.Generator) -> None:
    """One number as the cotangent of all examples takes another way than many numbers."""
    v, y = inputs(rng)
    found = []
    for after in (None, 0.0):
        with gfy.staging(after):
            LOSS(v, y)
            found.append(torch.autograd.grad(3 * LOSS(v, y).mean(), list(v)))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-10)


def test_energies_that_may_hold_a_function_are_staged_where_they_hold_none(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = gfy.InnerProblem(gfy.Metric(), gfy.SquaredNorm(0.1), gfy.Box(0.0, 1.0))
    v = torch.tensor(rng.uniform(size=(3, 4)), requires_grad=True)
    y, loss = torch.tensor(rng.uniform(size=(3, 4))), gfy.FenchelYoungLoss(problem)
    calls, found = staged_calls(monkeypatch), []
    for after in (None, 0.0):
        with gfy.staging(after):
            for _ in range(2):
                values = loss(gfy.Metric.Input(v), y)
            found.append((values.detach(), torch.autograd.grad(values.sum(), v)[0]))
    assert 2 in calls, "the loss of v and y is staged as a whole, and not its solve alone"
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-12)


def test_a_graph_that_is_kept_gives_a_gradient_of_its_own_each_time(rng: np.random.Generator) -> None:
    """The first gradient belongs to the caller, who may write to it."""
    v, y = inputs(rng)
    with gfy.staging(0.0):
        for _ in range(2):
            value = LOSS(v, y).sum()
        first = torch.autograd.grad(value, list(v), retain_graph=True)
        kept = [x.clone() for x in first]
        for x in first:
            x.zero_()
        for one, two in zip(torch.autograd.grad(value, list(v)), kept, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-14)


def test_small_answers_share_memory_with_each_other_and_not_with_large_ones() -> None:
    """A loss that is kept must not keep the gradient of a large U in memory."""

    def fn(x: Any) -> tuple[Any, Any]:
        rows = x.sum(-1)
        return rows, (rows > 0, x.reshape(-1)[:6].reshape(2, 3))

    measured, x = torch_staged.Measured(fn), torch.arange(6000.0, dtype=torch.float64).reshape(60, 100)
    with gfy.staging(0.0):
        for _ in range(2):
            given = x.clone().requires_grad_()
            values, (flags, part) = measured(given)
        (slope,) = torch.autograd.grad(values.sum(), [given])
    torch.testing.assert_close(values.detach(), x.sum(-1))
    assert flags.dtype == torch.bool
    assert flags.all()
    torch.testing.assert_close(part.detach(), x[0, :6].reshape(2, 3))
    torch.testing.assert_close(slope, torch.ones_like(x))
    assert part.data_ptr() == values.data_ptr() + values.nbytes, "one piece of memory holds the small ones"
    assert slope.data_ptr() != part.data_ptr() + part.nbytes, "and the large one has its own"


def test_second_derivatives_are_refused_and_written_inputs_told_as_in_torch(rng: np.random.Generator) -> None:
    v, y = inputs(rng)
    found = []
    for after in (None, 0.0):
        with gfy.staging(after):
            LOSS(v, y)
            (slope,) = torch.autograd.grad(LOSS(v, y).sum(), v.A, create_graph=True)
            found.append(slope.detach())
            with pytest.raises(gfy.UnsupportedError, match="first derivatives only"):
                torch.autograd.grad((slope * slope).sum(), v.A)
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-8)
    with gfy.staging(0.0):
        value = LOSS(v, y).sum()
        with torch.no_grad():
            v.A.mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.backward()


def test_what_may_not_be_staged_is_run_by_torch(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    v, y = inputs(rng)
    calls = staged_calls(monkeypatch)
    shared = v.A
    own = gfy.InnerProblem(
        gfy.CustomEnergy(lambda u, p: (u * p).sum(-1) - 0.5 * (p @ shared).square().sum(-1)),
        gfy.BinaryGini(), gfy.Box(0.0, 1.0),
    )  # fmt: skip
    cases: dict[str, Callable[[], Any]] = {
        "a function of one's own": lambda: gfy.FenchelYoungLoss(own)(v.u, y),
        "implicit": lambda: gfy.FenchelYoungLoss(PROBLEM, gradient="implicit")(v, y),
        "y wants a derivative": lambda: LOSS(v, (0.9 * y).requires_grad_()),
        "torch.func": lambda: torch.func.grad(lambda u: LOSS(v._replace(u=u), y).sum())(v.u),
        "inference": lambda: torch.inference_mode()(lambda: LOSS(v, y))(),
    }
    with gfy.staging(0.0):
        for name, case in cases.items():
            calls.clear()
            for _ in range(2):
                case()
            # where y wants a derivative the solve, of u and A alone, is staged and the loss is not
            assert set(calls) <= ({2} if name == "y wants a derivative" else set()), name
    calls.clear()
    with gfy.staging(None):
        LOSS(v, y)
        LOSS(v, y)
    assert not calls


def test_the_slower_way_is_dropped_and_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_staged, "_TRIALS", 2)
    monkeypatch.setattr(torch_staged, "_SHAPES", 3)
    now = [0.0]
    monkeypatch.setattr(torch_staged.time, "perf_counter", lambda: now[0])
    costs = {"numpy": 1.0, "jax": 5.0}

    def fn(x: Any) -> tuple[Any, None]:
        now[0] += costs["numpy"] if isinstance(x, torch.Tensor) else 0.0
        return 2 * x, None

    forward = torch_staged._Program.forward

    def slow(self: Any, flat: Any) -> Any:
        now[0] += costs["jax"]
        return forward(self, flat)

    monkeypatch.setattr(torch_staged._Program, "forward", slow)
    x = torch.ones(3)

    def seconds(function: Any) -> list[float]:
        taken = []
        for _ in range(8):
            begin = now[0]
            function(x)
            taken.append(now[0] - begin)
        return taken

    with gfy.staging(2.0):
        # two eager calls, compiling with a first run, two staged ones, then the faster way
        assert seconds(torch_staged.Measured(fn)) == [1.0, 1.0, 10.0, 5.0, 1.0, 1.0, 1.0, 1.0]
        costs["jax"] = 0.5
        assert seconds(torch_staged.Measured(fn)) == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5]
        bounded = torch_staged.Measured(fn)
        for size in range(1, 9):
            bounded(torch.ones(size))
    assert len(bounded._ways) == 3


def test_a_function_that_xla_cannot_run_stays_eager_and_is_told() -> None:
    measured = torch_staged.Measured(lambda x: (torch.exp(x), None))
    with gfy.staging(0.0):
        measured(torch.ones(2))
        with pytest.warns(gfy.GfyWarning, match="could not be staged by XLA"):
            measured(torch.ones(2))
        assert float(measured(torch.zeros(2))[0][0]) == 1.0


def test_parts_of_ones_own_are_not_portable() -> None:
    class Mine(gfy.Box):
        pass

    assert portable(PROBLEM, solvers.Auto(), gfy.Envelope())
    assert not portable(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), Mine(0.0, 1.0)))
    assert not portable(solvers.ScipyLBFGSB()), "it runs on the host"
    assert not portable(gfy.OracleHull(lambda scores: scores, 3))


def test_nothing_is_staged_before_the_program_imports_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import gfy; from gfy.calling.staging import patience; print(patience())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
    assert patience() == 1.0, "the tests have imported JAX"
    forked = (
        "import os, warnings; warnings.simplefilter('ignore'); import gfy; from gfy.calling.staging import patience\n"
        "if not os.fork():\n    print(patience(), flush=True); os._exit(0)\nos.wait()\nimport jax\n"
        "if not os.fork():\n    print(patience(), flush=True); os._exit(0)\nos.wait(); print(patience())"
    )
    done = subprocess.run(
        [sys.executable, "-c", forked], capture_output=True, text=True, check=True,
        env=os.environ | {"GFY_STAGE_AFTER": "2"},
    )  # fmt: skip
    assert done.stdout.split() == ["2.0", "None", "2.0"], (
        "not in a child of a process with the compiler's threads"
    )
    monkeypatch.setenv("GFY_STAGE_AFTER", "never")
    assert patience() is None
    monkeypatch.setenv("GFY_STAGE_AFTER", "0.5")
    assert patience() == 0.5
    monkeypatch.setenv("GFY_STAGE_AFTER", "soon")
    with pytest.raises(gfy.GfyValueError, match="\"never\", got 'soon'"):
        patience()
    with pytest.raises(gfy.GfyValueError, match="must be a number of seconds"), gfy.staging(-1.0):
        pass
