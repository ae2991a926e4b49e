"""Energies that a user writes: trees as inputs, batch axes, captured weights, and every gradient mode.

The reference is closed: max_p <u, p> - |p W|^2 / 2 - |p|^2 / 2 over all of R^k has p* = (I + W W^T)^-1 u, which NumPy
solves; derivatives are its central differences.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import leaves, tree_map

pytestmark = pytest.mark.thin(3)  # compiling for JAX takes most of the time

Make = Callable[..., Any]
BATCH, K, HIDDEN = 5, 4, 3
STOP = gfy.Stop(1e-12, 5_000)
rng = np.random.default_rng(7)
U, W = rng.normal(size=(BATCH, K)), 0.25 * rng.normal(size=(K, HIDDEN))
SLOPE = rng.normal(size=(BATCH, K))


def solution(u: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.linalg.solve(np.eye(K) + w @ w.T, u.T).T


def central(fn: Callable[[np.ndarray], float], x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    found = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = h
        found[place] = (fn(x + step) - fn(x - step)) / (2 * h)
    return found


def weighed(u: np.ndarray, w: np.ndarray) -> float:
    return float((SLOPE * solution(u, w)).sum())


def maximum(u: np.ndarray, w: np.ndarray) -> float:
    p = solution(u, w)
    return float(((u * p).sum(-1) - 0.5 * ((p @ w) ** 2).sum(-1) - 0.5 * (p * p).sum(-1)).sum())


IN_U = central(lambda u: weighed(u, W), U)
IN_W = central(lambda w: weighed(U, w), W)
VALUE_IN_W = central(lambda w: maximum(U, w), W)


def problem(fn: Callable[..., Any], **settings: Any) -> gfy.InnerProblem:
    energy = gfy.CustomEnergy(fn, concave=True, **{"k": K, **settings})
    return gfy.InnerProblem(energy, gfy.SquaredNorm(), gfy.Reals())


def quadratic(u: Any, w: Any, p: Any) -> Any:
    return (u * p).sum(-1) - 0.5 * ((p @ w) ** 2).sum(-1)


def of_dict(v: Any, p: Any) -> Any:
    return quadratic(v["u"], v["W"], p)


class Pair(NamedTuple):
    W: Any
    u: Any


def pulled(backend: str, fn: Callable[[Any], Any], v: Any) -> Any:
    """The gradient of sum(fn(v)) in every leaf."""
    if backend == "jax":
        import jax

        return jax.grad(lambda w: fn(w).sum())(v)
    import torch

    tracked = tree_map(lambda x: x.detach().requires_grad_(), v)
    found = iter(torch.autograd.grad(fn(tracked).sum(), list(leaves(tracked))))
    return tree_map(lambda _: next(found), tracked)


TREES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "dict": (lambda u, w: {"u": u, "W": w}, of_dict),
    "dict with the weights last": (lambda u, w: {"a": u, "z": w}, lambda v, p: quadratic(v["a"], v["z"], p)),
    "tuple": (lambda u, w: (w, u), lambda v, p: quadratic(v[1], v[0], p)),
    "NamedTuple": (lambda u, w: Pair(w, u), lambda v, p: quadratic(v.u, v.W, p)),
    "nest": (lambda u, w: {"net": [w], "x": (u,)}, lambda v, p: quadratic(v["x"][0], v["net"][0], p)),
}


@pytest.mark.thin(6)
@pytest.mark.parametrize("tree", TREES)
def test_trees_of_any_kind_and_their_gradients(tree: str, backend: str, asarray: Make, tonumpy: Make) -> None:
    make, fn = TREES[tree]
    v = make(asarray(U), asarray(W))
    p = gfy.argmax(problem(fn), v, stop=STOP)
    assert np.abs(tonumpy(p) - solution(U, W)).max() < 1e-10
    grad = pulled(
        backend, lambda v: gfy.argmax(problem(fn), v, gradient="implicit", stop=STOP) * asarray(SLOPE), v
    )
    wanted = make(IN_U, IN_W)
    for mine, other in zip(leaves(grad), leaves(wanted), strict=True):
        assert np.abs(tonumpy(mine) - other).max() < 1e-7


@pytest.mark.thin(2)
@pytest.mark.parametrize("linear_solve", ["auto", "dense", "cg", "gmres", "neumann"])
def test_implicit_gradients_of_a_function_by_every_linear_solve(
    linear_solve: str, backend: str, asarray: Make, tonumpy: Make
) -> None:
    mode = gfy.Implicit(linear_solve, tol=1e-12)
    v = {"u": asarray(U), "W": asarray(W)}
    grad = pulled(
        backend, lambda v: gfy.argmax(problem(of_dict), v, gradient=mode, stop=STOP) * asarray(SLOPE), v
    )
    assert np.abs(tonumpy(grad["u"]) - IN_U).max() < 1e-7
    assert np.abs(tonumpy(grad["W"]) - IN_W).max() < 1e-7


@pytest.mark.parametrize("checkpoint", [False, True])
def test_unrolled_gradients_of_a_function(
    checkpoint: bool, backend: str, asarray: Make, tonumpy: Make
) -> None:
    mode, v = gfy.Unrolled(60, checkpoint=checkpoint), {"u": asarray(U), "W": asarray(W)}
    descent = solvers.ProjectedGradient()
    grad = pulled(
        backend, lambda v: gfy.argmax(problem(of_dict), v, descent, mode, stop=STOP) * asarray(SLOPE), v
    )
    assert np.abs(tonumpy(grad["u"]) - IN_U).max() < 1e-7
    assert np.abs(tonumpy(grad["W"]) - IN_W).max() < 1e-7


MODES = [gfy.Implicit(), gfy.Unrolled(60)]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_weights_that_a_function_captured_receive_their_gradient(
    mode: Any, backend: str, asarray: Make, tonumpy: Make
) -> None:
    def fn(w: Any) -> Any:
        held = problem(lambda u, p: quadratic(u, w, p))
        return gfy.argmax(held, asarray(U), "ProjectedGradient", mode, stop=STOP) * asarray(SLOPE)

    assert np.abs(tonumpy(pulled(backend, fn, asarray(W))) - IN_W).max() < 1e-7


def test_captured_weights_receive_the_envelope_gradient(backend: str, asarray: Make, tonumpy: Make) -> None:
    def fn(w: Any) -> Any:
        return gfy.conjugate(problem(lambda u, p: quadratic(u, w, p)), asarray(U), stop=STOP)

    assert np.abs(tonumpy(pulled(backend, fn, asarray(W))) - VALUE_IN_W).max() < 1e-7


def test_captured_weights_under_jit_and_vmap() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def one(w: Any, u: Any) -> Any:
        held = problem(lambda u, p: quadratic(u, w, p))
        return gfy.argmax(held, u, gradient=gfy.Implicit(), stop=STOP)

    def whole(w: Any) -> Any:
        return (one(w, jnp.asarray(U)) * SLOPE).sum()

    def mapped(w: Any) -> Any:
        return (jax.vmap(lambda u: one(w, u))(jnp.asarray(U)) * SLOPE).sum()

    for fn in (whole, mapped):
        assert np.abs(np.asarray(jax.jit(jax.grad(fn))(jnp.asarray(W))) - IN_W).max() < 1e-7


def test_what_a_function_captured_may_change_between_calls(asarray: Make, tonumpy: Make) -> None:
    class Net:
        scale, W = 1.0, asarray(W)

        def __call__(self, u: Any, p: Any) -> Any:
            return quadratic(self.scale * u, self.W, p)

    net = Net()
    here = problem(net)
    assert np.abs(tonumpy(gfy.argmax(here, asarray(U), stop=STOP)) - solution(U, W)).max() < 1e-10
    net.W = 2 * net.W
    assert np.abs(tonumpy(gfy.argmax(here, asarray(U), stop=STOP)) - solution(U, 2 * W)).max() < 1e-10
    net.scale = 3.0
    assert np.abs(tonumpy(gfy.argmax(here, asarray(U), stop=STOP)) - solution(3 * U, 2 * W)).max() < 1e-10


def test_functions_inside_the_other_energies_capture_too(backend: str, asarray: Make, tonumpy: Make) -> None:
    """Gibbs' distribution of given energies x W; a quadratic cost in place of a metric."""
    x, w = rng.normal(size=(BATCH, 3)), rng.normal(size=(3, K))

    def gibbs(w: np.ndarray) -> float:
        scores = np.exp(x @ w)
        return float((SLOPE * scores / scores.sum(-1, keepdims=True)).sum())

    def through(w: Any) -> Any:
        held = gfy.InnerProblem(gfy.Probabilistic(lambda v: v @ w), gfy.Shannon(), gfy.Simplex())
        return gfy.argmax(held, asarray(x), gradient="implicit") * asarray(SLOPE)

    assert np.abs(tonumpy(pulled(backend, through, asarray(w))) - central(gibbs, w)).max() < 1e-7

    weights = rng.uniform(0.5, 2.0, size=K)

    def pulled_back(weights: np.ndarray) -> float:  # max -sum w (v - p)^2 / 2 - |p|^2 / 2
        return float((SLOPE * weights * U / (1 + weights)).sum())

    def metric(weights: Any) -> Any:
        cost = lambda v, p: 0.5 * (weights * (v - p) ** 2).sum(-1)  # noqa: E731
        held = gfy.InnerProblem(gfy.Metric(cost), gfy.SquaredNorm(), gfy.Reals())
        return gfy.argmax(held, asarray(U), gradient="implicit", stop=STOP) * asarray(SLOPE)

    assert (
        np.abs(tonumpy(pulled(backend, metric, asarray(weights))) - central(pulled_back, weights)).max()
        < 1e-7
    )


def test_newton_steps_use_the_hessian_products_of_a_function(asarray: Make, tonumpy: Make) -> None:
    v = gfy.CustomEnergy.Input({"u": asarray(U), "W": asarray(W)})
    found = solvers.ProjectedNewton().solve(problem(of_dict), v, stop=STOP)
    assert np.abs(tonumpy(found.p) - solution(U, W)).max() < 1e-10
    assert int(tonumpy(found.steps).max()) <= 3


# batch axes


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_batch_does_not_depend_on_the_names_of_the_leaves(
    batch: tuple[int, ...], names: tuple[str, str], asarray: Make, tonumpy: Make
) -> None:
    one, two = names
    u = np.random.default_rng(1).normal(size=(*batch, K))
    v = {one: asarray(u), two: asarray(W)}
    p = gfy.argmax(problem(lambda v, p: quadratic(v[one], v[two], p)), v, stop=STOP)
    assert tuple(p.shape) == (*batch, K)
    assert np.abs(tonumpy(p) - solution(u.reshape(-1, K), W).reshape(*batch, K)).max() < 1e-10


def test_a_function_that_wants_its_batch_is_asked_with_one(
    backend: str, asarray: Make, tonumpy: Make
) -> None:
    """einsum with a letter for the batch takes no p [k]: the leading axes of the leaves are tried."""
    xp = gfy.get_backend(backend).xp

    def strict(v: Any, p: Any) -> Any:
        image = xp.einsum("bk,kh->bh", p, v["W"]) if backend == "jax" else p.mm(v["W"])
        return (v["u"] * p).sum(1) - 0.5 * (image**2).sum(1)

    v = {"W": asarray(W), "u": asarray(U)}
    assert np.abs(tonumpy(gfy.argmax(problem(strict), v, stop=STOP)) - solution(U, W)).max() < 1e-10


def twofold(v: Any, p: Any) -> Any:
    """Takes a batch of either leaf's length, and no p [k]."""
    if p.ndim != 2:
        raise IndexError("a batch is wanted")
    return (p * p).sum(-1) * (0 * v["a"].sum() + 0 * v["b"].sum() - 1)


def test_a_batch_that_is_not_clear_is_asked_for(asarray: Make) -> None:
    v = {"a": asarray(np.ones((2, 7))), "b": asarray(np.ones((3, 7)))}
    with pytest.raises(
        gfy.GfyValueError, match=r"\(2,\) or \(3,\); declare it with CustomEnergy\(..., batched="
    ):
        gfy.argmax(problem(twofold), v)
    for batched in ("a", ("a",), {"a": True, "b": False}, {"a": 1, "b": 2}):
        assert tuple(gfy.argmax(problem(twofold, batched=batched), v).shape) == (2, K)
    assert tuple(gfy.argmax(problem(twofold, batched={"a": False, "b": 1}), v).shape) == (3, K)


def test_declarations_that_do_not_fit(asarray: Make) -> None:
    v = {"u": asarray(U), "W": asarray(W)}
    with pytest.raises(gfy.GfyValueError, match="names q, and v has W, u"):
        gfy.argmax(problem(twofold, batched="q"), v)
    with pytest.raises(gfy.GfyTypeError, match="must be a tree like v"):
        gfy.argmax(problem(twofold, batched=[True, False]), v)
    with pytest.raises(gfy.GfyTypeError, match="v is a tuple"):
        gfy.argmax(problem(twofold, batched="u"), (asarray(U), asarray(W)))
    with pytest.raises(gfy.GfyValueError, match="cannot be computed with this v"):
        gfy.argmax(problem(lambda v, p: (v["u"] @ v["W"].T @ p).sum()), v)
    with pytest.raises(gfy.GfyValueError, match="one value per example"):
        gfy.argmax(problem(lambda v, p: p, batched={"u": 1, "W": 2}), v)


def test_examples_are_taken_apart_with_shared_leaves_kept(asarray: Make, tonumpy: Make) -> None:
    energy = gfy.CustomEnergy(of_dict, concave=True, k=K)
    square = asarray(np.eye(K))  # as many rows as the batch below: its length alone says nothing
    v = gfy.CustomEnergy.Input({"u": asarray(U[:K]), "W": square})
    assert energy.axes(v).v == {"u": 1, "W": 0}
    declared = gfy.CustomEnergy(of_dict, concave=True, k=K, batched={"u": 1, "W": 2})
    assert declared.axes(v).v == {"u": 1, "W": 0}
    box = gfy.InnerProblem(energy, gfy.SquaredNorm(), gfy.Box(-5.0, 5.0))
    many = solvers.MultiStart(starts=2).solve(box, v, stop=STOP)
    assert np.abs(tonumpy(many.p) - solution(U[:K], np.eye(K))).max() < 1e-8


def test_the_peer_that_maps_over_examples_keeps_shared_leaves() -> None:
    pytest.importorskip("jaxopt")
    jnp = pytest.importorskip("jax.numpy")
    box = gfy.InnerProblem(
        gfy.CustomEnergy(of_dict, concave=True, k=K), gfy.SquaredNorm(), gfy.Box(-5.0, 5.0)
    )
    v = gfy.CustomEnergy.Input({"u": jnp.asarray(U), "W": jnp.asarray(W)})
    found = solvers.JaxoptProjectedGradient().solve(box, v, stop=gfy.Stop(1e-10, 2_000))
    assert np.abs(np.asarray(found.p) - solution(U, W)).max() < 1e-8


def test_the_size_of_p_is_read_from_the_target_and_from_p0(asarray: Make, tonumpy: Make) -> None:
    held, v = problem(of_dict, k=None), {"u": asarray(U), "W": asarray(W)}
    y = np.zeros((BATCH, K))
    loss = gfy.FenchelYoungLoss(held, stop=STOP)(v, asarray(y))
    p = solution(U, W)
    best = (U * p).sum(-1) - 0.5 * ((p @ W) ** 2).sum(-1) - 0.5 * (p * p).sum(-1)
    assert np.abs(tonumpy(loss) - best).max() < 1e-10
    assert np.abs(tonumpy(gfy.argmax(held, v, p0=asarray(y), stop=STOP)) - p).max() < 1e-10
    with pytest.raises(gfy.GfyTypeError, match="does not know the size of p"):
        gfy.argmax(held, v)


def test_class_indices_need_the_number_of_classes(asarray: Make, tonumpy: Make) -> None:
    """As many classes as examples is no answer: cross-entropy of three examples and five classes."""
    scores, y = rng.normal(size=(3, 5)), np.array([4, 0, 2])
    settings = (gfy.Shannon(), gfy.Simplex())
    fn = lambda v, p: (v * p).sum(-1)  # noqa: E731
    known = gfy.FenchelYoungLoss(
        gfy.InnerProblem(gfy.CustomEnergy(fn, concave=True, k=5), *settings), stop=STOP
    )
    wanted = np.log(np.exp(scores).sum(-1)) - scores[np.arange(3), y]
    assert np.abs(tonumpy(known(asarray(scores), asarray(y))) - wanted).max() < 1e-8
    unknown = gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.CustomEnergy(fn, concave=True), *settings))
    with pytest.raises(gfy.GfyTypeError, match="how many classes there are, k=..."):
        unknown(asarray(scores), asarray(y))


def test_margin_losses_shift_a_function_that_captured_weights(
    backend: str, asarray: Make, tonumpy: Make
) -> None:
    """max over the box of <u, p> - |p W|^2 / 2 + <1 - 2 y, p>, solved by brute force, in W by central differences."""
    from scipy.optimize import minimize

    y = (U > 0).astype(float)

    def value(w: np.ndarray) -> float:
        total = 0.0
        for u, target in zip(U, y, strict=True):
            slope = u + 1 - 2 * target
            found = minimize(
                lambda p, s=slope: -(s @ p) + 0.5 * ((p @ w) ** 2).sum(),
                np.full(K, 0.5),
                jac=lambda p, s=slope: -s + w @ (p @ w),
                bounds=[(0, 1)] * K,
                options={"ftol": 0, "gtol": 1e-12},
            )
            total += -found.fun + target.sum() - (u @ target - 0.5 * ((target @ w) ** 2).sum())
        return total

    def through(w: Any) -> Any:
        held = gfy.InnerProblem(
            gfy.CustomEnergy(lambda u, p: quadratic(u, w, p), concave=True, k=K),
            gfy.SquaredNorm(),
            gfy.Box(0.0, 1.0),
        )
        return gfy.MarginLoss(held, stop=gfy.Stop(1e-11, 20_000))(asarray(U), asarray(y))

    assert abs(float(tonumpy(through(asarray(W)).sum())) - value(W)) < 1e-8
    assert np.abs(tonumpy(pulled(backend, through, asarray(W))) - central(value, W, 1e-4)).max() < 1e-5


# modules


def test_torch_modules_inside_and_their_certificate() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(K, HIDDEN), torch.nn.Softplus())
    held = problem(lambda u, p: (u * p).sum(-1) - net(p).sum(-1))
    u = torch.tensor(U, dtype=torch.float32)
    for mode in (gfy.Implicit(), gfy.Unrolled(40)):
        net.zero_grad()
        stop = gfy.Stop(1e-4)
        gfy.argmax(held, u, "ProjectedGradient", mode, stop=stop).sum().backward()
        slope, h = net[0].weight.grad[1, 2].item(), 1e-2
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                net[0].weight[1, 2] += sign * h
                ends.append(gfy.argmax(held, u, stop=gfy.Stop(1e-7)).sum().item())
                net[0].weight[1, 2] -= sign * h
        assert abs(slope - (ends[0] - ends[1]) / (2 * h)) < 2e-3
    p = gfy.argmax(held, u)
    proof = gfy.certify(held, u, p)
    # the same energy in float64 by hand: softplus is log(1 + e^x)
    weight, bias = (x.detach().double().numpy() for x in net[0].parameters())
    q = p.double().numpy()
    value = (
        (u.double().numpy() * q).sum(-1)
        - np.logaddexp(0, q @ weight.T + bias).sum(-1)
        - 0.5 * (q * q).sum(-1)
    )
    assert np.abs(proof.value - value).max() < 1e-12
    assert proof.gap.max() < 1e-10
    assert net[0].weight.dtype == torch.float32


def test_a_solver_called_by_itself_records_nothing_of_captured_tensors() -> None:
    torch = pytest.importorskip("torch")
    w = torch.tensor(W, requires_grad=True)
    held = problem(lambda u, p: quadratic(u, w, p))
    found = solvers.ProjectedGradient().solve(held, gfy.CustomEnergy.Input(torch.tensor(U)), stop=STOP)
    assert not found.p.requires_grad
    assert np.abs(found.p.numpy() - solution(U, W)).max() < 1e-10


def test_a_function_that_casts_to_float32_is_told(asarray: Make, backend: str) -> None:
    narrow = (lambda x: x.float()) if backend == "torch" else (lambda x: x.astype("float32"))
    held = problem(lambda u, p: narrow((u * p).sum(-1)) - narrow(0.5 * (p * p).sum(-1)))
    with pytest.warns(gfy.PrecisionWarning, match="casts float64 numbers to a narrower dtype"):
        gfy.certify(held, asarray(U), asarray(U / 2))


@pytest.mark.thin(9)
@pytest.mark.parametrize("library", ["equinox", "flax.linen", "flax.nnx"])
def test_jax_modules_inside(library: str) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip(library.partition(".")[0])
    jnp = jax.numpy
    make = {"equinox": _equinox, "flax.linen": _linen, "flax.nnx": _nnx}[library]
    weights, apply = make(jax)
    u = jnp.asarray(U)

    def total(weights: Any, mode: Any) -> Any:
        held = problem(lambda u, p: (u * p).sum(-1) - jnp.logaddexp(0, apply(weights, p)).sum(-1))
        return (gfy.argmax(held, u, "ProjectedGradient", mode, stop=STOP) * SLOPE).sum()

    flat, structure = jax.tree_util.tree_flatten(weights)
    for mode in MODES:
        slopes = jax.tree_util.tree_leaves(jax.grad(total)(weights, mode))
        for n, (leaf, slope) in enumerate(zip(flat, slopes, strict=True)):
            place = tuple(0 for _ in leaf.shape)
            ends = []
            for h in (1e-5, -1e-5):
                moved = structure.unflatten([*flat[:n], leaf.at[place].add(h), *flat[n + 1 :]])
                ends.append(_by_newton(lambda p, w=moved: np.asarray(apply(w, jnp.asarray(p)))))
            wanted = (SLOPE * (ends[0] - ends[1])).sum() / 2e-5
            assert abs(float(slope[place]) - wanted) < 1e-5


def _by_newton(hidden: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """max <u, p> - sum log(1 + e^z(p)) - |p|^2 / 2 with z affine, by Newton's method in NumPy."""
    bias = hidden(np.zeros((1, K)))[0]
    matrix = hidden(np.eye(K)) - bias
    p = np.zeros_like(U)
    for _ in range(50):
        s = 1 / (1 + np.exp(-(p @ matrix + bias)))
        hessian = np.eye(K) + np.einsum("kh,bh,lh->bkl", matrix, s * (1 - s), matrix)
        p = p + np.linalg.solve(hessian, (U - s @ matrix.T - p)[..., None])[..., 0]
    return p


def _equinox(jax: Any) -> tuple[Any, Callable[..., Any]]:
    import equinox as eqx

    net = eqx.nn.Linear(K, HIDDEN, key=jax.random.key(0), dtype=jax.numpy.float64)
    return net, lambda net, p: jax.numpy.einsum("...k,hk->...h", p, net.weight) + net.bias


def _linen(jax: Any) -> tuple[Any, Callable[..., Any]]:
    import flax.linen as nn

    net = nn.Dense(HIDDEN, param_dtype=jax.numpy.float64)
    return net.init(jax.random.key(0), jax.numpy.zeros(K)), net.apply


def _nnx(jax: Any) -> tuple[Any, Callable[..., Any]]:
    from flax import nnx

    net = nnx.Linear(K, HIDDEN, rngs=nnx.Rngs(0), param_dtype=jax.numpy.float64)
    graph, state = nnx.split(net)
    return state, lambda state, p: nnx.merge(graph, state)(p)


def test_modules_of_jax_may_stand_in_v() -> None:
    """A module is a tree to JAX, and to us."""
    jax = pytest.importorskip("jax")
    eqx = pytest.importorskip("equinox")
    net = eqx.nn.Linear(K, HIDDEN, use_bias=False, key=jax.random.key(0), dtype=jax.numpy.float64)
    net = eqx.tree_at(lambda n: n.weight, net, jax.numpy.asarray(W.T))
    held = problem(lambda v, p: quadratic(v["u"], v["net"].weight.T, p))
    v = {"u": jax.numpy.asarray(U), "net": net}
    grad = jax.grad(lambda v: (gfy.argmax(held, v, gradient="implicit", stop=STOP) * SLOPE).sum())(v)
    assert np.abs(np.asarray(grad["net"].weight) - IN_W.T).max() < 1e-7
    with pytest.raises(gfy.GfyTypeError, match="a module goes into the function"):
        gfy.argmax(held, {"u": jax.numpy.asarray(U), "net": object()})


def test_torch_transforms_of_a_function() -> None:
    torch = pytest.importorskip("torch")
    fn = lambda p: quadratic(torch.tensor(U), torch.tensor(W), p)  # noqa: E731
    hessian = torch.func.jacrev(lambda p: gfy.get_backend("torch").gradient(fn, p))(torch.tensor(SLOPE))
    wanted = -np.einsum("ab,ij->aibj", np.eye(BATCH), W @ W.T)
    assert np.abs(hessian.numpy() - wanted).max() < 1e-12


def test_integers_in_v_stay_indices(asarray: Make, tonumpy: Make) -> None:
    table = rng.normal(size=(6, K))
    held = problem(lambda v, p: (v["table"][v["which"]] * p).sum(-1))
    v = {"table": asarray(table), "which": asarray(np.array([3, 0, 5]))}
    p = gfy.argmax(held, v, stop=STOP)
    assert np.abs(tonumpy(p) - table[[3, 0, 5]]).max() < 1e-10
    assert gfy.certify(held, v, p).gap.max() < 1e-12


def test_nothing_is_told_where_all_is_well(asarray: Make) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gfy.argmax(problem(of_dict), {"u": asarray(U), "W": asarray(W)})
