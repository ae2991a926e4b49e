"""Compute the reference gradient of every mode: central differences of newly solved problems, with their uncertainty.

The loss is L(v) = max_p (Phi(v, p) - Omega(p)) - Phi(v, y) + Omega(y), one number per example. It is evaluated at v + t
d and v - t d for seeded directions d in every leaf of v and for two steps t. Each solution is certified in float64; the
certificate bounds the error of the maximum, whichever solver found it. Richardson's rule combines the two steps. No
derivative code of this library takes part. The derivative of <c, p*(v)> is computed from the same solutions.

Where a gradient cannot be checked, a sentence says why.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import gfy
from bench.measure.certification import relative_gap
from bench.measure.programs import Bench
from bench.plan.registry import own_solvers
from gfy.backend import get_backend, is_floating, leaves, tree_map

SOLVERS = ("ClosedForm", "DualNewton", "ProjectedNewton", "Auto", "CoordinateAscent", "ProjectedGradient")
INDEPENDENT = "CvxpyReference"  # it is tried first where all its solves together are few and small
SMALL = 3_000  # numbers, k * examples * solves; up to this many it is tried
# Certified relative gap and residual; where both are reached, no other solver is tried.
GOOD, ENOUGH = 1e-13, 1e-11
WORST_GAP = 1e-11  # certified relative gap; above it no differences are taken
STEP = 2.0**-14  # the step is this many times the root mean square of the leaf
# Relative uncertainty of a slope; above it smaller steps and a more accurate solver are tried too.
UNSTEADY = 1e-4
WIDE = 16  # times the step; used where the solutions are too inaccurate for the step itself
STILL = 1e-6  # times the length of c; a derivative of <c, p*> that is certainly smaller is taken for zero
SEED = 23


@dataclass(frozen=True)
class Slopes:
    """Hold derivatives of a number along the directions, their joint relative uncertainty, and a sentence
    where they must not be used.
    """

    values: np.ndarray
    uncertainty: float
    missing: str | None = None

    def compare(self, found: np.ndarray) -> tuple[float | None, float | None]:
        """Return the relative error and the cosine of some slopes against these, or None where they were not
        checked."""
        if self.missing is not None:
            return None, None
        length, own = float(np.linalg.norm(self.values)), float(np.linalg.norm(found))
        apart = float(np.linalg.norm(found - self.values))
        if length == 0:
            return (0.0 if apart == 0 else apart), None
        return apart / length, (float(found @ self.values) / (length * own) if own > 0 else None)


class Direction(NamedTuple):
    """Hold a seeded direction in one leaf of v, of normal numbers, and the step along it."""

    leaf: int
    shift: np.ndarray
    step: float


@dataclass(frozen=True)
class Reference:
    """Hold the slopes of the loss and of <c, p*> along seeded directions in every leaf, and how they were found."""

    directions: tuple[Direction, ...]
    loss: Slopes
    argmax: Slopes
    p: np.ndarray
    gap: float
    residual: float
    method: str

    def along(self, gradient: Any) -> np.ndarray:
        """Return the slopes that a gradient tree of any framework claims."""
        flat = [np.asarray(gfy.backend_of(x).to_numpy(x), dtype=np.float64) for x in leaves(gradient)]
        return np.array([float((flat[d.leaf] * d.shift).sum()) for d in self.directions])


def reference(bench: Bench, limit_s: float = 60.0) -> Reference | str:
    """Return the reference for the last input, or the sentence that says why there is none.

    Args:
        bench: The problem's arrays; those in float32 are taken as they are, rounding included.
        limit_s: Seconds that all solves together may take, judged by the first.

    Returns:
        The reference, or a sentence.
    """
    if not bench.problem.energy.concave:
        return "not checked: the energy is not concave in p, so that no solution can be certified to be the maximum"
    try:
        return _reference(bench, limit_s)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        return f"not checked: the reference failed ({type(error).__name__}: {first})"[:500]


def _reference(bench: Bench, limit_s: float) -> Reference | str:
    lab = Laboratory(bench)
    directions = tuple(lab.directions())
    count = 4 * len(directions)
    best, seconds = lab.choose(count)
    if best is None:
        return f"not checked: no solver serves {bench.problem.name} and certifies what it finds"
    if best.gap > WORST_GAP:
        return f"not checked: the best certified relative gap is {best.gap:.0e}, by {best.solver}"
    if seconds * count > limit_s:
        return f"not checked: {count} solves of {seconds:.2g} s each would take longer than {limit_s:g} s"
    losses: list[tuple[float, float]] = []
    argmaxes: list[tuple[float, float]] = []
    for direction in directions:
        loss, argmax = lab.slopes(direction, best)
        steady = UNSTEADY * max([abs(slope) for slope, _ in (*argmaxes, argmax)])
        # Where a coordinate reaches a bound within the step, a smaller step helps. Where the solutions are
        # too inaccurate, a more accurate solver or a wider step helps; the slope of a wider step is as
        # uncertain as it differs from the best slope so far.
        for scale, sharp in ((1 / 32, False), (1, True), (WIDE, True)):
            if argmax[1] <= steady:
                break
            by = lab.sharper(best) if sharp else best
            if by is best and scale == 1:
                continue
            near, other = lab.slopes(direction._replace(step=scale * direction.step), by)
            apart = abs(other[0] - argmax[0]) if scale > 1 else 0.0
            loss, argmax = min(loss, near, key=_doubt), min(argmax, (other[0], other[1] + apart), key=_doubt)
        losses.append(loss)
        argmaxes.append(argmax)
    method = f"central differences of solutions by {best.solver}"
    still = STILL * lab.cotangent_length
    return Reference(
        directions, _slopes(losses), _slopes(argmaxes, still), best.p, best.gap, best.residual, method
    )


def _doubt(estimate: tuple[float, float]) -> float:
    return estimate[1]


def _richardson(steps: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the slope and its uncertainty from (difference, its uncertainty, step) at a step and at its half."""
    (whole, _, t), (half, doubt, s) = steps
    coarse, fine = whole / (2 * t), half / (2 * s)
    return (4 * fine - coarse) / 3, abs(fine - coarse) + doubt / (2 * s)


def _slopes(found: list[tuple[float, float]], still: float = 0.0) -> Slopes:
    """Return the slopes along all directions; zeros where they and their uncertainty are not above `still`."""
    values = np.array([slope for slope, _ in found])
    doubt = float(np.linalg.norm([u for _, u in found]))
    length = float(np.linalg.norm(values))
    if max(length, doubt) <= still:
        return Slopes(np.zeros_like(values), 0.0)
    if not np.isfinite(doubt):
        return Slopes(
            values, doubt, "not checked: the solutions are not known well enough to be differentiated"
        )
    uncertainty = doubt / length if length > 0 else 0.0
    if uncertainty > 0.1:
        return Slopes(
            values, uncertainty, f"not checked: the differences themselves may be off by {uncertainty:.0%}"
        )
    return Slopes(values, uncertainty)


@dataclass(frozen=True)
class Solved:
    """Hold a certified solution: p [batch, k], the losses [batch] up to a constant, and their uncertainty."""

    p: np.ndarray
    losses: np.ndarray
    doubt: float  # the uncertainty of the losses, summed over the batch
    distance: np.ndarray  # [batch], an upper bound of |p - p*|
    gap: float  # the largest relative gap of the batch
    residual: float
    solver: str


class Laboratory:
    """Solve the problem of a bench again, in float64, near its last input.

    It uses torch where that is installed, whichever framework is measured: nothing has to be compiled, and JAX is
    compared with another implementation. An energy that is a user's own function stays in its framework.
    """

    def __init__(self, bench: Bench) -> None:
        free = bench.problem.energy.array_api and find_spec("torch") is not None
        self._ops = get_backend("torch" if free else bench.backend.name)
        self.problem = bench.problem
        whole = bench.problem.energy.array_api

        def widen(x: Any) -> np.ndarray:
            """Return x in float64; an index that a user's function takes stays an index."""
            numbers = bench.backend.to_numpy(x)
            return np.array(numbers, dtype=np.float64 if whole or is_floating(x) else None)

        self._v = tree_map(widen, bench.inputs[-1])
        self._y, self._c = widen(bench.targets), widen(bench.cotangent)
        self._start = None if bench.start is None else widen(bench.start)
        self._sharper: Solved | None = None

    def directions(self) -> Iterator[Direction]:
        """Return one or two seeded directions in every leaf; a step is a small part of the leaf's size."""
        rng = np.random.default_rng(SEED)
        flat = list(leaves(self._v))
        for number, leaf in enumerate(flat):
            if leaf.dtype.kind != "f":
                continue
            size = float(np.sqrt(np.mean(leaf * leaf))) if leaf.size else 0.0
            for _ in range(2 if len(flat) <= 3 else 1):
                d = _kept_in_kind(leaf, rng.normal(size=leaf.shape))
                yield Direction(number, d, STEP * (size if size > 1e-3 else 1.0))

    def choose(self, count: int) -> tuple[Solved | None, float]:
        """Return the most accurate solution at the input itself, and the seconds a solve takes."""
        best, taken = None, 0.0
        known = own_solvers()
        small = self._y.size * count <= SMALL and find_spec("cvxpy") is not None
        for name in (INDEPENDENT, *SOLVERS) if small else SOLVERS:
            if name not in known or known[name]().unsupported(self.problem) is not None:
                continue
            found = self.solve(self._v, self._start, name)
            begin = time.process_time()  # processor time, since this process may be paused meanwhile
            self.solve(self._v, found.p, name)  # the first solve may have loaded a library
            seconds = time.process_time() - begin
            if best is None or found.residual < best.residual:
                best, taken = found, seconds
            if best.gap <= GOOD and best.residual <= ENOUGH:
                break
        return best, taken

    def sharper(self, known: Solved) -> Solved:
        """Return a solution by this library with a tenth of the residual of a known one, or else the known one."""
        if self._sharper is None:
            self._sharper = known
            for name in SOLVERS:
                if name != known.solver and own_solvers()[name]().unsupported(self.problem) is None:
                    found = self.solve(self._v, known.p, name)
                    if found.gap <= WORST_GAP and found.residual <= 0.1 * known.residual:
                        self._sharper = found
                        break
        return self._sharper

    @property
    def cotangent_length(self) -> float:
        return float(np.linalg.norm(self._c))

    def slopes(self, direction: Direction, near: Solved) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the slope of the summed loss and of <c, p*> along a direction, each with its uncertainty."""
        leaf, d, step = direction
        pairs = [(self.at(leaf, t * d, near), self.at(leaf, -t * d, near), t) for t in (step, step / 2)]
        losses = [((a.losses - b.losses).sum(), a.doubt + b.doubt, t) for a, b, t in pairs]
        return _richardson(losses), _richardson(
            [(self.dual(a.p - b.p), self.spread(a, b), t) for a, b, t in pairs]
        )

    def at(self, leaf: int, shift: np.ndarray, near: Solved) -> Solved:
        """Return the solution with one leaf shifted, started from a solution nearby."""
        numbers = iter(range(len(list(leaves(self._v)))))
        moved = tree_map(lambda x: x + shift if next(numbers) == leaf else x, self._v)
        return self.solve(moved, near.p, near.solver)

    def solve(self, v: Any, start: np.ndarray | None, name: str) -> Solved:
        solver = own_solvers()[name]()
        array = lambda x: None if x is None else self._ops.asarray(np.array(x))  # noqa: E731
        inputs = tree_map(array, v)
        work = self._ops.jit(lambda v, p0: solver.solve(self.problem, v, p0, gfy.Stop(1e-14, 5000)).p)
        p = np.array(self._ops.to_numpy(work(inputs, array(start))), dtype=np.float64)
        certificate = gfy.certify(self.problem, inputs, array(p))
        target = np.asarray(self._ops.to_numpy(self.problem.energy.value(inputs, array(self._y))))
        worst = float(np.max(relative_gap(certificate), initial=0.0))
        doubt = float(
            np.sum(certificate.gap) + 4e-16 * np.linalg.norm(np.abs(certificate.value) + np.abs(target))
        )
        residual = float(np.max(certificate.residual, initial=0.0))
        return Solved(p, certificate.value - target, doubt, certificate.distance, worst, residual, name)

    def dual(self, p: np.ndarray) -> float:
        return float((self._c * p).sum())

    def spread(self, a: Solved, b: Solved) -> float:
        """Return a bound of the error of <c, p* - p*'> computed from two solutions."""
        lengths = np.sqrt((self._c * self._c).sum(-1))
        return float(np.linalg.norm(lengths * (a.distance + b.distance)))


def _kept_in_kind(leaf: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return a direction in which the matrices of a leaf stay symmetric, or negative semi-definite, where they are.

    An energy that claims to be concave is refused where a step takes an eigenvalue above 0, as any step does from a
    matrix that is badly conditioned. With R^2 = -leaf, leaf + t R d R = -R (I - t d) R stays negative semi-definite
    for every small t.
    """
    square = leaf.ndim > 1 and leaf.shape[-1] == leaf.shape[-2]
    if not square or not leaf.size or not np.allclose(leaf, np.swapaxes(leaf, -1, -2), rtol=1e-6, atol=1e-12):
        return d
    d = (d + np.swapaxes(d, -1, -2)) / 2
    values, vectors = np.linalg.eigh((leaf + np.swapaxes(leaf, -1, -2)) / 2)
    if values.max() > 1e-6 * np.abs(values).max():
        return d
    root = (vectors * np.sqrt(np.maximum(-values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    scaled = root @ d @ root
    size = float(np.sqrt(np.mean(scaled * scaled)))
    return scaled / size if size > 0 else d
