"""Bad input gets one sentence naming the argument, and an error of the project's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
import solvers

pytestmark = pytest.mark.thin(2)  # compiling for JAX takes most of the time

BOX = gfy.Box(0.0, 1.0)
PROBLEM = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
LOSS = gfy.FenchelYoungLoss(PROBLEM)
Make = Callable[..., Any]


def v_of(make: Make, batch: int = 3, k: int = 4) -> gfy.Pairwise.Input:
    rng = np.random.default_rng(0)
    return gfy.Pairwise.Input(make(rng.normal(size=(batch, k))), make(rng.normal(size=(batch, k, 2))))


def test_targets(asarray: Make) -> None:
    v = v_of(asarray)
    outside = np.zeros((3, 4))
    outside[1, 2] = 1.25
    with pytest.raises(gfy.GfyValueError, match="y lies outside Box: row 1 by 0.25"):
        LOSS(v, asarray(outside))
    with pytest.raises(gfy.GfyValueError, match="axis of 4 coordinates like p, got shape \\(3, 5\\)"):
        LOSS(v, asarray(np.zeros((3, 5))))
    with pytest.raises(gfy.GfyValueError, match="batch axes \\(2,\\) but v has \\(3,\\)"):
        LOSS(v, asarray(np.zeros((2, 4))))
    with pytest.raises(gfy.GfyValueError, match="NaN"):
        LOSS(v, asarray(np.full((3, 4), np.nan)))
    multiclass = gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex()))
    with pytest.raises(gfy.GfyValueError, match="y holds class 7: classes run from 0 to 3"):
        multiclass(v.u, asarray(np.array([0, 7, 1])))


def test_inputs(asarray: Make) -> None:
    v = v_of(asarray)
    bad = np.zeros((3, 4))
    bad[0, 0], bad[2, 1] = np.nan, np.inf
    with pytest.raises(gfy.GfyValueError, match="Pairwise.Input.u holds 2 values that are NaN or infinite"):
        gfy.argmax(PROBLEM, v._replace(u=asarray(bad)))
    with pytest.raises(gfy.GfyValueError, match="p0 must have the shape of p, \\(3, 4\\), got \\(4,\\)"):
        gfy.argmax(PROBLEM, v, p0=asarray(np.zeros(4)))
    with pytest.raises(gfy.GfyTypeError, match="NumPy arrays"):
        gfy.argmax(PROBLEM, v_of(np.asarray))
    with pytest.raises(gfy.GfyValueError, match="but p has 4 coordinates"):
        gfy.argmax(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box([0.0, 0.0], [1.0, 1.0])), v)
    with pytest.raises(gfy.GfyValueError, match="needs at least 9 coordinates"):
        gfy.argmax(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.CappedSimplex(9)), v)


def test_concavity_that_is_claimed_is_checked(asarray: Make) -> None:
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    with pytest.raises(gfy.GfyValueError, match="eigenvalue 1 > 0"):
        gfy.argmax(problem, gfy.LinearQuadratic.Input(asarray(np.zeros((2, 3))), asarray(np.eye(3))))
    with pytest.raises(gfy.GfyValueError, match="must be symmetric"):
        gfy.argmax(
            problem, gfy.LinearQuadratic.Input(asarray(np.zeros((2, 2))), asarray([[-1.0, 1.0], [0.0, -1.0]]))
        )


@pytest.mark.parametrize("concave", [True, False])
@pytest.mark.parametrize(("batch", "k"), [(3, 4), (70, 15), (2, 90)])
def test_a_matrix_that_is_not_symmetric_is_refused_at_any_size(
    batch: int, k: int, concave: bool, asarray: Make
) -> None:
    """Above 200,000 operations it was solved, with a p off by 0.4 and `converged`."""
    problem = gfy.InnerProblem(gfy.LinearQuadratic(concave=concave), gfy.BinaryGini(), BOX)
    u, upper = asarray(np.ones((batch, k))), -np.eye(k) - np.triu(np.full((k, k), 0.01), 1)
    for U in (upper, np.broadcast_to(upper, (batch, k, k)).copy()):
        v = gfy.LinearQuadratic.Input(u, asarray(U))
        for call in (gfy.argmax, gfy.conjugate, lambda problem, v: gfy.FenchelYoungLoss(problem)(v, u)):
            with pytest.raises(gfy.GfyValueError, match="must be symmetric"):
                call(problem, v)


def test_concavity_that_is_claimed_is_checked_once_where_it_is_dear(asarray: Make) -> None:
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), BOX)
    with pytest.raises(gfy.GfyValueError, match="eigenvalue 1 > 0"):
        gfy.argmax(problem, gfy.LinearQuadratic.Input(asarray(np.zeros((2, 91))), asarray(np.eye(91))))


def test_mixed_frameworks() -> None:
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(gfy.GfyTypeError, match="two frameworks"):
        gfy.argmax(PROBLEM, gfy.Pairwise.Input(torch.zeros(2, 3), jnp.zeros((2, 3, 1))))
    with pytest.raises(gfy.GfyTypeError, match="two frameworks"):
        LOSS(v_of(jnp.asarray), torch.zeros(3, 4))


def test_mixed_devices() -> None:
    torch = pytest.importorskip("torch")
    v = gfy.Pairwise.Input(torch.zeros(2, 3), torch.zeros(2, 3, 1, device="meta"))
    with pytest.raises(gfy.GfyTypeError, match=r"several devices \(cpu, meta\)"):
        gfy.argmax(PROBLEM, v)


def test_wrong_kinds() -> None:
    with pytest.raises(gfy.GfyTypeError, match=r"write Pairwise\(\)"):
        gfy.InnerProblem(gfy.Pairwise, gfy.BinaryGini(), BOX)  # type: ignore[arg-type]
    with pytest.raises(gfy.GfyValueError, match="reduction must be one of none, mean, sum"):
        gfy.FenchelYoungLoss(PROBLEM, reduction="median")
    with pytest.raises(gfy.GfyValueError, match="linear_solve must be one of"):
        gfy.Implicit("magic")
    with pytest.raises(gfy.GfyValueError, match="max_steps"):
        gfy.Stop(max_steps=0)
    with pytest.raises(gfy.GfyTypeError, match="needs dp"):
        gfy.ArgmaxLoss("squared", PROBLEM, gradient=gfy.Envelope())


def test_solver_that_does_not_serve_says_why(asarray: Make) -> None:
    with pytest.raises(
        gfy.UnsupportedError, match="ClosedForm with envelope gradients on Pairwise/BinaryGini/Box"
    ):
        gfy.argmax(PROBLEM, v_of(asarray), solver=solvers.ClosedForm())


def test_checks_of_values_are_off_inside_jit_and_on_when_debugging() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    v, y = v_of(jnp.asarray), jnp.zeros((3, 4))
    bad = v._replace(u=v.u.at[0, 0].set(jnp.nan))
    quiet = jax.jit(lambda w: LOSS(w, y))
    assert not bool(jnp.isfinite(quiet(bad)).all())

    def loud(w: Any) -> Any:
        with gfy.debug():
            return LOSS(w, y)

    assert bool(jnp.isfinite(jax.jit(loud)(v)).all())
    with pytest.raises(Exception, match="NaN or infinite"):  # noqa: PT012 - the callback speaks at the barrier
        jax.block_until_ready(jax.jit(loud)(bad))
        jax.effects_barrier()


def test_start_must_be_finite_and_real(asarray: Make, backend: str) -> None:
    v = v_of(asarray)
    for bad in (np.nan, np.inf):
        with pytest.raises(gfy.GfyValueError, match="p0 holds 12 values that are NaN or infinite"):
            gfy.argmax(PROBLEM, v, p0=asarray(np.full((3, 4), bad)))
        with pytest.raises(gfy.GfyValueError, match="p0 holds 12 values"):
            LOSS(v, asarray(np.zeros((3, 4))), asarray(np.full((3, 4), bad)))
        with pytest.raises(gfy.GfyValueError, match="p0 holds 12 values"):
            LOSS.predict(v, asarray(np.full((3, 4), bad)))
    middle = np.full((3, 4), 0.5)
    # another dtype is converted, not computed with
    for start in (asarray(middle, "float32"), asarray(np.ones((3, 4), dtype=int)), middle):
        p = gfy.argmax(PROBLEM, v, p0=start)
        assert p.dtype == v.u.dtype


def test_complex_numbers_are_refused(asarray: Make) -> None:
    v = v_of(asarray)
    i = asarray(np.full((3, 4), 1j))
    with pytest.raises(gfy.GfyTypeError, match="v must hold real numbers, got .*complex128"):
        gfy.argmax(PROBLEM, v._replace(u=i))
    with pytest.raises(gfy.GfyTypeError, match="y must hold real numbers, got .*complex128"):
        LOSS(v, i)
    with pytest.raises(gfy.GfyTypeError, match="p0 must hold real numbers, got .*complex128"):
        gfy.argmax(PROBLEM, v, p0=i)
    with pytest.raises(gfy.GfyTypeError, match="p must hold real numbers, got .*complex128"):
        gfy.decode(PROBLEM, i, "hamming")


def test_decoding_wants_whole_numbers_and_finite_points(asarray: Make) -> None:
    p = asarray(np.full((3, 4), 0.4))
    with pytest.raises(gfy.GfyTypeError, match="k must be a whole number, got 2.5"):
        gfy.decode(PROBLEM, p, "precision_at_k", k=2.5)
    with pytest.raises(gfy.GfyValueError, match="p holds 12 values that are NaN or infinite"):
        gfy.decode(PROBLEM, asarray(np.full((3, 4), np.nan)), "hamming")
    assert tuple(gfy.decode(PROBLEM, p, "precision_at_k", k=np.int64(2)).shape) == (3, 4)


HALVES = ("float16", "bfloat16")


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("kind", ["pairwise", "quadratic", "function"])
def test_half_precision_is_right_to_its_own_resolution(
    half: str, kind: str, asarray: Make, tonumpy: Make
) -> None:
    """p* of one coordinate on [0, 1] is clip((u + 1) / (2 + a^2)), the loss of y = 0 follows from it."""
    u = tonumpy(asarray(np.array([[-0.9], [-0.2], [0.4], [3.0]]), half)).astype(float)
    a, eps = 0.5, {"float16": 2.0**-10, "bfloat16": 2.0**-7}[half]
    energies: dict[str, Any] = {
        "pairwise": (gfy.Pairwise(), gfy.Pairwise.Input(asarray(u, half), asarray([[a]], half))),
        "quadratic": (
            gfy.LinearQuadratic(),
            gfy.LinearQuadratic.Input(asarray(u, half), asarray([[-a * a]], half)),
        ),
        "function": (
            gfy.CustomEnergy(lambda v, p: (v * p).sum(-1) - 0.5 * a * a * (p * p).sum(-1), concave=True, k=1),
            asarray(u, half),
        ),
    }
    energy, v = energies[kind]
    problem = gfy.InnerProblem(energy, gfy.BinaryGini(), BOX)
    p = gfy.argmax(problem, v)
    wanted = np.clip((u + 1) / (2 + a * a), 0, 1)
    assert half in str(p.dtype)
    assert np.abs(tonumpy(p).astype(float) - wanted).max() <= eps
    value = gfy.FenchelYoungLoss(problem)(v, asarray(np.zeros((4, 1)), half))
    exact = (u * wanted - 0.5 * a * a * wanted**2 - wanted * (wanted - 1))[:, 0]
    assert half in str(value.dtype)
    assert np.abs(tonumpy(value).astype(float) - exact).max() <= eps * 2
    assert gfy.certify(problem, v, p).gap.max() <= eps


def test_half_precision_gradients_come_back_in_half(backend: str, asarray: Make, tonumpy: Make) -> None:
    u = asarray(np.array([[0.25, -0.5]]), "float16")
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), BOX)
    weight = np.array([[1.0, 2.0]])
    if backend == "jax":
        import jax

        grad = jax.grad(
            lambda u: (gfy.argmax(problem, u, gradient="implicit") * asarray(weight, "float16")).sum()
        )(u)
    else:
        u.requires_grad_()
        (gfy.argmax(problem, u, gradient="implicit") * asarray(weight, "float16")).sum().backward()
        grad = u.grad
    assert "float16" in str(grad.dtype)
    assert np.abs(tonumpy(grad) - weight / 2).max() < 1e-3  # p = (u + 1) / 2 inside the box


def test_a_torch_module_in_half_precision_is_widened() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(3, 2).half()
    energy = gfy.CustomEnergy(lambda v, p: (v * p).sum(-1) - (net(p) ** 2).sum(-1), concave=True, k=3)
    problem = gfy.InnerProblem(energy, gfy.SquaredNorm(), gfy.Reals())
    u = torch.tensor([[0.5, -0.25, 1.0]]).half()
    weight, bias = (x.detach().double().numpy() for x in net.parameters())
    wanted = np.linalg.solve(np.eye(3) + 2 * weight.T @ weight, u.double().numpy()[0] - 2 * weight.T @ bias)
    assert np.abs(gfy.argmax(problem, u).double().numpy()[0] - wanted).max() < 2e-3
    (gfy.argmax(problem, u, gradient="implicit")).sum().backward()
    assert torch.isfinite(net.weight.grad).all()


def test_leaves_of_several_dtypes_meet_in_the_widest(asarray: Make, tonumpy: Make) -> None:
    """p* = clip((u + 1) / 2) where A = 0."""
    u, A = np.array([[0.25, -0.5, 0.125]]), np.zeros((1, 3, 2))
    for left, right, wanted in (("float32", "float64", "float64"), ("float16", "float32", "float32")):
        for first, second in ((left, right), (right, left)):
            p = gfy.argmax(PROBLEM, gfy.Pairwise.Input(asarray(u, first), asarray(A, second)))
            assert wanted in str(p.dtype)
            assert np.abs(tonumpy(p) - (u + 1) / 2).max() < 1e-6
    whole = gfy.Pairwise.Input(asarray(np.array([[0, 1, -1]])), asarray(A))
    assert np.abs(tonumpy(gfy.argmax(PROBLEM, whole)) - np.array([[0.5, 1.0, 0.0]])).max() < 1e-6


@pytest.mark.parametrize("kind", ["int64", "int32", "bool", "float32", "float16"])
def test_targets_of_any_dtype(kind: str, asarray: Make, tonumpy: Make) -> None:
    v = v_of(asarray)
    y = np.array([[0, 1, 1, 0]] * 3)
    wanted = tonumpy(LOSS(v, asarray(y.astype(float))))
    given = asarray(y.astype(float), kind) if "float" in kind else asarray(y.astype(kind))
    assert np.allclose(tonumpy(LOSS(v, given)), wanted)


def test_names_stand_for_objects(asarray: Make, tonumpy: Make) -> None:
    v = v_of(asarray)
    p = gfy.argmax(PROBLEM, v, solver="DualNewton", gradient="implicit")
    assert np.allclose(tonumpy(p), tonumpy(gfy.argmax(PROBLEM, v, solver=solvers.DualNewton())))
    loss = gfy.FenchelYoungLoss(PROBLEM, solver="DualNewton", gradient="envelope")
    assert loss == gfy.FenchelYoungLoss(PROBLEM, solver=solvers.DualNewton(), gradient=gfy.Envelope())
    assert gfy.ArgmaxLoss("squared", PROBLEM, gradient="unrolled").gradient == gfy.Unrolled()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"solver": "dualnewton"}, r'got "dualnewton" \(did you mean "DualNewton"\?\)'),
        ({"solver": "Newtom"}, "solver must be one of .*Auto.*DualNewton.*, or an object, got"),
        (
            {"solver": solvers.DualNewton},
            r"solver must be an instance, got the class DualNewton: write DualNewton\(\)",
        ),
        ({"solver": 3}, "solver must have the methods solve and unsupported of gfy.InnerSolver, got int"),
        ({"solver": dict}, "solver must have the methods .* of gfy.InnerSolver, got the class dict$"),
        ({"gradient": "envelop"}, r'got "envelop" \(did you mean "envelope"\?\)'),
        (
            {"gradient": gfy.Implicit},
            r"gradient must be an instance, got the class Implicit: write Implicit\(\)",
        ),
        ({"gradient": 3}, "got int"),
        ({"gradient": dict}, r"gradient must be gfy.Envelope\(\), .*, got the class dict$"),
    ],
)
def test_names_that_are_not_known_get_the_right_spelling(settings: Any, sentence: str, asarray: Make) -> None:
    v = v_of(asarray)
    for call in (
        lambda: gfy.argmax(PROBLEM, v, **settings),
        lambda: gfy.conjugate(PROBLEM, v, **settings),
        lambda: gfy.FenchelYoungLoss(PROBLEM, **settings),
    ):
        with pytest.raises(gfy.GfyError, match=sentence):
            call()


def test_a_function_that_forgets_to_sum_over_p_is_told(asarray: Make) -> None:
    problem = gfy.InnerProblem(gfy.CustomEnergy(lambda v, p: v * p, k=4), gfy.BinaryGini(), BOX)
    for shape in ((3, 4), (4,), (4, 4)):
        with pytest.raises(gfy.GfyValueError, match=r"fn must return one value per example.*\.sum\(-1\)"):
            gfy.argmax(problem, asarray(np.ones(shape)))
    summed = gfy.CustomEnergy(lambda v, p: (v * p).sum(-1), k=4)
    square = asarray(np.ones((4, 4)))  # as many examples as coordinates
    assert gfy.argmax(gfy.InnerProblem(summed, gfy.BinaryGini(), BOX), square).shape == (4, 4)


def test_what_must_be_a_function_or_a_number_of_seconds_is_asked_for() -> None:
    with pytest.raises(
        gfy.GfyTypeError, match="Probabilistic.energies must be a function of v, or None, got int"
    ):
        gfy.Probabilistic(3)
    with (
        pytest.raises(gfy.GfyValueError, match="must be a number of seconds >= 0, got 'soon'"),
        gfy.staging("soon"),
    ):
        pass


def test_a_start_that_is_not_finite_is_found_inside_jit_when_debugging() -> None:
    jax = pytest.importorskip("jax")
    v = v_of(jax.numpy.asarray)

    def loud(p0: Any) -> Any:
        with gfy.debug():
            return gfy.argmax(PROBLEM, v, p0=p0)

    with pytest.raises(Exception, match="p0 holds 12 values"):  # noqa: PT012 - the callback speaks at the barrier
        jax.block_until_ready(jax.jit(loud)(jax.numpy.full((3, 4), jax.numpy.nan)))
        jax.effects_barrier()


def test_a_target_of_numpy_serves_both_frameworks(asarray: Make) -> None:
    """NumPy's arrays name a device, "cpu", that JAX does not know."""
    v, y = v_of(asarray), np.full((3, 4), 0.25)
    loss = gfy.FenchelYoungLoss(PROBLEM)
    given, made = loss(v, y), loss(v, asarray(y))
    assert float(abs(given - made).max()) == 0.0


def test_what_is_no_solver() -> None:
    with pytest.raises(
        gfy.GfyTypeError, match="methods solve and unsupported of gfy.InnerSolver, got object"
    ):
        gfy.explain(PROBLEM, solvers=[object()])  # type: ignore[list-item]
    with pytest.raises(gfy.GfyValueError, match='did you mean "DualNewton"'):
        gfy.explain(PROBLEM, solvers="dualnewton")
    for given in ("DualNewton", solvers.DualNewton()):
        assert gfy.explain(PROBLEM, solvers=given).solvers == {"DualNewton": None}
    for mode in (gfy.Envelope(), gfy.Implicit(), gfy.Unrolled()):
        with pytest.raises(
            gfy.GfyTypeError, match=r"got its name 'DualNewton'; write solvers.DualNewton\(\)"
        ):
            mode.unsupported(PROBLEM, "DualNewton")  # type: ignore[arg-type]
        with pytest.raises(gfy.GfyTypeError, match="an object with the methods solve and unsupported"):
            mode.unsupported(PROBLEM, solvers.DualNewton)  # type: ignore[arg-type]


def test_a_pairwise_factor_without_its_rank_axis(asarray: Make) -> None:
    v = gfy.Pairwise.Input(asarray(np.zeros((3, 4))), asarray(np.zeros((3, 4))))
    with pytest.raises(gfy.GfyValueError, match=r"got the shape \(3, 4\).*A\[\.\.\., None\]"):
        gfy.argmax(PROBLEM, v)


def test_transforms_of_torch_are_refused_in_a_sentence_and_have_a_substitute() -> None:
    torch = pytest.importorskip("torch")
    v = v_of(lambda x: torch.as_tensor(np.asarray(x, dtype=float)))

    def p_of(u: Any, A: Any = v.A) -> Any:
        return gfy.argmax(PROBLEM, gfy.Pairwise.Input(u, A), gradient="implicit")

    loss = gfy.FenchelYoungLoss(PROBLEM)
    y = torch.full((4,), 0.25, dtype=torch.float64)
    one = torch.func.grad(lambda u, A: loss(gfy.Pairwise.Input(u, A), y))
    for call in (
        lambda: torch.func.vmap(p_of)(v.u, v.A),
        lambda: torch.func.vmap(one)(v.u, v.A),
        lambda: torch.func.jacrev(p_of)(v.u),
        lambda: torch.func.jacfwd(p_of)(v.u),
    ):
        with pytest.raises(gfy.UnsupportedError, match="torch.func's vmap, jacrev, jacfwd and hessian"):
            call()
    jacobian = torch.autograd.functional.jacobian(p_of, v.u)
    moved = torch.zeros_like(v.u)
    moved[1, 2] = 1e-6
    differences = (p_of(v.u + moved) - p_of(v.u - moved)) / 2e-6
    assert torch.allclose(jacobian[..., 1, 2], differences, atol=1e-6)


@pytest.mark.parametrize("domain", [gfy.Box(0.0, 1.0), gfy.Simplex(), gfy.Reals()], ids=lambda d: d.name)
def test_a_false_claim_of_concavity_is_found(domain: Any, asarray: Make) -> None:
    def fn(v: Any, p: Any) -> Any:
        return (v["u"] * p).sum(-1) + v["w"] * (p[..., 0] ** 2 - p[..., 1] ** 2)

    problem = gfy.InnerProblem(gfy.CustomEnergy(fn, concave=True, k=3), gfy.SquaredNorm(8.0), domain)
    u = asarray(np.zeros((2, 3)))
    for w in ([0.0, 1.0], [1.0, 1.0]):  # one of two examples, and both
        with pytest.raises(gfy.GfyValueError, match="claims to be concave in p but is not"):
            gfy.argmax(problem, {"u": u, "w": asarray(np.array(w))})
    with pytest.raises(gfy.GfyValueError, match="claims to be concave"):
        gfy.FenchelYoungLoss(problem)({"u": u, "w": asarray(np.ones(2))}, asarray(np.full((2, 3), 1 / 3)))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_arrays_that_are_not_dense_are_refused_in_a_sentence() -> None:
    torch = pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    u, A, y = torch.zeros(2, 3), torch.ones(2, 3, 1), torch.full((2, 3), 0.5)
    kinds = {
        "layout torch.sparse_coo": lambda x: x.to_sparse(),
        "device meta": lambda x: x.to("meta"),
        "nested": lambda x: torch.nested.nested_tensor(list(x)),
    }
    v = gfy.Pairwise.Input(u, A)
    for sentence, kind in kinds.items():
        calls = {
            "v": lambda kind=kind: gfy.argmax(problem, gfy.Pairwise.Input(kind(u), kind(A))),
            "y": lambda kind=kind: gfy.FenchelYoungLoss(problem)(v, kind(y)),
            "p0": lambda kind=kind: gfy.argmax(problem, v, p0=kind(y)),
            "p": lambda kind=kind: gfy.certify(problem, v, kind(y)),
        }
        for argument, call in calls.items():
            with pytest.raises(gfy.GfyTypeError, match=f"^{argument} holds a.*{sentence}"):
                call()
    with pytest.raises(gfy.UnsupportedError, match="v holds bool"):
        solvers.Auto().solve(problem, gfy.Pairwise.Input(u > 0, A > 0))
