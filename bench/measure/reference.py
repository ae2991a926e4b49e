"""The gradient that every mode is held against: float64, inner gap at most 1e-13, dense implicit.

The loss is stationary in p at the solution, so the implicit gradient is wrong only in the second order of
what is left of the inner error; where the mode does not apply, a tight envelope gradient stands in.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import gfy
from bench.measure.programs import Bench, value_and_gradient
from bench.plan.registry import solver_classes
from gfy.backend import get_backend, is_floating, leaves, tree_map

CANDIDATES = ("ClosedForm", "DualNewton", "ProjectedNewton", "Auto", "CoordinateAscent", "ProjectedGradient")
ENOUGH = 1e-13


@dataclass(frozen=True)
class FixedSolver:
    """Returns a point found beforehand, so that a gradient mode can be applied exactly there."""

    p: Any
    name: str = "reference"

    def unsupported(self, problem: Any) -> str | None:
        return None

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> Any:
        zero = self.p[..., 0] * 0
        return gfy.Solution(self.p, zero, zero, zero == 0)


@dataclass(frozen=True)
class Reference:
    """The reference gradient of one input, [leaf, ...] flattened, and what it rests on."""

    gradient: np.ndarray
    p: np.ndarray
    gap: float
    residual: float
    solver: str
    mode: str


def flat(bench: Bench, tree: Any) -> np.ndarray:
    """Every leaf of a gradient in one float64 vector."""
    parts = [np.asarray(bench.backend.to_numpy(x), dtype=np.float64).ravel() for x in leaves(tree)]
    return np.concatenate(parts) if parts else np.zeros(0)


def reference(bench: Bench) -> Reference | None:
    """The reference gradient for the last input; None where no solver of ours serves the problem.

    None too where the energy has kinks in p: solutions sit on them, where the derivative of Phi in v depends on
    the sign of a rounding error, and no mode can be held against another.
    It is computed in torch where that is installed, whichever framework is measured: nothing has to be compiled
    for it, and JAX is then held against another implementation.
    """
    if not bench.problem.energy.smooth:
        return None
    if bench.backend.name == "jax" and find_spec("torch") is not None:
        try:
            return _reference(_in_double(bench, "torch"))
        except (ValueError, TypeError, NotImplementedError, RuntimeError, AttributeError):
            pass  # an energy of the user's own that is written for JAX alone
    return _reference(_in_double(bench, bench.backend.name))


def _reference(double: Bench) -> Reference | None:
    best = _best_point(double)
    if best is None:
        return None
    p, certificate, name = best
    mode: Any = gfy.Implicit(linear_solve="dense")
    polished = _polish(double, p, mode)
    if polished is not None:
        again = gfy.certify(double.problem, double.inputs[-1], polished)
        if again.residual.max(initial=0.0) < certificate.residual.max(initial=0.0):
            p, certificate = polished, again
    fixed = FixedSolver(p)
    if mode.unsupported(double.problem, fixed) is not None or not double.problem.concave:
        mode = gfy.Envelope()
    try:
        gradient = _gradient(double, fixed, mode)
    except (ValueError, TypeError, NotImplementedError, RuntimeError):
        mode = gfy.Envelope()
        gradient = _gradient(double, fixed, mode)
    return Reference(
        flat(double, gradient),
        np.asarray(double.backend.to_numpy(p)),
        float(certificate.gap.max(initial=0.0)),
        float(certificate.residual.max(initial=0.0)),
        name,
        mode.name,
    )


def _gradient(bench: Bench, solver: Any, mode: Any) -> Any:
    run = value_and_gradient(bench, solver, mode, 1)
    staged = bench.backend.jit(lambda v, y, p0: run(v, y, p0, 1e-15)[1])
    return staged(bench.inputs[-1], bench.targets, bench.start)


def _in_double(bench: Bench, backend: str) -> Bench:
    """The same numbers in float64: a float32 problem is judged as it was given, rounding included."""
    ops = get_backend(backend)

    def widen(x: Any) -> Any:
        if not is_floating(x) and not bench.problem.energy.array_api:
            return ops.asarray(
                np.array(bench.backend.to_numpy(x))
            )  # an index that a function takes stays one
        numbers = np.array(bench.backend.to_numpy(x), dtype=np.float64)
        return ops.asarray(numbers, dtype="float64")

    return Bench(
        bench.instance,
        ops,
        tuple(tree_map(widen, v) for v in bench.inputs),
        widen(bench.targets),
        None if bench.start is None else widen(bench.start),
    )


def _best_point(bench: Bench) -> tuple[Any, gfy.Certificate, str] | None:
    v = bench.inputs[-1]
    best: tuple[Any, gfy.Certificate, str] | None = None
    classes = solver_classes()
    for name in CANDIDATES:
        if name not in classes:
            continue
        solver = classes[name]()
        if solver.unsupported(bench.problem) is not None:
            continue
        try:
            solve = bench.backend.jit(
                lambda v, p0, s=solver: s.solve(bench.problem, v, p0, gfy.Stop(1e-14, 5000)).p
            )
            p = solve(v, bench.start)
            certificate = gfy.certify(bench.problem, v, p)
        except (ValueError, TypeError, NotImplementedError, RuntimeError, ImportError):
            continue  # this candidate is measured, and its failure recorded, in its own cell
        if best is None or certificate.residual.max(initial=0.0) < best[1].residual.max(initial=0.0):
            best = (p, certificate, name)
        if best[1].gap.max(initial=0.0) <= ENOUGH and best[1].residual.max(initial=0.0) <= 1e-11:
            break
    return best


def _polish(bench: Bench, p: Any, mode: Any) -> Any | None:
    """One Newton step from p, where implicit differentiation applies."""
    if mode.unsupported(bench.problem, FixedSolver(p)) is not None or not bench.problem.concave:
        return None
    try:
        newton = bench.backend.jit(
            lambda v, p: bench.problem.domain.project(mode.correct(bench.problem, v, p))
        )
        moved = newton(bench.inputs[-1], p)
    except (ValueError, TypeError, NotImplementedError, RuntimeError):
        return None
    good = bool(np.isfinite(bench.backend.to_numpy(moved)).all())
    return bench.backend.stop_gradient(moved) if good else None
