"""Second derivatives of losses and maxima: `Implicit` gives them, `Envelope`, which holds p* fixed, refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
from gfy.errors import UnsupportedError

RNG = np.random.default_rng(11)
U, A, Y = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4, 1)), np.full((2, 4), 0.5)
WEIGHTS = RNG.normal(size=4)
PROBLEM = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))


def solved(u: np.ndarray) -> np.ndarray:
    """p* of both examples, found by trying every set of active bounds: a reference without this library."""
    found = []
    for scores, factor in zip(u, A, strict=True):
        best = (-np.inf, np.zeros(4))
        for number in range(3**4):
            state = [(number // 3**j) % 3 for j in range(4)]
            p = np.array([1.0 if s == 1 else 0.0 for s in state])
            free = [j for j, s in enumerate(state) if s == 2]
            if free:  # the slope u - A A^T p - 2 p + 1 is zero in the free coordinates
                system = factor[free] @ factor[free].T + 2 * np.eye(len(free))
                p[free] = np.linalg.solve(system, (scores + 1 - factor @ (factor.T @ p))[free])
            if (p >= 0).all() and (p <= 1).all():
                value = scores @ p - 0.5 * ((factor.T @ p) ** 2).sum() - (p * (p - 1)).sum()
                best = max(best, (value, p), key=lambda pair: pair[0])
        found.append(best[1])
    return np.stack(found)


def curvature() -> np.ndarray:
    """The Hessian of the sum of the losses in u, [2, 4, 2, 4]: the gradient is p* - y, differenced centrally."""
    out, step = np.zeros((2, 4, 2, 4)), 1e-5
    for index in np.ndindex(2, 4):
        moved = np.zeros((2, 4))
        moved[index] = step
        out[(..., *index)] = (solved(U + moved) - solved(U - moved)) / (2 * step)
    return out


def losses(framework: str) -> dict[str, tuple[Callable[[Any, str], Any], Any]]:
    """Sums of losses and of maxima as functions of one array and of the gradient mode, and where to differentiate."""
    if framework == "torch":
        torch = pytest.importorskip("torch")
        array: Any = lambda x: torch.tensor(x, dtype=torch.float64)  # noqa: E731
    else:
        array = pytest.importorskip("jax").numpy.asarray
    a, y = array(A), array(Y)
    captured = array(WEIGHTS)

    def pairwise(u: Any) -> Any:
        return gfy.Pairwise.Input(u=u, A=a)

    def custom(weights: Any, mode: str) -> Any:
        energy = gfy.CustomEnergy(lambda v, p: (v * weights * p).sum(-1) - 0.5 * p.sum(-1) ** 2, concave=True)
        problem = gfy.InnerProblem(energy, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        return gfy.FenchelYoungLoss(problem, gradient=mode)(array(U), y).sum()

    return {
        "loss": (
            lambda u, mode: gfy.FenchelYoungLoss(PROBLEM, gradient=mode)(pairwise(u), y).sum(),
            array(U),
        ),
        "loss step by step": (
            lambda u, mode: gfy.FenchelYoungLoss(PROBLEM, solver="ProjectedGradient", gradient=mode)(
                pairwise(u), y
            ).sum(),
            array(U),
        ),
        "maximum": (lambda u, mode: gfy.conjugate(PROBLEM, pairwise(u), gradient=mode).sum(), array(U)),
        "weights that were captured": (custom, captured),
    }


NAMES = ("loss", "loss step by step", "maximum", "weights that were captured")


@pytest.mark.parametrize("name", NAMES)
def test_torch_refuses_them_through_the_envelope(name: str) -> None:
    torch = pytest.importorskip("torch")
    fn, at = losses("torch")[name]
    x = at.clone().requires_grad_()
    value = fn(x, "envelope")
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (again,) = torch.autograd.grad(value, x, retain_graph=True)  # a first derivative may be taken twice
    assert torch.equal(first.detach(), again)
    with pytest.raises(UnsupportedError, match="first derivatives only.*gfy.Implicit"):
        torch.autograd.grad(first.square().sum(), x)


@pytest.mark.parametrize("name", NAMES)
def test_jax_refuses_them_through_the_envelope(name: str) -> None:
    jax = pytest.importorskip("jax")
    fn, at = losses("jax")[name]
    with pytest.raises(UnsupportedError, match="first derivatives only.*gfy.Implicit"):
        jax.hessian(lambda x: fn(x, "envelope"))(at)
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        jax.jit(jax.grad(lambda x: (jax.grad(lambda w: fn(w, "envelope"))(x) ** 2).sum()))(at)


def test_a_derivative_in_the_cotangent_is_no_second_derivative_in_v() -> None:
    torch = pytest.importorskip("torch")
    fn, at = losses("torch")["loss"]
    x, scale = at.clone().requires_grad_(), torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(scale * fn(x, "envelope"), x, create_graph=True)
    (found,) = torch.autograd.grad(first.sum(), scale)
    assert found.item() == pytest.approx((solved(U) - Y).sum(), abs=1e-9)


def test_implicit_gives_them_in_both_frameworks() -> None:
    truth = curvature()
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    fn, at = losses("jax")["loss"]
    np.testing.assert_allclose(np.asarray(jax.hessian(lambda x: fn(x, "implicit"))(at)), truth, atol=1e-8)
    fn, at = losses("torch")["loss"]
    found = torch.autograd.functional.hessian(lambda x: fn(x, "implicit"), at)
    np.testing.assert_allclose(found.numpy(), truth, atol=1e-8)


def test_where_no_mode_offers_them_the_sentence_says_so() -> None:
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), gfy.Box(0.0, 1.0))
    u = torch.tensor(U, requires_grad=True)
    value = gfy.conjugate(problem, gfy.Pairwise.Input(u=u, A=torch.tensor(A)), solver="InteriorPoint").sum()
    (first,) = torch.autograd.grad(value, u, create_graph=True)
    with pytest.raises(UnsupportedError, match="no mode offers them"):
        torch.autograd.grad(first.sum(), u)
