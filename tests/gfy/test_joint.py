"""The joint loss of energy and partition function, against likelihoods by enumeration over {0, 1}^k."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gfy
from gfy.backend import get_backend
from gfy.errors import GfyTypeError, GfyValueError

K = 4
ALL = np.array(list(itertools.product([0.0, 1.0], repeat=K)))


def put(backend: str, x: Any) -> Any:
    return get_backend(backend).asarray(np.array(x), dtype="float64")


def out(backend: str, x: Any) -> np.ndarray:
    return np.asarray(get_backend(backend).to_numpy(x))


def scores(u: np.ndarray, A: np.ndarray) -> np.ndarray:
    """<u, y> - |A^T y|^2 / 2 of every output, [B, 2^k]."""
    return u @ ALL.T - 0.5 * (np.einsum("yk,bkm->bym", ALL, A) ** 2).sum(-1)


def problem(seed: int = 0, batch: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, size=(batch, K)).astype(float)
    return 2 * rng.normal(size=(batch, K)), rng.normal(size=(batch, K, 2)), y


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_the_minimum_over_tau_is_the_loss_by_enumeration(divergence: str, backend: str) -> None:
    u, A, y = problem()
    g = scores(u, A)
    v = gfy.Pairwise.Input(put(backend, u), put(backend, A))
    loss = gfy.JointLoss(gfy.Pairwise(), divergence)
    tau = loss.best_tau(v, put(backend, ALL))
    if divergence == "kl":
        expected = np.log(np.exp(g).mean(-1))
        np.testing.assert_allclose(out(backend, tau), expected, rtol=1e-12)
    density = out(backend, loss.density(v, put(backend, np.repeat(ALL[:, None], 3, 1)), tau))
    np.testing.assert_allclose(density.mean(0), 1.0, rtol=1e-10)  # p = q density sums to one over all of Y
    if divergence == "chi2":
        assert (density == 0).any()
    index = [int(np.flatnonzero((one == ALL).all(1))[0]) for one in y]
    value = out(backend, loss(v, put(backend, y), tau, put(backend, ALL)))
    here = np.arange(len(y))
    if divergence == "kl":
        likelihood = np.exp(g)[here, index] / np.exp(g).sum(-1)
        np.testing.assert_allclose(value + K * np.log(2), -np.log(likelihood), rtol=1e-12)
    # any other tau gives more
    for off in (-0.3, 0.2):
        more = out(backend, loss(v, put(backend, y), tau + off, put(backend, ALL)))
        assert (more > value + 1e-3).all()


def test_gradients_at_the_best_tau_are_those_of_the_likelihood() -> None:
    torch = pytest.importorskip("torch")
    u, A, y = problem(1)
    u, A = (torch.tensor(x, requires_grad=True) for x in (u, A))
    v, everything = gfy.Pairwise.Input(u, A), torch.as_tensor(ALL)
    loss = gfy.JointLoss(gfy.Pairwise(), reduction="sum")
    tau = loss.best_tau(v, everything).detach().requires_grad_()
    du, dA, dtau = torch.autograd.grad(loss(v, y, tau, everything), (u, A, tau))
    g = u @ everything.T - 0.5 * (torch.einsum("yk,bkm->bym", everything, A) ** 2).sum(-1)
    index = [int(np.flatnonzero((one == ALL).all(1))[0]) for one in y]
    exact = -torch.log_softmax(g, -1)[torch.arange(3), index].sum()
    for found, expected in zip((du, dA), torch.autograd.grad(exact, (u, A)), strict=True):
        assert torch.allclose(found, expected, atol=1e-10)
    assert dtau.abs().max() < 1e-10


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_value_and_gradients_at_any_tau_are_those_of_the_formula(divergence: str, backend: str) -> None:
    """The loss as it is printed, written out in NumPy over all outputs, and its central differences."""
    u, A, y = problem(3)
    tau = np.array([0.4, -0.7, 1.1])
    index = [int(np.flatnonzero((one == ALL).all(1))[0]) for one in y]

    def written(u: np.ndarray, A: np.ndarray, tau: np.ndarray) -> np.ndarray:
        g = scores(u, A)
        s = g - tau[:, None]
        tail = np.exp(s) - 1 if divergence == "kl" else np.where(s > 0, s, 0) ** 2 / 2 + 0.5
        return np.asarray(tau - g[np.arange(3), index] + tail.mean(-1))

    loss = gfy.JointLoss(gfy.Pairwise(), divergence)

    def ours(u: Any, A: Any, tau: Any) -> Any:
        return loss(gfy.Pairwise.Input(u, A), put(backend, y), tau, put(backend, ALL))

    given = (u, A, tau)
    value, pullback = get_backend(backend).vjp(ours, *(put(backend, x) for x in given))
    np.testing.assert_allclose(out(backend, value), written(*given), rtol=1e-12)
    slopes = [out(backend, slope) for slope in pullback(put(backend, np.ones(3)))]
    step = 1e-6
    for n, slope in enumerate(slopes):
        for place in np.ndindex(given[n].shape):
            ends = []
            for sign in (1, -1):
                moved = [x.copy() for x in given]
                moved[n][place] += sign * step
                ends.append(written(*moved).sum())
            assert slope[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-7)


def test_minimising_over_both_is_maximum_likelihood() -> None:
    """The scores of a table of 2^2 outputs, seen with given frequencies: the optimum is known in closed form."""
    torch = pytest.importorskip("torch")
    outputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    # u_1, u_2 and one interaction -a^2 / 2 (y_1 + y_2)^2 fit all four frequencies if y_1 y_2 is discouraged
    seen = torch.tensor([0.1, 0.4, 0.3, 0.2], dtype=torch.float64)
    u = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    a = torch.ones(1, dtype=torch.float64, requires_grad=True)
    tau = torch.zeros((), dtype=torch.float64, requires_grad=True)
    loss = gfy.JointLoss(gfy.Pairwise())
    best = torch.optim.LBFGS(
        [u, a, tau], max_iter=500, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Any:
        best.zero_grad()
        v = gfy.Pairwise.Input(u.expand(4, 2), (a * torch.ones(2, 1, dtype=torch.float64)).expand(4, 2, 1))
        value = (seen * loss(v, outputs, tau.expand(4), outputs)).sum()
        value.backward()
        return value

    best.step(closure)
    log = torch.log(seen)
    assert abs(float(a.detach() ** 2) - float(log[1] + log[2] - log[0] - log[3])) < 1e-6
    logs = u.detach() - 0.5 * a.detach() ** 2
    assert abs(float(logs[0] - (log[2] - log[0]))) < 1e-6
    assert (
        abs(float(tau.detach()) - float(-torch.log(4 * seen[0]))) < 1e-6
    )  # log Z for the output without labels


def test_weights_make_samples_of_another_prior_count_right(backend: str) -> None:
    u, A, y = problem(2)
    v = gfy.Pairwise.Input(put(backend, u), put(backend, A))
    loss = gfy.JointLoss(gfy.Pairwise())
    every = put(backend, ALL)
    share = np.where(ALL == 1, 0.8, 0.2).prod(-1)
    repeated = np.repeat(ALL, np.rint(share * 5**K).astype(int), axis=0)  # the prior as exact counts
    log_weights = -K * np.log(2) - np.log(np.where(repeated == 1, 0.8, 0.2).prod(-1))
    exact = out(backend, loss.best_tau(v, every))
    found = out(backend, loss.best_tau(v, put(backend, repeated), put(backend, log_weights)))
    np.testing.assert_allclose(found, exact, rtol=1e-10)
    tau = put(backend, exact + 0.1)
    same = out(backend, loss(v, put(backend, y), tau, put(backend, repeated), put(backend, log_weights)))
    np.testing.assert_allclose(same, out(backend, loss(v, put(backend, y), tau, every)), rtol=1e-10)


def test_samples_are_drawn_with_the_share_that_was_asked_for(backend: str) -> None:
    u = put(backend, np.zeros((2, K)))
    loss = gfy.JointLoss(gfy.Bilinear())
    drawn = out(backend, loss.draw(u, 20_000, seed=3, share=0.2))
    assert drawn.shape == (20_000, K)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert np.abs(drawn.mean(0) - 0.2).max() < 0.015
    assert not np.array_equal(drawn, out(backend, loss.draw(u, 20_000, seed=4, share=0.2)))
    # the average over many draws is the expectation: no bias
    g, tau = np.array([[0.4, -0.2, 0.1, 0.3]]), np.array([0.3])
    loss = gfy.JointLoss(gfy.Bilinear())
    values = [
        float(out(backend, loss(put(backend, g), put(backend, ALL[:1]), put(backend, tau), loss.draw(u, 4, seed)))[0])
        for seed in range(400)
    ]  # fmt: skip
    exact = float(
        out(backend, loss(put(backend, g), put(backend, ALL[:1]), put(backend, tau), put(backend, ALL)))[0]
    )
    assert abs(np.mean(values) - exact) < 4 * np.std(values) / 20


def test_wrong_calls_are_answered_with_a_sentence() -> None:
    torch = pytest.importorskip("torch")
    u = torch.zeros(2, K, dtype=torch.float64)
    tau, loss = torch.zeros(2, dtype=torch.float64), gfy.JointLoss(gfy.Bilinear())
    samples = loss.draw(u, 3)
    with pytest.raises(GfyTypeError, match="energy must be an Energy"):
        gfy.JointLoss("pairwise")  # type: ignore[arg-type]
    with pytest.raises(GfyValueError, match="divergence must be one of kl, chi2"):
        gfy.JointLoss(gfy.Bilinear(), "renyi")
    with pytest.raises(GfyValueError, match="reduction"):
        gfy.JointLoss(gfy.Bilinear(), reduction="median")
    with pytest.raises(GfyValueError, match=r"tau must have one number per example, shape \(2,\)"):
        loss(u, u, tau[:1], samples)
    with pytest.raises(GfyValueError, match=r"y must have the shape \(2, 4\)"):
        loss(u, u[:1], tau, samples)
    with pytest.raises(GfyValueError, match="samples"):
        loss(u, u, tau, samples[0])
    with pytest.raises(GfyValueError, match="one entry per sample"):
        loss(u, u, tau, samples, torch.zeros(2, dtype=torch.float64))
    with pytest.raises(GfyValueError, match="share"):
        loss.draw(u, 3, share=1.0)
