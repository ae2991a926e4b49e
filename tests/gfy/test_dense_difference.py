"""The dense quadratic loss in eager torch: its value and its gradient against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

import gfy

torch = pytest.importorskip("torch")


def test_value_and_gradient_are_the_formulas(rng: np.random.Generator) -> None:
    """L = Phi(p) - Phi(y) - Omega(p) + Omega(y); dL/du = p - y, dL/dU = (p p^T - y y^T) / 2 at the solution p."""
    A = rng.normal(size=(4, 6, 6))
    u = torch.tensor(rng.normal(size=(4, 6)), requires_grad=True)
    U = torch.tensor(-A @ np.swapaxes(A, -1, -2), requires_grad=True)
    y = torch.tensor((rng.random((4, 6)) > 0.5).astype(float))
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    stop = gfy.Stop(1e-12, 20_000)
    found, weight = (
        gfy.FenchelYoungLoss(problem, stop=stop)(gfy.LinearQuadratic.Input(u, U), y),
        torch.arange(1.0, 5.0).double(),
    )
    in_u, in_U = torch.autograd.grad((weight * found).sum(), (u, U))
    p = gfy.argmax(problem, gfy.LinearQuadratic.Input(u.detach(), U.detach()), stop=stop)
    value = lambda q: (u * q).sum(-1) + 0.5 * torch.einsum("bi,bij,bj->b", q, U, q) - (q * (q - 1)).sum(-1)  # noqa: E731
    np.testing.assert_allclose(found.detach(), (value(p) - value(y)).detach(), atol=1e-12)
    np.testing.assert_allclose(in_u, weight[:, None] * (p - y), atol=1e-9)
    outer = p[:, :, None] * p[:, None] - y[:, :, None] * y[:, None]
    np.testing.assert_allclose(in_U, 0.5 * weight[:, None, None] * outer, atol=1e-9)


def test_twice(rng: np.random.Generator) -> None:
    """The cotangent may itself depend on v: what is differentiated again is right."""
    u, y, p = (torch.tensor(rng.normal(size=(2, 3))) for _ in range(3))
    U = torch.tensor(rng.normal(size=(2, 3, 3)))
    U = U + U.mT
    energy = gfy.LinearQuadratic(concave=False)
    fn = lambda u, U: energy.difference(energy.Input(u, 0.5 * (U + U.mT)), p, y) ** 2  # noqa: E731
    given = (u.requires_grad_(), U.requires_grad_())
    assert torch.autograd.gradcheck(fn, given)
    assert torch.autograd.gradgradcheck(fn, given)
