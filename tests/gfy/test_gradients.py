"""Gradient modes: each right to the last digit it can reach, all agreeing, bounds never violated."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from zoo import energy_inputs, energy_names

import gfy
import solvers
from gfy.backend import get_backend, tree_map

pytestmark = pytest.mark.thin(3)  # compiling for JAX takes most of the time

Make = Callable[..., Any]
TIGHT = gfy.Stop(1e-13, 5_000)
BOX = gfy.Box(0.0, 1.0)
PROBLEMS = [
    ("3-Pairwise", gfy.BinaryGini(0.7), BOX),
    ("4-Pairwise", gfy.BinaryShannon(0.8), BOX),
    ("3-Pairwise", gfy.Shannon(0.9), gfy.Simplex()),
    ("2-LinearQuadratic", gfy.Gini(1.2), gfy.Simplex()),
    ("2-LinearQuadratic", gfy.BinaryGini(0.7), BOX),
    ("2-LinearQuadratic", gfy.SquaredNorm(0.8), gfy.Ball(0.9)),
    ("2-LinearQuadratic", gfy.SquaredNorm(0.8), gfy.CappedSimplex(2.5)),
    ("11-ConcaveSpen", gfy.BinaryGini(0.7), BOX),
    ("8-InputConvexNetwork", gfy.BinaryShannon(0.7), BOX),
]
IDS = [f"{name}-{r.name}-{d.name}" for name, r, d in PROBLEMS]


def build(case: tuple[str, Any, Any], make: Make) -> tuple[gfy.InnerProblem, Any, int]:
    energy, leaves, k = energy_inputs(np.random.default_rng(11))[energy_names().index(case[0])]
    v = type(energy).Input(**{field: make(leaf) for field, leaf in leaves.items()})
    return gfy.InnerProblem(energy, case[1], case[2]), v, k


def pulled(backend: str, fn: Callable[[Any], Any], v: Any, cotangent: Any) -> Any:
    """The gradient of <cotangent, fn(v)>, compiled where the backend compiles."""
    ops = get_backend(backend)
    return ops.jit(lambda w, c: ops.vjp(fn, w)[1](c)[0])(v, cotangent)


def flat(tree: Any, tonumpy: Make) -> np.ndarray:
    return np.concatenate([tonumpy(leaf).ravel() for leaf in tree])


@pytest.mark.parametrize("case", PROBLEMS, ids=IDS)
def test_implicit_matches_central_differences_for_every_leaf(
    case: tuple[str, Any, Any], backend: str, asarray: Make, tonumpy: Make
) -> None:
    """Shared weights included: their gradient is the sum over the batch."""
    problem, v, k = build(case, asarray)
    rng = np.random.default_rng(2)
    weight = rng.normal(size=(4, k))
    grad = pulled(
        backend, lambda w: gfy.argmax(problem, w, gradient=gfy.Implicit(), stop=TIGHT), v, asarray(weight)
    )
    direction = tree_map(lambda leaf: asarray(rng.normal(size=tuple(leaf.shape))), v)
    if hasattr(direction, "U"):  # stays symmetric
        direction = direction._replace(U=(direction.U + direction.U.mT) / 2)
    solve = get_backend(backend).jit(lambda w: gfy.argmax(problem, w, stop=TIGHT))
    step = 1e-5
    ahead, behind = (
        (weight * tonumpy(solve(tree_map(lambda a, d: a + s * d, v, direction)))).sum()  # noqa: B023
        for s in (step, -step)
    )
    expected = (flat(grad, tonumpy) * flat(direction, tonumpy)).sum()
    assert expected == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-6)


@pytest.mark.thin(12)
@pytest.mark.parametrize("case", [PROBLEMS[0], PROBLEMS[3], PROBLEMS[4], PROBLEMS[7]], ids=lambda c: c[0])
@pytest.mark.parametrize("method", ["dense", "cg", "gmres", "neumann"])
def test_linear_solves_agree(
    case: tuple[str, Any, Any], method: str, backend: str, asarray: Make, tonumpy: Make
) -> None:
    problem, v, k = build(case, asarray)
    if method == "neumann":  # converges where |J H| < 1
        v = v._replace(**{f: 0.15 * getattr(v, f) for f in ("A", "U", "W1") if f in type(v)._fields})
    weight = asarray(np.random.default_rng(2).normal(size=(4, k)))
    p = gfy.argmax(problem, v, stop=TIGHT)
    auto, other = (
        flat(
            pulled(backend, lambda w: gfy.Implicit(m, tol=1e-13).correct(problem, w, p, TIGHT), v, weight),  # noqa: B023
            tonumpy,
        )
        for m in ("auto", method)
    )
    np.testing.assert_allclose(other, auto, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", [PROBLEMS[0], PROBLEMS[4], PROBLEMS[3]], ids=lambda c: c[0])
def test_three_modes_agree_on_the_conjugate(
    case: tuple[str, Any, Any], backend: str, asarray: Make, tonumpy: Make
) -> None:
    problem, v, _ = build(case, asarray)
    ones = asarray(np.ones(4))
    solver = solvers.ProjectedGradient()
    found = {
        mode.name: flat(
            pulled(backend, lambda w: gfy.conjugate(problem, w, solver, mode, stop=TIGHT), v, ones),  # noqa: B023
            tonumpy,
        )
        for mode in (gfy.Envelope(), gfy.Implicit(), gfy.Unrolled(steps=400))
    }
    scale = np.linalg.norm(found["implicit"])
    for other in ("envelope", "unrolled"):
        assert np.linalg.norm(found[other] - found["implicit"]) <= 1e-8 * scale


@pytest.mark.thin(9)
@pytest.mark.parametrize("case", [PROBLEMS[0], PROBLEMS[4]], ids=lambda c: c[0])
def test_unrolled_argmax_and_its_variants(
    case: tuple[str, Any, Any], backend: str, asarray: Make, tonumpy: Make
) -> None:
    problem, v, k = build(case, asarray)
    weight = asarray(np.random.default_rng(2).normal(size=(4, k)))
    solver = solvers.ProjectedGradient()

    def grad(mode: Any) -> np.ndarray:
        return flat(
            pulled(backend, lambda w: gfy.argmax(problem, w, solver, mode, stop=TIGHT), v, weight), tonumpy
        )

    exact, plain = grad(gfy.Implicit()), grad(gfy.Unrolled(steps=300))
    scale = np.linalg.norm(exact)
    assert np.linalg.norm(plain - exact) <= 1e-6 * scale
    np.testing.assert_allclose(grad(gfy.Unrolled(steps=300, checkpoint=True)), plain, rtol=1e-10, atol=1e-12)
    truncated = [np.linalg.norm(grad(gfy.Unrolled(last=n)) - exact) for n in (1, 60)]
    assert truncated[1] < truncated[0]  # one step is an approximation that more steps mend


def test_envelope_refuses_the_argmax_and_unrolled_refuses_what_has_no_steps(asarray: Make) -> None:
    problem, v, _ = build(PROBLEMS[0], asarray)
    with pytest.raises(gfy.GfyTypeError, match=r"gradient=gfy\.Implicit\(\) or gfy\.Unrolled\(\)"):
        gfy.argmax(problem, v, gradient=gfy.Envelope())
    linear = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), BOX)
    with pytest.raises(gfy.UnsupportedError, match="no iterations to unroll"):
        gfy.argmax(linear, v.u, solvers.ClosedForm(), gfy.Unrolled())
    plain = gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), BOX)
    with pytest.raises(gfy.UnsupportedError, match="not strongly convex"):
        gfy.argmax(plain, v, gradient=gfy.Implicit())


def test_plain_argmax_is_a_constant(backend: str, asarray: Make, tonumpy: Make) -> None:
    problem, v, k = build(PROBLEMS[0], asarray)
    told = pytest.warns(gfy.GradientDroppedWarning) if backend == "torch" else nullcontext()
    with told:  # torch can see that a gradient is asked for
        grad = pulled(backend, lambda w: gfy.argmax(problem, w) + 0 * w.u, v, asarray(np.ones((4, k))))
    assert np.abs(flat(grad, tonumpy)).max() == 0


def test_jax_and_torch_gradients_are_the_same() -> None:
    jnp, torch = pytest.importorskip("jax.numpy"), pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    for case in (PROBLEMS[0], PROBLEMS[4], PROBLEMS[7]):
        problem, v, k = build(case, np.asarray)
        weight = rng.normal(size=(4, k))
        for fn, cotangent in (
            (lambda w: gfy.conjugate(problem, w, stop=TIGHT), np.ones(4)),  # noqa: B023
            (lambda w: gfy.argmax(problem, w, gradient=gfy.Implicit(), stop=TIGHT), weight),  # noqa: B023
        ):
            grads = [
                flat(pulled(name, fn, tree_map(make, v), make(cotangent)), np.asarray)
                for name, make in (("jax", jnp.asarray), ("torch", torch.as_tensor))
            ]
            assert np.linalg.norm(grads[0] - grads[1]) <= 1e-10 * np.linalg.norm(grads[0])


def test_torch_gradcheck() -> None:
    torch = pytest.importorskip("torch")
    problem, v, _ = build(PROBLEMS[0], torch.as_tensor)
    leaves = tuple(leaf.requires_grad_() for leaf in v)
    implicit = lambda u, A: gfy.argmax(problem, gfy.Pairwise.Input(u, A), gradient=gfy.Implicit(), stop=TIGHT)  # noqa: E731
    assert torch.autograd.gradcheck(implicit, leaves, atol=1e-6)


def test_forward_mode_and_hessian_products_in_jax() -> None:
    """The loss is twice differentiable through Implicit; finite differences of its gradient agree."""
    jax = pytest.importorskip("jax")
    problem, v, k = build(PROBLEMS[0], jax.numpy.asarray)
    rng = np.random.default_rng(5)
    y = jax.numpy.asarray(rng.integers(0, 2, size=(4, k)).astype(float))
    direction = tree_map(lambda leaf: jax.numpy.asarray(rng.normal(size=leaf.shape)), v)
    weight = rng.normal(size=(4, k))
    argmax = jax.jit(lambda w: gfy.argmax(problem, w, gradient=gfy.Implicit(), stop=TIGHT))
    forward = jax.jvp(argmax, (v,), (direction,))[1]
    backward = jax.vjp(argmax, v)[1](jax.numpy.asarray(weight))[0]
    reverse = sum(float((a * b).sum()) for a, b in zip(backward, direction, strict=True))
    assert float((forward * weight).sum()) == pytest.approx(reverse, rel=1e-9)
    loss = gfy.FenchelYoungLoss(problem, gradient=gfy.Implicit(), reduction="sum", stop=TIGHT)
    gradient = jax.jit(jax.grad(lambda w: loss(w, y)))
    product = jax.jvp(gradient, (v,), (direction,))[1]
    step = 1e-6
    ahead, behind = (gradient(tree_map(lambda a, d: a + s * d, v, direction)) for s in (step, -step))  # noqa: B023
    for ours, a, b in zip(product, ahead, behind, strict=True):
        np.testing.assert_allclose(ours, (a - b) / (2 * step), rtol=1e-4, atol=1e-5)


def test_second_derivatives_of_the_argmax_in_jax() -> None:
    """Shannon's argmax bends: the rule's own derivative must see p move."""
    jax = pytest.importorskip("jax")
    problem, v, k = build(PROBLEMS[1], jax.numpy.asarray)
    weight, direction = np.random.default_rng(5).normal(size=(2, 4, k))

    def slope(u: Any) -> Any:
        def total(u: Any) -> Any:
            p = gfy.argmax(problem, v._replace(u=u), gradient=gfy.Implicit(), stop=TIGHT)
            return (weight * p).sum()

        return jax.grad(total)(u)

    exact = jax.jit(lambda u: jax.jvp(slope, (u,), (direction,))[1])(v.u)
    step = 1e-5
    ahead, behind = (jax.jit(slope)(v.u + s * direction) for s in (step, -step))
    np.testing.assert_allclose(exact, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("solver", ["Auto", "ProjectedGradient"])
def test_second_derivatives_of_the_argmax_are_refused_in_torch(solver: str) -> None:
    """Half of them would be silently missing; dp*/dv itself stays linear, so products from the right are allowed."""
    torch = pytest.importorskip("torch")
    problem, v, _ = build(PROBLEMS[1], torch.as_tensor)
    u = v.u.clone().requires_grad_(True)
    p = gfy.argmax(problem, v._replace(u=u), solver=solver, gradient=gfy.Implicit(), stop=TIGHT)
    weight = torch.ones_like(p, requires_grad=True)
    (slope,) = torch.autograd.grad(p, u, weight, create_graph=True)
    (product,) = torch.autograd.grad((slope * torch.ones_like(slope)).sum(), weight, retain_graph=True)
    assert torch.isfinite(product).all()
    with pytest.raises(gfy.UnsupportedError, match="Second derivatives of the argmax"):
        torch.autograd.grad(slope.sum(), u)


@pytest.mark.parametrize("domain", [BOX, gfy.Simplex()], ids=lambda d: d.name)
def test_a_few_systems_at_a_time_give_the_same_derivative(
    domain: Any, backend: str, asarray: Make, tonumpy: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gfy.numerics import chunking, spd

    if backend == "torch":
        monkeypatch.setattr("gfy.backend.torch_ops._CALLS", 1)
    rng = np.random.default_rng(6)
    root = rng.normal(size=(37, 65, 65)) / 8
    v = gfy.LinearQuadratic.Input(
        u=asarray(rng.normal(size=(37, 65))), U=asarray(-root @ np.swapaxes(root, -1, -2))
    )
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), domain)
    weight = asarray(rng.normal(size=(37, 65)))
    p = gfy.argmax(problem, v, stop=gfy.Stop(1e-10, 500))
    taken = []
    for least in (chunking.HEAVY, 2**40):  # in parts, then whole
        monkeypatch.setattr(chunking, "HEAVY", least)
        taken.append(spd._few(v.U, p))
        grad = pulled(backend, lambda w: gfy.Implicit().attach(problem, w, p), v, weight)
        taken.append(flat(grad, tonumpy))
    assert (taken[0], taken[2]) == (31, None)
    np.testing.assert_allclose(taken[1], taken[3], rtol=1e-10, atol=1e-12)


def test_torch_differentiates_the_pairwise_difference_twice() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    p, q, u = (torch.tensor(rng.random((3, 5)), requires_grad=False) for _ in range(3))
    for rank in (1, 2):
        A = torch.tensor(rng.normal(size=(3, 5, rank)), requires_grad=True)
        fn = lambda u, A: gfy.Pairwise().difference(gfy.Pairwise.Input(u, A), p, q)  # noqa: E731
        value = gfy.Pairwise().value
        expected = value(gfy.Pairwise.Input(u, A), p) - value(gfy.Pairwise.Input(u, A), q)
        torch.testing.assert_close(fn(u, A), expected)
        inputs = (u.clone().requires_grad_(), A)
        assert torch.autograd.gradcheck(fn, inputs)
        assert torch.autograd.gradgradcheck(fn, inputs)
        by_function = torch.func.grad(lambda A: fn(u, A).sum())(A.detach())  # noqa: B023
        torch.testing.assert_close(by_function, torch.autograd.grad(fn(u, A).sum(), A)[0])


def test_a_coordinate_at_its_bound_counts_as_free_in_both_backends(
    backend: str, asarray: Make, tonumpy: Make
) -> None:
    """At the kink of the sparse sigmoid (u = 1 gives p = 1 exactly) the derivative is the inner one, 1/2."""
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    v = gfy.Pairwise.Input(asarray([[1.0, -1.0, 2.0]]), asarray(np.zeros((1, 3, 1))))
    ones = asarray(np.ones((1, 3)))
    grad = pulled(backend, lambda w: gfy.argmax(problem, w, gradient=gfy.Implicit(), stop=TIGHT), v, ones)
    np.testing.assert_allclose(tonumpy(grad.u), [[0.5, 0.5, 0.0]], atol=1e-12)


def test_ties_in_a_maximum_share_the_gradient_in_both_backends(
    backend: str, asarray: Make, tonumpy: Make
) -> None:
    problem = gfy.InnerProblem(gfy.Maxout(), gfy.BinaryShannon(), BOX)
    v = gfy.Maxout.Input(asarray([[2.0, 2.0, 0.0]]))
    grad = pulled(backend, lambda w: gfy.conjugate(problem, w), v, asarray([1.0]))
    slope = 1 / (1 + np.exp(-2.0))
    np.testing.assert_allclose(tonumpy(grad.v), [[slope / 2, slope / 2, 0.0]], atol=1e-9)


@pytest.mark.thin(9)
@pytest.mark.parametrize("case", [PROBLEMS[0], PROBLEMS[4]], ids=lambda c: c[0])
def test_envelope_error_is_within_the_bound_of_the_certificate(
    case: tuple[str, Any, Any], backend: str, asarray: Make, tonumpy: Make
) -> None:
    """|grad_u error| = |p - p*| <= Certificate.distance, at every accuracy of the inner solve."""
    problem, v, _ = build(case, asarray)
    exact = tonumpy(gfy.argmax(problem, v, stop=TIGHT))
    for steps in (1, 2, 4, 8, 16, 64):
        solution = solvers.ProjectedGradient().solve(problem, v, stop=gfy.Stop(0.0, steps))
        distance = np.linalg.norm(tonumpy(solution.p) - exact, axis=-1)
        assert (distance <= gfy.certify(problem, v, solution.p).distance + 1e-12).all()


def test_super_efficiency_of_unrolling(backend: str, asarray: Make, tonumpy: Make) -> None:
    """Ablin et al. (2020): the envelope's gradient error falls like the inner error, unrolling's like its square.

    On a strictly interior quadratic solved by constant-step gradient ascent, where the theory holds.
    """
    rng = np.random.default_rng(6)
    root = rng.normal(size=(1, 5, 5))
    U = -root @ root.transpose(0, 2, 1) / 5
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(0.5), gfy.Reals())
    v = gfy.LinearQuadratic.Input(asarray(0.2 * rng.normal(size=(1, 5))), asarray(U))
    rate = 1.0 / (0.5 + np.linalg.norm(U[0], 2))
    exact = gfy.argmax(problem, v, solver=solvers.ClosedForm())
    ops, ones = get_backend(backend), asarray(np.ones(1))
    # in u: of the gradient in U only the symmetric part means anything
    reference = tonumpy(ops.vjp(lambda w: problem.value(w, exact), v)[1](ones)[0].u)

    def ascend(w: Any, steps: int) -> Any:
        p = 0 * w.u
        for _ in range(steps):
            p = p + rate * problem.grad(w, p)
        return p

    errors: dict[str, list[float]] = {"inner": [], "envelope": [], "unrolled": []}
    for steps in (5, 10, 20, 40):
        p = ops.stop_gradient(ascend(v, steps))
        errors["inner"].append(float(np.linalg.norm(tonumpy(p - exact))))
        for mode, point in (("envelope", lambda w: p), ("unrolled", lambda w: ascend(w, steps))):  # noqa: B023
            grad = tonumpy(ops.vjp(lambda w: problem.value(w, point(w)), v)[1](ones)[0].u)  # noqa: B023
            errors[mode].append(float(np.linalg.norm(grad - reference)))
    slope = {
        mode: np.polyfit(np.log(errors["inner"]), np.log(errors[mode]), 1)[0]
        for mode in ("envelope", "unrolled")
    }
    assert slope["envelope"] == pytest.approx(1.0, abs=0.15)
    assert slope["unrolled"] == pytest.approx(2.0, abs=0.15)


def test_checkpointing_refuses_what_it_would_not_differentiate() -> None:
    """A tensor that the energy hides from v would get no gradient: a sentence, not a silent zero."""
    torch = pytest.importorskip("torch")
    hidden = torch.ones(4, dtype=torch.float64, requires_grad=True)
    energy = gfy.CustomEnergy(lambda v, p: (hidden * v * p).sum(-1) - (p * p).sum(-1), concave=True)
    problem = gfy.InnerProblem(energy, gfy.BinaryGini(), BOX)
    v = torch.linspace(-1.0, 2.0, 4, dtype=torch.float64, requires_grad=True)
    mode = gfy.Unrolled(steps=40, checkpoint=True)
    p = gfy.argmax(problem, v, solver=solvers.ProjectedGradient(), gradient=mode, p0=torch.full_like(v, 0.5))
    with pytest.raises(gfy.UnsupportedError, match="not part of v"):
        p.sum().backward()


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("sloped", [True, False])
def test_the_pairwise_difference_is_its_formula(rng: np.random.Generator, rank: int, sloped: bool) -> None:
    """Phi(v, p) - Phi(v, q) in torch: value, gradient and second derivative, against autograd of the formula."""
    torch = pytest.importorskip("torch")
    from gfy.backend import torch_pairwise

    shapes = ((2, 3, 5), (2, 3, 5, rank), (2, 3, 5), (2, 3, 5), (2, 3, 5))
    u, A, p, q, slope = (torch.tensor(rng.normal(scale=0.3, size=s)) for s in shapes)
    u, A = u.requires_grad_(True), A.requires_grad_(True)

    def plain(u: Any, A: Any, p: Any, q: Any, slope: Any) -> Any:
        scores = u if slope is None else u + slope
        value = lambda x: (scores * x).sum(-1) - 0.5 * ((x[..., None] * A).sum(-2) ** 2).sum(-1)  # noqa: E731
        return value(p) - value(q)

    def results(difference: Any) -> list[Any]:
        value = difference(u, A, p, q, slope if sloped else None)
        first = torch.autograd.grad(value.sin().sum(), [u, A], create_graph=True)
        second = torch.autograd.grad(sum((x * x).sum() for x in first), [u, A])
        return [value, *first, *second]

    for one, other in zip(results(torch_pairwise.difference), results(plain), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_implicit_refuses_what_nothing_makes_strictly_concave() -> None:
    """Without Omega a local maximum may lie inside C, where p = p_Omega(grad Phi) is no equation for it."""
    for energy in (gfy.Spen("softplus"), gfy.LinearQuadratic(concave=False), gfy.Bilinear()):
        problem = gfy.InnerProblem(energy, gfy.Zero(), gfy.Box(0.0, 1.0))
        assert "not strongly convex" in str(gfy.Implicit().unsupported(problem, solvers.ProjectedGradient()))


def test_a_tensor_of_v_that_changed_before_backward_is_refused() -> None:
    """The derivative was taken at the changed tensor, without a word."""
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    rng = np.random.default_rng(0)
    u, A = (torch.tensor(rng.normal(size=shape)) for shape in ((3, 4), (3, 4, 2)))
    p = gfy.argmax(problem, gfy.Pairwise.Input(u.requires_grad_(), A), gradient="implicit")
    p.sum().backward(retain_graph=True)
    A.mul_(3)
    with pytest.raises(gfy.GfyValueError, match="changed in place"):
        p.sum().backward()


def test_forward_mode_derivatives_of_torch_are_right_or_refused() -> None:
    """The tangent of a loss was dropped without a word."""
    torch = pytest.importorskip("torch")
    from torch.autograd import forward_ad

    rng = np.random.default_rng(0)
    A, u, y, step = (torch.tensor(rng.uniform(size=shape)) for shape in ((3, 4, 2), *3 * [(3, 4)]))
    for energy, make in (
        (gfy.Pairwise(), lambda x: gfy.Pairwise.Input(x, A)),
        (gfy.Bilinear(), gfy.Bilinear.Input),
    ):
        problem = gfy.InnerProblem(energy, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        loss = gfy.FenchelYoungLoss(problem)
        wanted = (loss(make(u + 1e-6 * step), y) - loss(make(u - 1e-6 * step), y)) / 2e-6
        with forward_ad.dual_level():
            v = make(forward_ad.make_dual(u, step))
            torch.testing.assert_close(
                forward_ad.unpack_dual(loss(v, y)).tangent, wanted, rtol=1e-6, atol=1e-8
            )
            with pytest.raises(gfy.UnsupportedError, match="do not reach"):
                gfy.argmax(problem, v, gradient="implicit")
