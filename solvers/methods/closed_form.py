"""Solve the cases that need no iteration: every closed form that the paper lists."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.numerics.arithmetic import matvec, transpose
from gfy.numerics.spd import positive_solver
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, Stop
from solvers import verdict
from solvers.kernels import call
from solvers.kernels.at_once import AtOnce
from solvers.loop import all_finite, check

# The factorisation may be wrong by this many units in the last place of the largest entry, per column.
_UNITS = 4


@dataclass(frozen=True)
class ClosedForm(AtOnce):
    """Compute p* in one evaluation, where a formula is known.

    Linear energies: p* is p_Omega(scores). Quadratic energies on R^k with a quadratic Omega: p* solves the linear
    system (curvature I - U) p = u + tilt, by Woodbury where U = -A A^T (`converged=False` where it is not definite).
    Metrics: p* = v where Omega is 1-Lipschitz and v lies in C. For examples whose v does not, the answer is the
    projection of v with `converged=False`.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Blondel et al. (2022), Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> v = gfy.Bilinear.Input(array([[1.0, 0.5, -2.0]]))
        >>> solvers.ClosedForm().solve(problem, v).p.tolist()
        [[0.75, 0.25, 0.0]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    @property
    def name(self) -> str:
        return "ClosedForm"

    def unsupported(self, problem: InnerProblem) -> str | None:
        energy, regularizer, domain = problem.energy, problem.regularizer, problem.domain
        if energy.linear:
            return regularizer.no_argmax(domain)
        if energy.interactions is not None:
            if domain.whole and regularizer.quadratic and not regularizer.zero:
                return None
            return "a quadratic energy has a closed form on Reals with a quadratic regularizer only: use Auto"
        if energy.metric is not None:
            if energy.metric == "other":
                return "the closed form of a metric is known for euclidean and manhattan costs: use Auto"
            if regularizer.lipschitz(domain, 1) <= 1:
                return None
            return (
                f"{regularizer.name} is not known to be 1-Lipschitz on {domain.name}, which the closed form of a "
                "metric asks for: use ProjectedGradient, or a smaller gamma"
            )
        return f"{energy.name} has no closed form: use Auto, which chooses a solver for it"

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        found = self.at_once(problem, v, p0, stop)
        if found is not None:
            return found
        check(self, problem, v)
        backend = backend_of(v)
        v = backend.stop_gradient(v)
        energy = problem.energy
        if energy.metric is not None:
            return self._metric(problem, v, stop)
        linear = energy.linear
        p = problem.regularizer.argmax(energy.scores(v), problem.domain) if linear else _system(problem, v)
        error = backend.xp.zeros_like(p.sum(-1))
        otherwise = Result.INACCURATE
        if not energy.linear and not energy.concave:
            error, otherwise = _unbounded(problem, v) + error, Result.UNBOUNDED
        fine = all_finite(p)
        p = backend.xp.where(fine[..., None], p, problem.domain.center(p))
        gap = _feasible(problem, p) if linear else None
        return _answer(problem, v, p, error, fine & (error <= stop.tol), stop, gap, otherwise)

    def compiled(self, problem: InnerProblem, v: Input) -> bool:
        known = problem.energy.linear and call.facts_of(problem) is not None
        return known and self.unsupported(problem) is None

    def _metric(self, problem: InnerProblem, v: Input, stop: Stop) -> Solution:
        xp = backend_of(v).xp
        anchor = problem.energy.anchor(v)
        p = problem.domain.project(anchor)
        # The closed form needs |Omega(p) - Omega(q)| <= C(p, q). For the manhattan cost this bounds the
        # largest partial derivative.
        k = 1 if problem.energy.metric == "manhattan" else p.shape[-1]
        flat = problem.regularizer.lipschitz(problem.domain, k) <= 1
        apart = xp.sqrt(((p - anchor) ** 2).sum(-1))
        known = (apart <= 8 * backend_of(v).eps(p)) & flat
        error = xp.where(known, 0 * apart, xp.full_like(apart, float("inf")))
        return _answer(problem, v, p, error, known, stop, gap=error)


def _answer(
    problem: InnerProblem, v: Input, p: Array, error: Array, fine: Array, stop: Stop, gap: Array | None = None,
    otherwise: Result = Result.INACCURATE,
) -> Solution:  # fmt: skip
    """Return p with its verdict; where the form does not hold, no step has been taken that could be repeated."""
    xp = backend_of(p).xp
    none = xp.astype(xp.zeros_like(error), xp.int32)
    result = verdict.results(problem, v, p, error, stop, fine, none + int(otherwise), gap)
    return Solution(p, error, none - 1, verdict.converged(result), result)


def _feasible(problem: InnerProblem, p: Array) -> Array | None:
    """Return the gap of p = p_Omega(scores), [...]: zero by the definition of the map, infinite where p is not in C.

    The answer is None where a test whether p lies in the set takes long; the gap is then computed.
    """
    domain = problem.domain
    if not (domain.banded or domain.ball or domain.whole):
        return None
    backend = backend_of(p)
    xp = backend.xp
    outside = domain.violation(p)
    allowed = math.sqrt(backend.eps(p)) * (1 + xp.max(xp.abs(p), axis=-1))
    return xp.where(outside <= allowed, xp.zeros_like(outside), xp.full_like(outside, math.inf))


def _system(problem: InnerProblem, v: Any) -> Array:
    """Return (curvature I - U)^-1 (u + tilt)."""
    regularizer = problem.regularizer
    form = problem.energy.quadratic(v)
    assert form is not None
    curvature = form.curvature
    c, rhs = regularizer.curvature, form.u + regularizer.tilt
    if isinstance(curvature, LowRank):
        A = curvature.A
        return (rhs - matvec(A, _raised(transpose(A) @ A, c, matvec(transpose(A), rhs)))) / c
    return _raised(-curvature.U, c, rhs)


def _raised(matrix: Array, c: float, rhs: Array) -> Array:
    """Return (matrix + c I)^-1 rhs; c is large enough that rounding cannot make a system of equal columns singular."""
    backend = backend_of(matrix)
    xp = backend.xp
    eye = backend.asarray(np.eye(matrix.shape[-1]), like=matrix)
    largest = xp.max(xp.abs((matrix * eye).sum(-1)), axis=-1)[..., None, None]
    least = _UNITS * matrix.shape[-1] * backend.eps(matrix) * largest
    system = matrix + xp.maximum(least, xp.full_like(least, c)) * eye
    if system.ndim == 2:  # one system with the scores of all examples as right-hand sides
        rows = rhs.reshape((-1, rhs.shape[-1]))
        return transpose(positive_solver(system)(transpose(rows))).reshape(rhs.shape)
    batch = np.broadcast_shapes(tuple(rhs.shape[:-1]), tuple(system.shape[:-2]))
    whole = xp.broadcast_to(system, (*batch, *system.shape[-2:]))
    return positive_solver(whole)(xp.broadcast_to(rhs, (*batch, rhs.shape[-1]))[..., None])[..., 0]


def _unbounded(problem: InnerProblem, v: Any) -> Array:
    """Return 0 where curvature I - U is positive definite, and infinity where the problem has no maximum, [...]."""
    curvature = problem.energy.curvature(v)
    assert curvature is not None
    xp = backend_of(v).xp
    largest = xp.max(xp.linalg.eigvalsh(curvature.dense()), axis=-1)
    return xp.where(largest < problem.regularizer.curvature, 0 * largest, xp.full_like(largest, float("inf")))
