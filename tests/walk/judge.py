"""One cell of the walk: ask the library, and say whether the answer is right, refused, told to be unsolved or wrong."""

from __future__ import annotations

import traceback
import warnings
import zlib
from typing import Any, NamedTuple

import numpy as np

import gfy
from gfy.errors import GfyError

from . import catalogue
from .expected import Expected, batch_of, by_name, draw, example, expected, measure, seed_of
from .frameworks import framework
from .reference import NoReference

RIGHT, REFUSED, TOLD, WRONG, UNKNOWN = "right", "refused", "told", "wrong", "no reference"

# What an answer may be off by, per unit of dp*/d(scores) and of the scores: a hundred times the tolerance that the
# solver was given, or what a few hundred roundings (few in half precision, where sums have few terms) may cost.
ACCURACY = {
    "float64": 1e-7,
    "float32": 512 * float(np.finfo(np.float32).eps),
    "float16": 16 * float(np.finfo(np.float16).eps),
    "bfloat16": 16 * 2.0**-7,
}
TOLERANCE = 1e-9
_DRAWS = 8  # of an energy that is not concave, for a reference
# Solvers whose tolerance is on the gap in value: p is off by the root of it.
GAPS = {"CvxpyLayers": TOLERANCE, "CvxpyReference": TOLERANCE, "FrankWolfe": 1e-11, "MirrorAscent": 1e-11}
STEPS = {"FrankWolfe": 300, "MirrorAscent": 1000}


class Cell(NamedTuple):
    """One combination."""

    energy: str
    domain: str
    omega: str
    solver: str
    mode: str
    framework: str
    dtype: str
    layout: str

    @property
    def name(self) -> str:
        return "/".join(self)

    @property
    def staged(self) -> bool:
        """Whether the derivatives are taken inside jit, as those of every fourth cell are."""
        return zlib.crc32(self.name.encode()) % 4 == 0

    @property
    def third(self) -> bool:
        """Whether the conjugate is looked at beside argmax and loss, as in every fourth cell."""
        return zlib.crc32(self.name.encode()) % 16 < 4


class Outcome(NamedTuple):
    """What became of a cell, and the sentence or the figures that say why."""

    kind: str
    detail: str = ""


def refusal(cell: Cell) -> str | None:
    """The sentence that refuses the cell before anything is computed; None where it is accepted."""
    entry, place, regularizer = by_name(cell.energy, cell.domain, cell.omega)
    k = entry.size(place)
    try:
        problem = gfy.InnerProblem(entry.make(cell.framework, k), regularizer.make(), place.make(k))
    except GfyError as error:
        return str(error)
    solver, mode = catalogue.SOLVERS[cell.solver](), catalogue.MODES[cell.mode]
    return solver.unsupported(problem) or mode.unsupported(problem, solver)


def judge(cell: Cell) -> Outcome:
    """The outcome of a cell; nothing is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sentence = refusal(cell)
            return refused(sentence) if sentence is not None else _accepted(cell)
        except GfyError as error:
            return refused(str(error))
        except NoReference as error:
            return Outcome(UNKNOWN, str(error))
        except Exception as error:  # what a user would meet: the point of this suite is to find it
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = " ".join(str(error).split())[:200]
            return Outcome(WRONG, f"raised {type(error).__name__} at {place.name}:{place.lineno}: {said}")


def refused(sentence: str) -> Outcome:
    words = len(sentence.split())
    return (
        Outcome(REFUSED, sentence)
        if words >= 4
        else Outcome(WRONG, f"refused without a reason: {sentence!r}")
    )


def _accepted(cell: Cell) -> Outcome:
    entry, place, regularizer = by_name(cell.energy, cell.domain, cell.omega)
    k = entry.size(place)
    ops = framework(cell.framework, cell.dtype)
    energy = entry.make(cell.framework, k)
    problem = gfy.InnerProblem(energy, regularizer.make(), place.make(k))
    solver, mode = catalogue.SOLVERS[cell.solver](), catalogue.MODES[cell.mode]
    stop = gfy.Stop(GAPS.get(cell.solver, TOLERANCE), STEPS.get(cell.solver, 2000))
    if not entry.formula().concave:
        return _local(cell, ops, problem, solver, mode, stop)
    right = expected(cell.energy, cell.domain, cell.omega, cell.layout)
    arrays = {name: ops.array(leaf) for name, leaf in right.leaves.items()}
    p, happy, _ = _solved(cell, ops, problem, solver, stop, entry.tree(energy, arrays))
    wrong = _unsound(cell, k, p, happy)
    return wrong or _compared(cell, ops, entry, problem, solver, mode, stop, arrays, right, p, happy)


def _local(cell: Cell, ops: Any, problem: Any, solver: Any, mode: Any, stop: Any) -> Outcome:
    """A local maximum of an energy that is not concave, at a draw that puts it where p* is differentiable."""
    entry, place, regularizer = by_name(cell.energy, cell.domain, cell.omega)
    k = entry.size(place)
    rng = np.random.default_rng(seed_of(cell.energy, cell.domain, cell.omega, cell.layout))
    for last in [False] * (_DRAWS - 1) + [True]:
        leaves = draw(entry, k, cell.layout, rng)
        arrays = {name: ops.array(leaf) for name, leaf in leaves.items()}
        p, happy, result = _solved(cell, ops, problem, solver, stop, entry.tree(problem.energy, arrays))
        wrong = _unsound(cell, k, p, happy)
        if wrong is None and _endless(cell, leaves).any():
            if last:
                return _refused_endless(cell, leaves, result)
            continue
        if wrong is None and not happy.all():
            wrong = Outcome(TOLD, "`converged` is false")
        if wrong is not None:
            return wrong
        try:
            right = measure(entry, place, regularizer, leaves, cell.layout, rng, p)
        except NoReference:
            if last:
                raise
            continue
        return _compared(cell, ops, entry, problem, solver, mode, stop, arrays, right, p, happy)
    raise AssertionError("every draw ends above")


def _endless(cell: Cell, leaves: dict[str, np.ndarray]) -> np.ndarray:
    """Which examples have no maximum: a quadratic energy on R^k that grows faster than a quadratic Omega."""
    entry, place, regularizer = by_name(cell.energy, cell.domain, cell.omega)
    batch, k = batch_of(cell.layout), entry.size(place)
    if not place.region(k).whole or "U" not in entry.leaves:
        return np.zeros(batch, dtype=bool)
    one = regularizer.omega.value
    c = (one(np.eye(k)) + one(-np.eye(k)) - 2 * one(np.zeros(k))).max()  # gamma, or 2 gamma
    return np.broadcast_to(np.linalg.eigvalsh(leaves["U"]).max(-1) >= c, batch)


def _refused_endless(cell: Cell, leaves: dict[str, np.ndarray], result: np.ndarray) -> Outcome:
    """The refusal of the examples that have no maximum: `result` says so of each of them and of no other."""
    said = result == int(gfy.Result.UNBOUNDED)
    if (said == _endless(cell, leaves)).all():
        return refused(gfy.Result.UNBOUNDED.sentence)
    return Outcome(WRONG, f"the examples {_endless(cell, leaves)} have no maximum, and result is {result}")


def _solved(
    cell: Cell, ops: Any, problem: Any, solver: Any, stop: Any, v: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p, converged and result."""

    def solve(w: Any) -> Any:
        if cell.dtype in ("float16", "bfloat16"):  # the public functions compute half precision in float32
            return gfy.argmax(problem, w, solver=solver, stop=stop, return_solution=True)
        return solver.solve(problem, problem.energy.coerce(w), None, stop)

    found = ops.stage(solve, cell.staged)(v)
    happy = np.asarray(ops.numpy(found.converged)).astype(bool)
    silent = found.result is None  # as a solver that gives no reasons
    result = np.full(happy.shape, -1) if silent else np.asarray(ops.numpy(found.result))
    return ops.numpy(found.p), happy, result


def _unsound(cell: Cell, k: int, p: np.ndarray, happy: np.ndarray) -> Outcome | None:
    """What is wrong with the form of an answer."""
    batch = batch_of(cell.layout)
    if p.shape != (*batch, k) or happy.shape != batch:
        return Outcome(
            WRONG, f"p has shape {p.shape} and converged {happy.shape} for a batch {batch} and k = {k}"
        )
    if not np.isfinite(p).all():
        return Outcome(WRONG, f"p holds NaN or infinity, converged = {happy.all()}")
    return None


def _compared(
    cell: Cell, ops: Any, entry: Any, problem: Any, solver: Any, mode: Any, stop: Any, arrays: dict[str, Any],
    right: Expected, p: np.ndarray, happy: np.ndarray,
) -> Outcome:  # fmt: skip
    """p and its derivatives beside the reference."""
    if not right.unique:
        return _value_alone(cell, right, p, happy)
    size = ACCURACY[cell.dtype]
    if cell.solver in GAPS:
        size = max(size, (8 * GAPS[cell.solver]) ** 0.5)
    condition = max(1.0, right.condition)
    allowed = size * condition * right.scale
    off = np.abs(p - right.p).max(axis=-1)
    if (off > allowed).any():
        if not (happy & (off > allowed)).any():
            return Outcome(TOLD, f"p is off by {off.max():.2g}, and `converged` is false")
        return Outcome(WRONG, f"converged, and p is off by {off[happy].max():.2g} (allowed {allowed:.2g})")
    return _derivatives(cell, ops, entry, problem, solver, mode, stop, arrays, right, allowed, condition)


def _value_alone(cell: Cell, right: Expected, p: np.ndarray, happy: np.ndarray) -> Outcome:
    """Several p attain the maximum: one of them is right, and the argmax has no derivative to compare."""
    entry, place, regularizer = by_name(cell.energy, cell.domain, cell.omega)
    region, formula = place.region(p.shape[-1]), entry.formula()
    size = ACCURACY[cell.dtype] * right.scale * p.shape[-1]
    for index in np.ndindex(*p.shape[:-1]):
        outside = region.violation(p[index])
        value = formula.value(example(entry, right.leaves, index), p[index]) - regularizer.omega.value(
            p[index]
        )
        if outside > size or abs(value - right.value[index]) > size:
            off = f"p is outside C by {outside:.2g}, its value {value:.8g} for {right.value[index]:.8g}"
            return Outcome(WRONG if happy[index] else TOLD, off)
    return Outcome(RIGHT, "one of several maxima")


def _derivatives(
    cell: Cell, ops: Any, entry: Any, problem: Any, solver: Any, mode: Any, stop: Any, arrays: dict[str, Any],
    right: Expected, allowed: float, condition: float,
) -> Outcome:  # fmt: skip
    y, weights, cotangent = (ops.array(x) for x in (right.y, right.weights, right.cotangent))
    loss = gfy.FenchelYoungLoss(problem, solver, mode, stop=stop, target_tol=0.05)
    given = {"solver": solver, "gradient": mode, "stop": stop}
    functions = {
        "loss": lambda w: (weights * loss(w, y)).sum(),
        "conjugate": lambda w: (weights * gfy.conjugate(problem, w, **given)).sum(),
        "argmax": lambda w: (cotangent * gfy.argmax(problem, w, **given)).sum(),
    }
    values = {
        "loss": (right.weights * right.loss).sum(),
        "conjugate": (right.weights * right.value).sum(),
        "argmax": (right.cotangent * right.p).sum(),
    }
    wanted = (
        ("loss", "conjugate")
        if cell.mode == "envelope"
        else ("argmax", "loss", "conjugate")[: 2 + cell.third]
    )
    rounding = ACCURACY[cell.dtype] * right.scale
    for quantity in wanted:
        value, grads = ops.value_and_grad(
            functions[quantity], entry.tree(problem.energy, arrays), cell.staged
        )
        slack = (allowed if quantity == "argmax" else rounding) * 4 * right.weights.size
        if not abs(value - values[quantity]) <= slack * (1 + abs(values[quantity])):
            return Outcome(WRONG, f"{quantity} is {value:.8g}, right is {values[quantity]:.8g}")
        for name, gradient in entry.flat(grads).items():
            for direction, slope in zip(right.directions[name], right.slopes[name], strict=True):
                truth = {
                    "loss": (right.weights * slope.loss).sum(),
                    "conjugate": (right.weights * slope.value).sum(),
                    "argmax": (right.cotangent * slope.p).sum(),
                }[quantity]
                got = float((ops.numpy(gradient) * direction).sum())
                room = 4 * allowed * (1 + abs(truth)) * direction.size**0.5
                room *= condition if quantity == "argmax" else 1.0
                room *= LOOSE.get(cell.mode, 1.0)
                if not abs(got - truth) <= room:
                    return Outcome(
                        WRONG,
                        f"d {quantity} / d {name} is {got:.6g}, differences give {truth:.6g} (room {room:.1g})",
                    )
    return Outcome(RIGHT)


LOOSE = {"unrolled": 1e3}  # the derivative of the iterations approaches that of p* as they converge
