"""Kinks of rectifiers: gradients and certificates against CVXPY on the lifted problem (see `lifted`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import lifted
import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import get_backend
from gfy.energies.kinks import Kinks, Layer
from gfy.numerics.arithmetic import dot, matvec

pytest.importorskip("cvxpy")

Make = Callable[..., Any]
B, K = 3, 6
BOX = gfy.Box(0.0, 1.0)
HULL = gfy.ConvexHull(np.random.default_rng(5).uniform(0.05, 0.95, size=(K + 3, K)))
PAIRS = [
    (gfy.BinaryGini(0.3), BOX),
    (gfy.SquaredNorm(0.5), gfy.Simplex()),
    (gfy.Gini(0.5), gfy.CappedSimplex(2.5)),
    (gfy.SquaredNorm(0.3), HULL),
    (gfy.BinaryShannon(0.2), BOX),
    (gfy.Zero(), BOX),
]
NETWORKS = {"spen": (gfy.ConcaveSpen(), lifted.spen), "icnn": (gfy.InputConvexNetwork("relu"), lifted.icnn)}


def leaves(kind: str, seed: int = 3) -> dict[str, np.ndarray]:
    """Some leaves shared by the batch, some not; sizes unlike each other."""
    n = np.random.default_rng(seed).normal
    if kind == "spen":
        return {
            "u": 1.5 * n(size=(B, K)), "W1": n(size=(5, K)), "b1": n(size=(B, 5)), "W2": n(size=5),
            "b2": np.asarray(0.3),
        }  # fmt: skip
    return {
        "u": n(size=(B, K)), "W0": n(size=(7, K)), "b0": n(size=(B, 7)), "Wz": n(size=(4, 7)) - 1,
        "Wp": n(size=(4, K)), "b1": n(size=4), "wz": n(size=4),
    }  # fmt: skip


def on_a_kink(network: lifted.Network, p: np.ndarray) -> bool:
    """Whether p lies on a kink of some rectifier: else a test shows nothing."""
    return bool(np.abs(lifted.preactivations(network, p)).min() < 1e-6)


def slope(f: Callable[[float], float], step: float = 4e-4) -> float:
    """f'(0) by central differences, extrapolated once."""
    wide, narrow = ((f(h) - f(-h)) / (2 * h) for h in (step, step / 2))
    return (4 * narrow - wide) / 3


def gradient(backend: str, asarray: Make, tonumpy: Make, fn: Callable[[Any], Any], v: Any) -> dict[str, Any]:
    """The gradient of sum(fn(v)) by every leaf."""
    ops = get_backend(backend)
    pulled = ops.jit(lambda w: ops.vjp(lambda x: fn(x).sum(), w)[1](asarray(np.asarray(1.0)))[0])(v)
    return {field: tonumpy(leaf) for field, leaf in pulled._asdict().items()}


def place(energy: Any, values: dict[str, np.ndarray], make: Make) -> Any:
    return energy.Input(**{field: make(leaf) for field, leaf in values.items()})


def check_leaves(
    found: dict[str, np.ndarray],
    values: dict[str, np.ndarray],
    total: Callable[[dict[str, np.ndarray]], float],
) -> None:
    """The derivative of `total` along one random direction in each leaf; `total` solves by CVXPY."""
    for field, leaf in values.items():
        direction = np.random.default_rng(1).normal(size=leaf.shape)

        def along(h: float, field: str = field, leaf: Any = leaf, direction: Any = direction) -> float:
            return total(values | {field: leaf + h * direction})

        expected = slope(along)
        got = float((found[field] * direction).sum())
        assert got == pytest.approx(expected, rel=1e-5, abs=1e-5), field


def cases() -> list[Any]:
    """torch takes every pair, JAX (which compiles each) two per energy."""
    found = []
    for kind in NETWORKS:
        for number, (omega, domain) in enumerate(PAIRS):
            for backend in ("torch", "jax") if number < 2 else ("torch",):
                name = f"{kind}-{omega.name}-{domain.name}-{backend}"
                found.append(pytest.param(kind, omega, domain, backend, id=name))
    return found


@pytest.fixture
def make(backend: str) -> Make:
    pytest.importorskip(backend)
    return lambda x: get_backend(backend).asarray(np.array(x), dtype="float64")


@pytest.mark.thin(4)
@pytest.mark.parametrize(("kind", "omega", "domain", "backend"), cases())
def test_gradients_of_the_conjugate_agree_with_central_differences(
    kind: str, omega: Any, domain: Any, backend: str, make: Make
) -> None:
    energy, network = NETWORKS[kind]
    values = leaves(kind)
    problem = gfy.InnerProblem(energy, omega, domain)
    v = place(energy, values, make)
    tonumpy = get_backend(backend).to_numpy

    def total(w: dict[str, np.ndarray]) -> float:
        return sum(lifted.maximum(network(w, i), omega, domain)[0] for i in range(B))

    assert any(
        on_a_kink(network(values, i), lifted.maximum(network(values, i), omega, domain)[1]) for i in range(B)
    )
    modes = [gfy.Envelope()] if isinstance(omega, gfy.Zero) else [gfy.Envelope(), gfy.Implicit()]
    found = [
        gradient(backend, make, tonumpy, lambda w, mode=mode: gfy.conjugate(problem, w, gradient=mode), v)
        for mode in modes
    ]
    check_leaves(found[0], values, total)
    for field in values:
        np.testing.assert_allclose(found[-1][field], found[0][field], rtol=1e-8, atol=1e-8)


@pytest.mark.thin(9)
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_gradients_of_the_losses_agree_with_central_differences(backend: str, make: Make) -> None:
    energy, network = NETWORKS["spen"]
    values, tonumpy = leaves("spen", 7), get_backend(backend).to_numpy
    v = place(energy, values, make)
    omega = gfy.BinaryGini(0.3)
    y = np.random.default_rng(2).integers(0, 2, size=(B, K)).astype(float)
    problem = gfy.InnerProblem(energy, omega, BOX)

    def at_target(w: dict[str, np.ndarray], chosen: Any) -> float:
        return sum(lifted.value(network(w, i), chosen, y[i]) for i in range(B))

    def fenchel_young(w: dict[str, np.ndarray]) -> float:
        return sum(lifted.maximum(network(w, i), omega, BOX)[0] for i in range(B)) - at_target(w, omega)

    def margin(w: dict[str, np.ndarray], size: float) -> float:
        """max Phi + size <y, 1 - p> + size <1 - y, p>, which moves u; the perceptron's loss is that of size 0."""
        moved = w | {"u": w["u"] + size * (1 - 2 * y)}
        best = sum(lifted.maximum(network(moved, i), gfy.Zero(), BOX)[0] for i in range(B))
        return best + size * float(y.sum()) - at_target(w, gfy.Zero())

    losses = [
        (gfy.FenchelYoungLoss(problem), fenchel_young),
        (gfy.PerceptronLoss(problem), lambda w: margin(w, 0.0)),
        (gfy.MarginLoss(problem, margin=0.7), lambda w: margin(w, 0.7)),
    ]
    for loss, total in losses if backend == "torch" else losses[:1]:
        assert float(tonumpy(loss(v, make(y)).sum())) == pytest.approx(total(values), abs=1e-8)
        check_leaves(gradient(backend, make, tonumpy, lambda w, f=loss: f(w, make(y)), v), values, total)


@pytest.mark.thin(4)
@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("kind", ["spen", "icnn"])
def test_implicit_derivatives_of_the_argmax(kind: str, backend: str, make: Make) -> None:
    """Against central differences of CVXPY's p, its active bounds and kinks solved for exactly."""
    energy, network = NETWORKS[kind]
    values, tonumpy = leaves(kind), get_backend(backend).to_numpy
    v = place(energy, values, make)
    weight = np.random.default_rng(4).normal(size=(B, K))
    for omega, domain in PAIRS[:2] if backend == "torch" else PAIRS[:1]:
        problem = gfy.InnerProblem(energy, omega, domain)

        def total(w: dict[str, np.ndarray], omega: Any = omega, domain: Any = domain) -> float:
            return sum(float(weight[i] @ lifted.polished(network(w, i), omega, domain)) for i in range(B))

        fn = lambda w, problem=problem: make(weight) * gfy.argmax(problem, w, gradient=gfy.Implicit())  # noqa: E731
        check_leaves(gradient(backend, make, tonumpy, fn, v), values, total)


@pytest.mark.slow
def test_second_derivatives_of_the_loss_with_implicit_gradients() -> None:
    """In JAX: the multipliers move with v as well. The reference differentiates the first derivative by differences."""
    jax = pytest.importorskip("jax")
    energy, _ = NETWORKS["spen"]
    v = place(energy, leaves("spen"), jax.numpy.asarray)
    problem = gfy.InnerProblem(energy, gfy.BinaryGini(0.3), BOX)
    directions = [np.random.default_rng(seed).normal(size=(5, K)) for seed in (1, 2)]

    def first(h: Any) -> Any:
        def value(g: Any) -> Any:
            W1 = v.W1 + h * directions[0] + g * directions[1]
            return gfy.conjugate(problem, v._replace(W1=W1), gradient=gfy.Implicit()).sum()

        return jax.grad(value)(0.0)

    exact = float(jax.jit(jax.grad(first))(0.0))
    ahead, behind = (float(jax.jit(first)(h)) for h in (1e-5, -1e-5))
    assert exact == pytest.approx((ahead - behind) / 2e-5, rel=1e-5)


CERTIFIED = [*PAIRS, (gfy.SquaredNorm(0.4), gfy.Ball(1.0)), (gfy.Shannon(0.3), gfy.Simplex())]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("omega", "domain"), CERTIFIED, ids=lambda x: x.name)
@pytest.mark.parametrize("kind", ["spen", "icnn"])
def test_certificates_bound_any_point_and_vanish_at_the_solution(kind: str, omega: Any, domain: Any) -> None:
    torch = pytest.importorskip("torch")
    energy, network = NETWORKS[kind]
    values = leaves(kind)
    v = place(energy, values, torch.as_tensor)
    problem = gfy.InnerProblem(energy, omega, domain)
    best = np.array([lifted.maximum(network(values, i), omega, domain)[0] for i in range(B)])
    p = gfy.argmax(problem, v, stop=gfy.Stop(1e-12, 200), return_solution=True).p  # the certificate judges it
    certificate = gfy.certify(problem, v, p)
    assert (certificate.gap <= 1e-9 * (1 + np.abs(best))).all()
    rng = np.random.default_rng(0)
    for _ in range(4):
        q = domain.project(rng.normal(size=(B, K)))
        missing = best - [lifted.value(network(values, i), omega, q[i]) for i in range(B)]
        gap = gfy.certify(problem, v, torch.as_tensor(q)).gap
        assert (gap >= missing - 1e-7).all()  # 1e-7: what Clarabel leaves on a ball
        assert (gap <= missing + 1e-7).all()  # the best multipliers make the bound tight


class ChainInput(NamedTuple):
    u: Any  # [..., k]
    M: Any  # [..., 4, k]
    b: Any  # [..., 4]


@dataclass(frozen=True)
class Chain(gfy.Energy):
    """<u, p> - max_j <M_j, p> + b_j over four functions: an energy of a third party, three rectifiers in a chain."""

    Input = ChainInput
    ranks = {"u": 1, "M": 2, "b": 1}
    in_v = "nonconvex"
    smooth = False
    kinked = True

    def value(self, v: Any, p: Any) -> Any:
        xp = gfy.backend_of(p).xp
        return dot(v.u, p) - xp.max(matvec(v.M, p) + v.b, axis=-1)

    def dim(self, v: Any) -> int:
        return int(v.u.shape[-1])

    def kinks(self, v: Any, p: Any = None) -> Kinks:
        one = gfy.backend_of(v).asarray(np.ones((1, 1)), like=v.u)
        M, b = v.M[..., :-1, :] - v.M[..., 1:, :], v.b[..., :-1] - v.b[..., 1:]
        layers = tuple(
            Layer(M[..., j : j + 1, :], b[..., j : j + 1], None if j == 0 else one) for j in range(3)
        )
        return Kinks(v.u - v.M[..., -1, :], -v.b[..., -1], layers, one[0])


@pytest.mark.thin(9)
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_an_energy_of_a_third_party_with_three_layers_gets_everything(backend: str, make: Make) -> None:
    import cvxpy as cp

    n = np.random.default_rng(0).normal
    values = {"u": n(size=(B, K)), "M": 2 * n(size=(4, K)), "b": n(size=(B, 4))}
    v = place(Chain(), values, make)
    omega = gfy.SquaredNorm(0.2)
    problem = gfy.InnerProblem(Chain(), omega, gfy.Simplex())

    def total(w: dict[str, np.ndarray]) -> float:
        found = 0.0
        for i in range(B):
            p = cp.Variable(K)
            top = cp.max(w["M"] @ p + w["b"][i])
            model = cp.Problem(
                cp.Maximize(w["u"][i] @ p - top - 0.1 * cp.sum_squares(p)), [p >= 0, cp.sum(p) == 1]
            )
            found += float(model.solve(solver=cp.CLARABEL, **lifted.TIGHT))
        return found

    tonumpy = get_backend(backend).to_numpy
    found = solvers.Auto().solve(problem, v)
    assert bool(found.converged.all())
    assert (gfy.certify(problem, v, found.p).gap <= 1e-9).all()
    scores = np.sort(np.einsum("jk,bk->bj", values["M"], tonumpy(found.p)) + values["b"], axis=-1)
    assert (scores[:, -1] - scores[:, -2]).min() < 1e-9  # some maximum has ties: else the test shows nothing
    assert float(tonumpy(gfy.conjugate(problem, v).sum())) == pytest.approx(total(values), abs=1e-8)
    for mode in (gfy.Envelope(), gfy.Implicit()) if backend == "torch" else (gfy.Envelope(),):
        fn = lambda w, mode=mode: gfy.conjugate(problem, w, gradient=mode)  # noqa: E731
        check_leaves(gradient(backend, make, tonumpy, fn, v), values, total)


class Fixed(NamedTuple):
    """A solver that returns what it was given."""

    p: Any
    name: str = "Fixed"

    def unsupported(self, problem: Any) -> str | None:
        return None

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> Any:
        zero = 0 * self.p[..., 0]
        return gfy.Solution(self.p, zero, zero, zero == 0)


@pytest.mark.slow
def test_a_spen_that_is_not_concave_is_differentiable_at_its_local_maxima() -> None:
    """A local maximum by the convex-concave procedure in CVXPY; rectifiers with W2 < 0 are replaced by tangents."""
    torch = pytest.importorskip("torch")
    values = leaves("spen", 11)
    values["W2"] = np.array([0.9, 1.3, -0.6, 0.8, -0.4])
    values["u"] = 0.3 * values["u"]
    values["b1"] = 0.2 * values["b1"] - values["W1"] @ np.full(K, 0.5)  # kinks pass near the centre of C
    omega = gfy.BinaryGini(0.2)

    def local(w: dict[str, np.ndarray], i: int, p: np.ndarray) -> tuple[float, np.ndarray]:
        up = w["W2"] < 0
        for _ in range(20):
            inner = w["W1"] @ p + w["b1"][i]
            tangent = np.where(up & (inner > 0), w["W2"], 0.0)
            network = lifted.Network(
                w["u"][i] - w["W1"].T @ tangent,
                -float(w["b2"]) - float(tangent @ w["b1"][i]),
                [(w["W1"], w["b1"][i], None)],
                np.maximum(w["W2"], 0),
            )
            best, p = lifted.maximum(network, omega, BOX)
        return best, p

    points = [local(values, i, np.full(K, 0.5))[1] for i in range(B)]
    hidden = np.array([values["W1"] @ p + values["b1"][i] for i, p in enumerate(points)])
    assert (np.abs(hidden[:, values["W2"] > 0]) < 1e-7).any()
    assert (np.abs(hidden[:, values["W2"] < 0]) > 1e-3).all()
    v = place(gfy.Spen(), values, torch.as_tensor)
    problem = gfy.InnerProblem(gfy.Spen(), omega, BOX)
    fixed = Fixed(torch.as_tensor(np.array(points)))
    to = lambda x: x.detach().numpy()  # noqa: E731
    found = gradient("torch", torch.as_tensor, to, lambda w: gfy.conjugate(problem, w, fixed), v)
    check_leaves(found, values, lambda w: sum(local(w, i, points[i])[0] for i in range(B)))


def test_unrolling_through_kinks_is_refused_and_explained() -> None:
    torch = pytest.importorskip("torch")
    v = place(gfy.ConcaveSpen(), leaves("spen"), torch.as_tensor)
    problem = gfy.InnerProblem(gfy.ConcaveSpen(), gfy.BinaryGini(), BOX)
    with pytest.raises(gfy.UnsupportedError, match="ConcaveSpen has kinks in p"):
        gfy.argmax(problem, v, solvers.ProjectedGradient(), gfy.Unrolled())
    explained = gfy.explain(problem, v, solvers=[solvers.DualNewton()])
    assert explained.holds("envelope theorem")
    assert "where the multipliers of its kinks are unique" in str(explained)
    entropy = gfy.InnerProblem(gfy.ConcaveSpen(), gfy.Shannon(), HULL)
    assert "no argmax map" in str(
        gfy.explain(entropy, v, solvers=[solvers.DualNewton()]).gradients["envelope"]
    )
