"""An inner problem that is not solved, and a derivative that is dropped, are told."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
import solvers

Make = Callable[..., Any]
PROBLEM = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
SHORT = gfy.Stop(1e-10, 2)  # too few steps for the second example; the first starts at its solution
DESCENT = solvers.ProjectedGradient()


def v_of(make: Make) -> Any:
    """Two examples: u such that p = 1/2 is the solution of the first, and a badly scaled second."""
    U = np.stack([-np.eye(3), -np.diag([1.0, 30.0, 900.0]) - 0.5])
    return gfy.LinearQuadratic.Input(make(np.array([[0.5, 0.5, 0.5], [9.0, -3.0, 100.0]])), make(U))


def calls(v: Any, y: Any) -> dict[str, Callable[[], Any]]:
    settings: dict[str, Any] = {"solver": DESCENT, "stop": SHORT}
    return {
        "argmax": lambda: gfy.argmax(PROBLEM, v, **settings),
        "implicit argmax": lambda: gfy.argmax(PROBLEM, v, gradient="implicit", **settings),
        "unrolled argmax": lambda: gfy.argmax(PROBLEM, v, gradient=gfy.Unrolled(2), **settings),
        "conjugate": lambda: gfy.conjugate(PROBLEM, v, **settings),
        "loss": lambda: gfy.FenchelYoungLoss(PROBLEM, **settings)(v, y),
        "predict": lambda: gfy.FenchelYoungLoss(PROBLEM, **settings).predict(v),
        "margin loss": lambda: gfy.MarginLoss(PROBLEM, **settings)(v, y),
        "argmax loss": lambda: gfy.ArgmaxLoss("squared", PROBLEM, **settings)(v, y),
    }


NAMES = tuple(calls(None, None))


@pytest.mark.parametrize("name", NAMES)
def test_an_unsolved_problem_warns_once_and_raises_when_debugging(name: str, asarray: Make) -> None:
    call = calls(v_of(asarray), asarray(np.zeros((2, 3))))[name]
    with pytest.warns(
        gfy.UnsolvedWarning, match=r"[12] of 2 inner problems .*/Box were not solved by ProjectedGradient"
    ):
        call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said once
        call()
    with gfy.debug(), pytest.raises(gfy.UnsolvedError, match="were not solved"):
        call()


def test_the_warning_names_the_reason_and_points_at_the_caller(asarray: Make) -> None:
    with pytest.warns(gfy.UnsolvedWarning) as said:
        calls(v_of(asarray), None)["argmax"]()
    assert said[0].filename == __file__
    text = str(said[0].message)
    assert "1 of 2" in text
    assert "max_steps=2" in text


def test_results_stand_in_the_warning_where_the_solver_gives_them(asarray: Make) -> None:
    class Lazy:
        name = "Lazy"

        def unsupported(self, problem: Any) -> None:
            return None

        def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> gfy.Solution:
            found = DESCENT.solve(problem, v, p0, stop)
            xp = gfy.backend_of(v).xp
            wrong = xp.astype(0 * found.error, xp.int32) + int(gfy.Result.NOT_FINITE)
            return gfy.Solution(found.p, found.error, found.steps, found.error < 0, wrong)

    with pytest.warns(
        gfy.UnsolvedWarning, match="2 of them: A step produced a value that is NaN or infinite"
    ):
        gfy.argmax(PROBLEM, v_of(asarray), solver=Lazy())


@pytest.mark.parametrize("name", ["argmax", "conjugate", "loss"])
def test_the_solution_is_given_on_request_and_then_not_warned_about(
    name: str, backend: str, asarray: Make, tonumpy: Make
) -> None:
    v, y = v_of(asarray), asarray(np.zeros((2, 3)))
    settings: dict[str, Any] = {"solver": DESCENT, "stop": SHORT}

    def call(v: Any) -> Any:
        if name == "argmax":
            return gfy.argmax(PROBLEM, v, **settings, return_solution=True)
        if name == "conjugate":
            return gfy.conjugate(PROBLEM, v, **settings, return_solution=True)[1]
        return gfy.FenchelYoungLoss(PROBLEM, **settings)(v, y, return_solution=True)[1]

    for run in (call, gfy.get_backend(backend).jit(call)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = run(v)
        assert isinstance(found, gfy.Solution)
        assert tonumpy(found.converged).tolist() == [True, False]
        assert tonumpy(found.error)[1] > 1e-10
    with pytest.raises(gfy.GfyTypeError, match="EnergyLoss solves no inner problem"):
        gfy.EnergyLoss(PROBLEM)(v, y, return_solution=True)


def test_losses_agree_with_and_without_the_solution(asarray: Make, tonumpy: Make) -> None:
    v, y = v_of(asarray), asarray(np.zeros((2, 3)))
    for loss in (gfy.FenchelYoungLoss(PROBLEM), gfy.PerceptronLoss(PROBLEM, stop=gfy.Stop(1e-9, 20_000))):
        value, found = loss(v, y, return_solution=True)
        assert np.allclose(tonumpy(value), tonumpy(loss(v, y)))
        assert tuple(found.p.shape) == (2, 3)


def test_jax_tells_under_grad_and_inside_jit_when_debugging() -> None:
    jax = pytest.importorskip("jax")
    v = v_of(jax.numpy.asarray)
    loss = gfy.FenchelYoungLoss(PROBLEM, solver=DESCENT, stop=SHORT)
    y = jax.numpy.zeros((2, 3))
    with pytest.warns(gfy.UnsolvedWarning):
        jax.grad(lambda v: loss(v, y).sum())(v)

    def loud(v: Any) -> Any:
        with gfy.debug():
            return loss(v, y)

    with pytest.raises(Exception, match="were not solved by ProjectedGradient"):  # noqa: PT012 - at the barrier
        jax.block_until_ready(jax.jit(loud)(v))
        jax.effects_barrier()


def test_a_mode_of_ones_own_that_gives_p_alone_is_served(asarray: Make) -> None:
    class Plain:
        name = "plain"

        def unsupported(self, problem: Any, solver: Any) -> None:
            return None

        def argmax(self, problem: Any, solver: Any, v: Any, p0: Any, stop: Any) -> Any:
            return solver.solve(problem, v, p0, stop).p

    found = gfy.argmax(PROBLEM, v_of(asarray), gradient=Plain(), return_solution=True)
    assert found.converged is None
    assert tuple(found.p.shape) == (2, 3)


def test_torch_warns_once_where_a_gradient_is_dropped() -> None:
    torch = pytest.importorskip("torch")
    v = v_of(torch.tensor)
    v = v._replace(u=v.u.requires_grad_())
    with pytest.warns(
        gfy.GradientDroppedWarning, match=r"gradient=gfy.Implicit\(\) for dp\*/dv, or v.detach\(\)"
    ):
        assert not gfy.argmax(PROBLEM, v).requires_grad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gfy.argmax(PROBLEM, v)  # it was said once
        other = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(2.0), gfy.Box(0.0, 1.0))
        with torch.no_grad():
            gfy.argmax(other, v)
        gfy.argmax(other, v._replace(u=v.u.detach()))
        gfy.FenchelYoungLoss(other).predict(v)
        assert gfy.argmax(other, v, gradient="implicit").requires_grad
        with pytest.raises(gfy.GradientDroppedWarning):
            gfy.argmax(other, v)
