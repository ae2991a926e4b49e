"""f-divergences from a prior, against their formulas in 40 digits, other packages' losses, and SciPy's roots.

`Exact` writes f, f' and its inverse down once more, in mpmath, and finds the multiplier of the sum by bisection there.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import gfy
import solvers
from gfy.backend import get_backend
from gfy.numerics import native

mp = pytest.importorskip("mpmath")

K = 5
NAMES = ("kl", "reverse-kl", "chi-square", "jensen-shannon", "squared-hellinger")
CHOICES: list[tuple[str, float | None]] = [
    *((name, None) for name in NAMES),
    ("alpha", 1.5),
    ("alpha", 3.0),
    ("alpha", -1.0),
    ("alpha", 1.03),
    ("alpha", 0.02),
]
UNEVEN = (0.4, 0.02, 0.3, 0.08, 0.2)
BOX = gfy.Box(0.0, 1.0)
SETS = [
    gfy.Simplex(),
    BOX,
    gfy.CappedSimplex(2.5),
    gfy.Box(np.linspace(0.05, 0.2, K), np.linspace(0.3, 0.8, K)),
]
Make = Callable[..., Any]
COMPILED_LATER = pytest.mark.parametrize(
    "backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)], indirect=True
)


def name_of(value: Any) -> str:
    return value.name if hasattr(value, "name") else str(value)


class Exact:
    """Omega and its argmax map for one example, in 40 digits."""

    def __init__(self, f: str, alpha: float | None, prior: Any, gamma: float) -> None:
        self.f = f
        self.alpha = None if alpha is None else mp.mpf(alpha)
        self.prior = [mp.mpf(float(q)) for q in np.broadcast_to(prior, (K,))]
        self.gamma = mp.mpf(gamma)

    def value(self, p: np.ndarray) -> Any:
        return self.gamma * mp.fsum(
            q * self._f(mp.mpf(float(x)) / q) for x, q in zip(p, self.prior, strict=True)
        )

    def exact_value(self, p: list[Any]) -> Any:
        return self.gamma * mp.fsum(q * self._f(x / q) for x, q in zip(p, self.prior, strict=True))

    def _f(self, u: Any) -> Any:
        a = self.alpha
        if self.f == "kl":
            return (u * mp.log(u) if u else 0) - u + 1
        if self.f == "reverse-kl":
            return u - 1 - mp.log(u) if u else mp.inf
        if self.f == "chi-square":
            return (u - 1) ** 2 / 2
        if self.f == "jensen-shannon":
            return (u * mp.log(u) if u else 0) - (u + 1) * mp.log((u + 1) / 2)
        if self.f == "squared-hellinger":
            return (1 - mp.sqrt(u)) ** 2
        if not u and a < 0:
            return mp.inf
        return (u**a - 1 - a * (u - 1)) / (a * (a - 1))

    def _inverse(self, s: Any) -> Any:
        a = self.alpha
        if self.f == "kl":
            return mp.exp(s)
        if self.f == "reverse-kl":
            return 1 / (1 - s) if s < 1 else mp.inf
        if self.f == "chi-square":
            return max(1 + s, mp.mpf(0))
        if self.f == "jensen-shannon":
            return 1 / (2 * mp.exp(-s) - 1) if s < mp.log(2) else mp.inf
        if self.f == "squared-hellinger":
            return (1 - s) ** -2 if s < 1 else mp.inf
        base = 1 + (a - 1) * s
        return base ** (1 / (a - 1)) if base > 0 else (mp.mpf(0) if a > 1 else mp.inf)

    def argmax(self, theta: np.ndarray, domain: Any) -> list[Any]:
        low, high = (np.broadcast_to(b, (K,)) for b in domain.bounds(np.zeros(K)))
        scores = [mp.mpf(float(t)) for t in theta]

        def at(tau: Any) -> list[Any]:
            parts = zip(scores, self.prior, low, high, strict=True)
            return [
                min(max(q * self._inverse((t - tau) / self.gamma), mp.mpf(float(a))), mp.mpf(float(b)))
                for t, q, a, b in parts
            ]

        if domain.total is None:
            return at(mp.mpf(0))
        left, right = min(scores) - 10_000, max(scores) + 10_000
        for _ in range(150):
            middle = (left + right) / 2
            left, right = (middle, right) if mp.fsum(at(middle)) > domain.total else (left, middle)
        return at((left + right) / 2)

    def conjugate(self, theta: np.ndarray, domain: Any) -> Any:
        p = self.argmax(theta, domain)
        return mp.fsum(mp.mpf(float(t)) * x for t, x in zip(theta, p, strict=True)) - self.exact_value(p)


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mp.workdps(40):
        yield


def cases() -> list[Any]:
    return [
        pytest.param(f, alpha, domain, prior, id=f"{f}-{alpha}-{domain.name}-{'uneven' if n else 'even'}")
        for f, alpha in CHOICES
        for domain in SETS
        for n, prior in enumerate((0.2, UNEVEN))
    ]


@pytest.mark.parametrize(("f", "alpha", "domain", "prior"), cases())
def test_map_conjugate_value_and_bound_in_forty_digits(
    f: str, alpha: float | None, domain: Any, prior: Any, rng: np.random.Generator
) -> None:
    gamma = 0.6
    omega, exact = gfy.FDivergence(f, prior, gamma, alpha), Exact(f, alpha, prior, gamma)
    theta = rng.normal(size=(4, K)) * np.array([[0.3], [1.0], [4.0], [50.0]])
    theta = theta.astype(np.float32).astype(float)
    p, small = omega.argmax(theta, domain), omega.argmax(theta.astype(np.float32), domain)
    assert small.dtype == np.float32
    away = domain.project(p + 0.05 * rng.normal(size=p.shape))
    away = 0.99 * away + 0.01 * p  # inside where p is: an infinite value bounds nothing
    with np.errstate(all="ignore"):
        bound = omega.gap(theta, away, domain).gap
    for i in range(4):
        right = exact.argmax(theta[i], domain)
        wanted = np.array([float(x) for x in right])
        wanted[wanted < 1e-40] *= (
            alpha is None or alpha < 1
        )  # at a vertex the bisection ends beside a breakpoint
        np.testing.assert_allclose(p[i], wanted, rtol=1e-11, atol=2e-14)
        np.testing.assert_allclose(small[i], wanted, rtol=3e-4, atol=3e-6)
        assert ((p[i] == 0) == (wanted == 0)).all()  # exact on the boundary, in both precisions
        assert (small[i][wanted == 0] == 0).all()
        assert (wanted[small[i] == 0] < 1e-37).all()
        high = np.broadcast_to(domain.bounds(np.zeros(K))[1], (K,))
        assert domain.simplex or ((p[i] == high) == (wanted == high)).all()
        assert float(omega.value(wanted)) == pytest.approx(float(exact.value(wanted)), rel=1e-12, abs=1e-14)
        best = exact.conjugate(theta[i], domain)
        assert float(omega.conjugate(theta[i], domain)) == pytest.approx(float(best), rel=1e-12, abs=1e-13)
        product = mp.fsum(mp.mpf(float(t)) * mp.mpf(float(x)) for t, x in zip(theta[i], away[i], strict=True))
        loss = best + exact.value(away[i]) - product
        # `away` misses the sum by rounding, which the multiplier is paid for
        rounding = 1e-14 * (1 + np.abs(theta[i]).max())
        assert bound[i] >= loss - rounding
        assert bound[i] <= float(loss) * (1 + 1e-7) + 1e-10 * (1 + np.abs(theta[i]).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", ["compiled", "framework"])
@pytest.mark.parametrize(("f", "alpha"), [CHOICES[i] for i in (1, 2, 3, 6, 8)])
def test_both_ways_to_the_root_in_torch_are_right_with_their_derivative(
    f: str,
    alpha: float | None,
    way: str,
    dtype: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    if way == "framework":
        monkeypatch.setattr(native, "installed", lambda: False)
    elif not native.installed():
        pytest.skip("numba is not installed")
    omega, exact, domain = gfy.FDivergence(f, UNEVEN, 0.6, alpha), Exact(f, alpha, UNEVEN, 0.6), SETS[2]
    theta = (rng.normal(size=(3, K)) + np.array([[0.0], [7.0], [-300.0]])).astype(np.float32).astype(float)
    weights = rng.normal(size=K)
    given = torch.tensor(theta, dtype=getattr(torch, dtype), requires_grad=True)
    p = omega.argmax(given, domain)
    (slope,) = torch.autograd.grad((p * torch.tensor(weights).to(p)).sum(), given)
    plain = omega.argmax(given.detach(), domain)
    near = {"rtol": 1e-11, "atol": 1e-12} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-4}
    step = 1e-6
    D = omega.slopes(given.detach(), domain).double().numpy()
    products = D * (weights - (D @ weights / D.sum(-1))[:, None])
    for i in range(3):
        wanted = np.array([float(x) for x in exact.argmax(theta[i], domain)])
        np.testing.assert_allclose(p[i].detach(), wanted, **near)
        np.testing.assert_allclose(plain[i], wanted, **near)
        for j in range(K):
            there, back = theta[i].copy(), theta[i].copy()
            there[j], back[j] = there[j] + step, back[j] - step
            ends = [[float(x) for x in exact.argmax(t, domain)] for t in (there, back)]
            central = weights @ (np.array(ends[0]) - np.array(ends[1])) / (there[j] - back[j])
            margin = 1e-5 if dtype == "float64" else 1e-3
            assert float(slope[i, j]) == pytest.approx(central, rel=1e-2, abs=margin)
            assert products[i, j] == pytest.approx(central, rel=1e-2, abs=margin)


@pytest.mark.parametrize(("f", "alpha"), CHOICES)
def test_gradient_curvature_and_boundary_of_omega(
    f: str, alpha: float | None, rng: np.random.Generator
) -> None:
    omega, exact = gfy.FDivergence(f, UNEVEN, 0.7, alpha), Exact(f, alpha, UNEVEN, 0.7)
    p = rng.uniform(0.02, 0.98, size=K)
    step = mp.mpf(10) ** -12
    for j in range(K):

        def along(d: Any, j: int = j) -> Any:
            return exact.exact_value([mp.mpf(float(x)) + (d if i == j else 0) for i, x in enumerate(p)])

        slope = (along(step) - along(-step)) / (2 * step)
        bend = (along(step) - 2 * along(0) + along(-step)) / step**2
        assert omega.grad(p)[j] == pytest.approx(float(slope), rel=1e-11, abs=1e-12)
        assert omega.coordinate_flatness(p)[j] == pytest.approx(float(1 / bend), rel=1e-8)
        assert float(bend) >= omega.strong_convexity(BOX) * (1 - 1e-9)
    corner = np.eye(K)[1]
    with np.errstate(all="raise"):
        value, slope = omega.value(corner), omega.grad(corner)
    assert float(value) == pytest.approx(float(exact.value(corner)), rel=1e-13)
    steep = f != "chi-square" and (alpha is None or alpha < 1)
    assert np.isinf(slope[0]) == steep
    assert not np.isnan(slope).any()
    # the prior is where Omega is 0 and smallest, and what scores of zero give back
    assert float(omega.value(np.asarray(UNEVEN))) == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(omega.argmax(np.zeros(K), gfy.Simplex()), UNEVEN, rtol=1e-13)
    np.testing.assert_allclose(omega.argmax(np.zeros(K), BOX), UNEVEN, rtol=1e-13)


@COMPILED_LATER
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("f", "alpha"), [("reverse-kl", None), ("jensen-shannon", None), ("alpha", 1.5)])
def test_derivatives_by_differences_of_forty_digits(
    f: str, alpha: float | None, dtype: str, backend: str, asarray: Make, tonumpy: Make
) -> None:
    """dp/dtheta by automatic differentiation, forwards and backwards, and by `jacobian_product`."""
    domain = gfy.CappedSimplex(1.5)
    omega, exact = gfy.FDivergence(f, UNEVEN, 0.5, alpha), Exact(f, alpha, UNEVEN, 0.5)
    theta, x = np.array([0.4, -1.3, 1.9, 0.2, -0.7]), np.array([1.0, 0.5, -0.3, 0.2, -1.0])
    theta = theta.astype(dtype).astype(float)
    h = 2.0**-30
    ahead, behind = (exact.argmax(theta + s * h * x, domain) for s in (1, -1))
    wanted = np.array([float((a - b) / (2 * mp.mpf(h))) for a, b in zip(ahead, behind, strict=True)])
    ops = get_backend(backend)
    tol = 1e-9 if dtype == "float64" else 2e-4
    given, along = asarray(theta, dtype), asarray(x, dtype)
    _, pullback = ops.vjp(lambda t: omega.argmax(t, domain), given)
    np.testing.assert_allclose(tonumpy(pullback(along)[0]), wanted, atol=tol)  # symmetric
    np.testing.assert_allclose(tonumpy(omega.jacobian_product(given, domain, along)), wanted, atol=tol)
    _, pullback = ops.vjp(lambda t: omega.conjugate(t, domain), given)
    p = np.array([float(z) for z in exact.argmax(theta, domain)])
    np.testing.assert_allclose(tonumpy(pullback(asarray(np.ones(()), dtype))[0]), p, atol=tol)


def loss_of(omega: Any, domain: Any) -> Any:
    return gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Bilinear(), omega, domain))


def test_logistic_loss_with_a_prior(asarray: Make, tonumpy: Make, rng: np.random.Generator) -> None:
    """kl: cross-entropy of softmax(v + log q); a uniform prior is the logistic loss of every textbook."""
    v, classes = 2 * rng.normal(size=(4, K)), np.array([0, 3, 2, 4])
    for prior in (1 / K, UNEVEN):
        tilted = v + np.log(np.broadcast_to(prior, (K,)))
        expected = logsumexp(tilted, -1) - tilted[np.arange(4), classes]
        loss = loss_of(gfy.FDivergence("kl", prior), gfy.Simplex())
        np.testing.assert_allclose(tonumpy(loss(asarray(v), asarray(classes))), expected, rtol=1e-11)


def test_sparsemax_and_entmax_of_their_package(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    entmax = pytest.importorskip("entmax")
    v, classes = torch.tensor(2 * rng.normal(size=(4, K))), torch.tensor([0, 3, 2, 4])
    simplex = gfy.Simplex()
    for omega, their_loss, their_map in (
        (gfy.FDivergence("chi-square"), entmax.sparsemax_loss, entmax.sparsemax),
        (gfy.FDivergence("alpha", alpha=1.5), entmax.entmax15_loss, entmax.entmax15),
        # a uniform prior changes the strength alone, by k^(alpha - 1)
        (gfy.FDivergence("chi-square", 1 / K, 1 / K), entmax.sparsemax_loss, entmax.sparsemax),
        (gfy.FDivergence("alpha", 1 / K, K**-0.5, 1.5), entmax.entmax15_loss, entmax.entmax15),
    ):
        ours = loss_of(omega, simplex)(v, classes)
        np.testing.assert_allclose(ours.numpy(), their_loss(v, classes).numpy(), atol=1e-9)
        np.testing.assert_allclose(omega.argmax(v, simplex).numpy(), their_map(v, -1).numpy(), atol=1e-9)
    other = gfy.FDivergence("alpha", alpha=1.2).argmax(v, simplex).numpy()
    np.testing.assert_allclose(other, entmax.entmax_bisect(v, 1.2, n_iter=60).numpy(), atol=1e-9)


def test_members_of_the_alpha_family_are_the_named_ones(rng: np.random.Generator) -> None:
    """Also on the way to the limits alpha = 1 and alpha = 0, where a formula that divides by them breaks down."""
    theta = 2 * rng.normal(size=(3, K))
    for name, alpha, gamma in (
        ("kl", 1.0, 1.0), ("reverse-kl", 0.0, 1.0), ("chi-square", 2.0, 1.0), ("squared-hellinger", 0.5, 0.5),
        ("kl", 1 + 1e-9, 1.0), ("kl", 1 - 1e-9, 1.0), ("reverse-kl", 1e-9, 1.0),
    ):  # fmt: skip
        tol = 1e-13 if alpha in (0.0, 0.5, 1.0, 2.0) else 1e-6
        one, other = gfy.FDivergence(name, UNEVEN), gfy.FDivergence("alpha", UNEVEN, gamma, alpha)
        for domain in SETS:
            p = one.argmax(theta, domain)
            np.testing.assert_allclose(other.argmax(theta, domain), p, rtol=tol, atol=tol)
            np.testing.assert_allclose(other.value(p), one.value(p), rtol=tol, atol=tol)


def quadratic_problem(rng: np.random.Generator, omega: Any, domain: Any) -> tuple[Any, Any]:
    u, A = 1.5 * rng.normal(size=(2, K)), rng.normal(size=(2, K, 2))
    return gfy.InnerProblem(gfy.Pairwise(), omega, domain), gfy.Pairwise.Input(u=u, A=A)


def reference(
    u: np.ndarray, A: np.ndarray, f: str, alpha: float | None, gamma: float, domain: Any
) -> np.ndarray:
    """CVXPY's maximum of u p - |A^T p|^2 / 2 - Omega(p), Omega by CVXPY's own functions."""
    cp = pytest.importorskip("cvxpy")
    q, p = np.asarray(UNEVEN), cp.Variable(K)
    if f == "reverse-kl":
        divergence = cp.sum(cp.kl_div(q, p))
    elif f == "jensen-shannon":
        divergence = cp.sum(cp.kl_div(p, (p + q) / 2) + cp.kl_div(q, (p + q) / 2))
    else:
        assert alpha is not None
        powers = cp.sum(cp.multiply(q ** (1 - alpha), cp.power(p, alpha)))
        divergence = (powers - alpha * cp.sum(p)) / (alpha * (alpha - 1))
    low, high = domain.bounds(np.zeros(K))
    sides = [p >= low, p <= high] + ([] if domain.total is None else [cp.sum(p) == domain.total])
    objective = u @ p - 0.5 * cp.sum_squares(A.T @ p) - gamma * divergence
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of a solution that is less accurate than asked for: still within 1e-5
        cp.Problem(cp.Maximize(objective), sides).solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    return np.asarray(p.value)


FAST = ("Auto", "DualNewton", "ProjectedNewton", "InteriorPoint", "ActiveSet", "MirrorAscent")
SLOW = ("CoordinateAscent", "FrankWolfe", "ProjectedGradient", "CvxpyReference")


def solver_cases() -> list[Any]:
    found = []
    for f, alpha in (("reverse-kl", None), ("jensen-shannon", None), ("alpha", 1.5)):
        for domain in SETS[:3]:
            quick = FAST if f == "jensen-shannon" and domain.simplex else FAST[:2]
            quick = (*quick, "CoordinateAscent") if f == "alpha" and domain == BOX else quick
            for name in (*FAST, *SLOW):
                marks = [] if name in quick else [pytest.mark.slow]
                label = f"{f}-{domain.name}-{name}"
                found.append(pytest.param(f, alpha, domain, name, marks=marks, id=label))
    return found


@COMPILED_LATER
@pytest.mark.parametrize(("f", "alpha", "domain", "name"), solver_cases())
def test_every_solver_finds_what_cvxpy_finds(
    f: str,
    alpha: float | None,
    domain: Any,
    name: str,
    backend: str,
    asarray: Make,
    tonumpy: Make,
    rng: np.random.Generator,
) -> None:
    if backend == "jax" and not (f == "jensen-shannon" and domain.simplex and name == "Auto"):
        pytest.skip("one case is compiled; the walk holds the others")
    gamma = 0.6
    problem, v = quadratic_problem(rng, gfy.FDivergence(f, UNEVEN, gamma, alpha), domain)
    wanted = np.stack([reference(u, A, f, alpha, gamma, domain) for u, A in zip(*v, strict=True)])
    solver = getattr(solvers, name)()
    reason = solver.unsupported(problem)
    if reason is not None:
        assert name in ("FrankWolfe", "ProjectedGradient"), reason
        assert f == "reverse-kl", reason
        return
    found = solver.solve(problem, type(v)(*(asarray(x) for x in v)), stop=gfy.Stop(1e-9, 5_000))
    np.testing.assert_allclose(tonumpy(found.p), wanted, atol=2e-5)
    assert gfy.certify(problem, v, tonumpy(found.p)).gap.max() < 1e-7


@COMPILED_LATER
@pytest.mark.parametrize("mode", [gfy.Implicit(), gfy.Unrolled(steps=60)], ids=name_of)
def test_gradient_modes_by_differences(
    mode: Any, backend: str, asarray: Make, tonumpy: Make, rng: np.random.Generator
) -> None:
    """d<c, p*>/du against central differences of roots of the optimality conditions, found by SciPy."""
    from scipy.optimize import root

    q, gamma, c = np.asarray(UNEVEN), 0.8, rng.normal(size=K)
    problem, v = quadratic_problem(rng, gfy.FDivergence("jensen-shannon", UNEVEN, gamma), gfy.Simplex())
    u, A = v.u[0], 0.5 * v.A[0]

    def best(u: np.ndarray) -> np.ndarray:
        def conditions(x: np.ndarray) -> np.ndarray:
            p = np.exp(x[:K])
            slope = u - A @ (A.T @ p) - gamma * np.log(2 * p / (p + q)) - x[K]
            return np.append(slope, p.sum() - 1)

        found = root(conditions, np.append(np.log(q), 0.0), tol=1e-14)
        assert np.abs(found.fun).max() < 1e-12
        return np.exp(found.x[:K])

    h = 1e-5
    wanted = np.array([c @ (best(u + h * e) - best(u - h * e)) / (2 * h) for e in np.eye(K)])
    solver = solvers.MirrorAscent() if isinstance(mode, gfy.Unrolled) else solvers.DualNewton()

    def pull(u: Any) -> Any:
        p = gfy.argmax(problem, gfy.Pairwise.Input(u=u, A=asarray(A)), solver=solver, gradient=mode)
        return (asarray(c) * p).sum(-1)

    _, pullback = get_backend(backend).vjp(pull, asarray(u))
    np.testing.assert_allclose(tonumpy(pullback(asarray(np.ones(())))[0]), wanted, atol=1e-6)


def test_bad_arguments_get_a_sentence(asarray: Make) -> None:
    for arguments, words in (
        ({"f": "hellinger"}, "FDivergence.f must be one of"),
        ({"f": "alpha"}, "needs a number"),
        ({"f": "kl", "alpha": 2.0}, "takes none"),
        ({"f": "alpha", "alpha": math.inf}, "finite number"),
        ({"prior": (0.5, 0.0)}, "positive and finite"),
        ({"prior": np.ones((2, 2))}, "one number per coordinate"),
        ({"gamma": 0.0}, "positive number"),
    ):
        with pytest.raises(gfy.GfyValueError, match=words):
            gfy.FDivergence(**arguments)  # type: ignore[arg-type]
    with pytest.raises(gfy.UnsupportedError, match="is defined for"):
        gfy.InnerProblem(gfy.Bilinear(), gfy.FDivergence(), gfy.Reals())
    with pytest.raises(gfy.UnsupportedError, match="may be infinite"):
        gfy.InnerProblem(gfy.Bilinear(), gfy.FDivergence("reverse-kl"), gfy.Box(0.0, math.inf))
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.FDivergence(prior=UNEVEN), gfy.Simplex())
    with pytest.raises(gfy.GfyValueError, match="has 5 numbers but p has 3"):
        gfy.argmax(problem, asarray(np.zeros((2, 3))))
