"""A third framework, registered from outside the packages: NumPy arrays of a class of their own, derivatives by
central differences. The text of every energy, set, regularizer and solver runs on it unchanged.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.backend import backend_of, frameworks, get_backend, leaves, register_backend, tree_map
from gfy.backend.eager import Eager
from solvers import conformance

STEP = 1e-5


class Toy(np.ndarray):
    """A NumPy array that is nobody's but the toy framework's."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _toys(super().__array_function__(func, types, args, kwargs))


def _toys(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return found.view(Toy)
    return type(found)(_toys(x) for x in found) if type(found) in (tuple, list) else found


class ToyBackend(Eager):
    name = "toy"
    xp = np

    def asarray(self, x: Any, like: Any = None, dtype: str | None = None, device: Any = None) -> Any:
        return np.array(x, dtype=like.dtype if like is not None and dtype is None else dtype).view(Toy)

    def to_numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def jvp(self, fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        ahead, behind = (
            fn(*tree_map(lambda x, dx, s=s: x + s * STEP * dx, tuple(primals), tuple(tangents)))
            for s in (1, -1)
        )
        return fn(*primals), tree_map(lambda a, b: (a - b) / (2 * STEP), ahead, behind)

    def vjp(self, fn: Callable[..., Any], *primals: Any) -> Any:
        return fn(*primals), lambda g: self._differences(lambda some: (g * fn(*some)).sum(), primals)

    def value_and_grad(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return lambda v, *rest: (fn(v, *rest), self._differences(lambda w: fn(w, *rest), v))

    def gradient(self, fn: Callable[[Any], Any], x: Any) -> Any:
        return self._differences(lambda q: fn(q).sum(), x)

    def hessian_product(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        return self.jvp(lambda q: self.gradient(fn, q), (x,), (direction,))[1]

    def custom_vjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: forward(*args)[0]  # differences see what it computes

    def attach(self, p: Any, v: Any, image: Any, system: Any) -> Any:
        return p  # solved anew for every v that is tried

    def _differences(self, fn: Callable[[Any], Any], tree: Any) -> Any:
        """The gradient of the number fn(tree) in every leaf."""
        places = iter(range(len(list(leaves(tree)))))
        return tree_map(
            lambda leaf, n: self._partial(fn, tree, leaf, n), tree, tree_map(lambda _: next(places), tree)
        )

    def _partial(self, fn: Callable[[Any], Any], tree: Any, leaf: Any, number: int) -> Any:
        out = np.zeros(np.shape(leaf)).view(Toy)
        for index in np.ndindex(*out.shape):
            ends = [float(fn(_moved(tree, number, index, sign * STEP))) for sign in (1, -1)]
            out[index] = (ends[0] - ends[1]) / (2 * STEP)
        return out


def _moved(tree: Any, number: int, index: tuple[int, ...], by: float) -> Any:
    places = iter(range(10**6))

    def move(leaf: Any) -> Any:
        if next(places) != number:
            return leaf
        copy = np.array(leaf).view(Toy)
        copy[index] += by
        return copy

    return tree_map(move, tree)


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    undo = register_backend("toy", ToyBackend, lambda x: isinstance(x, Toy))
    yield
    undo()


def toy(tree: Any) -> Any:
    return tree_map(lambda x: get_backend("toy").asarray(x, dtype="float64"), tree)


def test_its_arrays_are_known() -> None:
    assert "toy" in frameworks()
    assert backend_of({"u": toy(np.ones(3))}).name == "toy"
    with pytest.raises(gfy.GfyValueError, match="toy"):
        get_backend("no such framework")


def test_the_registration_can_be_taken_back() -> None:
    undo = register_backend("another", ToyBackend, lambda x: False)
    assert "another" in frameworks()
    undo()
    assert "another" not in frameworks()


SOLVERS = [
    solvers.Auto(), solvers.ProjectedGradient(), solvers.DualNewton(), solvers.ProjectedNewton(), solvers.ActiveSet(),
    solvers.CoordinateAscent(), solvers.InteriorPoint(), solvers.FrankWolfe(), solvers.ClosedForm(), solvers.ByHand(),
]  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.name)
def test_solvers_on_the_zoo(solver: Any) -> None:
    """Every small problem of the conformance suite that the solver serves: solved in toy arrays, and certified."""
    served = [case for case in conformance.cases() if solver.unsupported(case.problem) is None]
    assert served
    for case in served:
        found = solver.solve(case.problem, toy(case.v), None, gfy.Stop(1e-8, 3_000))
        assert isinstance(found.p, Toy), case.name
        certificate = gfy.certify(case.problem, case.v, np.asarray(found.p))
        short = certificate.gap / np.maximum(1, np.abs(certificate.value))
        converged = np.asarray(found.converged)
        assert (short[converged] <= 1e-6).all(), case.name
        assert converged.any() or not case.problem.energy.smooth, case.name  # gradient steps stall at kinks


@pytest.mark.parametrize(
    "mode", [gfy.Envelope(), gfy.Implicit(), gfy.Unrolled(steps=40)], ids=lambda m: m.name
)
def test_losses_and_their_gradients(mode: Any) -> None:
    """dL/du = p* - y and dL/dA = y (A^T y)^T - p* (A^T p*)^T, at a p* that is known: A is diagonal, labels apart."""
    rng = np.random.default_rng(0)
    u, d = rng.normal(size=(2, 3)), rng.uniform(0.5, 2.0, size=(2, 3))
    y = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    p = np.clip((u + 1) / (2 + d), 0.0, 1.0)  # BinaryGini(1)
    A = np.einsum("bi,ij->bij", np.sqrt(d), np.eye(3))
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss = gfy.FenchelYoungLoss(problem, solver=solvers.ProjectedGradient(), gradient=mode)
    v, target = toy(gfy.Pairwise.Input(u, A)), toy(y)
    value, grad = get_backend("toy").value_and_grad(lambda v: loss(v, target).sum())(v)
    np.testing.assert_allclose(grad.u, p - y, atol=1e-5)
    ends = [np.einsum("bi,bj,bjm->bim", q, q, A) for q in (p, y)]
    np.testing.assert_allclose(grad.A, ends[1] - ends[0], atol=1e-5)
    at = (u * p - p * (p - 1)).sum(-1) - 0.5 * (d * p * p).sum(-1)
    there = (u * y).sum(-1) - 0.5 * (d * y * y).sum(-1)
    assert float(value) == pytest.approx(float((at - there).sum()), abs=1e-8)


def test_a_function_of_the_users() -> None:
    """An energy given by a function is differentiated by the framework: here by differences."""
    rng = np.random.default_rng(1)
    v = {"u": rng.normal(size=(2, 3)), "w": rng.uniform(0.5, 2.0, size=(2, 3))}
    energy = gfy.CustomEnergy(lambda v, p: (v["u"] * p - 0.5 * v["w"] * p * p).sum(-1), concave=True, k=3)
    problem = gfy.InnerProblem(energy, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    p = gfy.argmax(problem, toy(v), solver=solvers.ProjectedGradient(), stop=gfy.Stop(1e-6, 500))
    assert isinstance(p, Toy)
    np.testing.assert_allclose(p, np.clip((v["u"] + 1) / (2 + v["w"]), 0.0, 1.0), atol=1e-5)


# A framework's name is asked in gfy/backend and solvers/kernels alone. The exceptions, and why they are none:
ROOT = Path(__file__).resolve().parent.parent
MAY_NAME = {
    "gfy/backend/": "the frameworks themselves",
    "solvers/kernels/": "how compiled code is called from each framework",
    "solvers/peers/": "adapters of libraries that are written in one framework (jaxopt and qpax in JAX)",
}
NAMES = ("jax", "torch")


def named(source: str) -> Iterator[tuple[int, str]]:
    """(line, what) of every import of a framework and of every string that is the name of one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            yield from ((node.lineno, name) for name in found if name.split(".")[0] in NAMES)
        elif isinstance(node, ast.Constant) and node.value in NAMES:
            yield node.lineno, str(node.value)


@pytest.mark.parametrize("room", ["gfy", "solvers"])
def test_no_framework_is_named_elsewhere(room: str) -> None:
    """In `bench` a framework is a column of a row and experiments are programs in one, so that names are data there."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} names {what}"
        for path in sorted((ROOT / room).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(tuple(MAY_NAME))
        for line, what in named(path.read_text("utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_name_is_seen() -> None:
    assert len(list(named("import jax.numpy as jnp\nif b.name == 'torch':\n    from torch import nn"))) == 3
