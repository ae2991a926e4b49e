"""Solve the dual of a low-rank problem by Newton's method, with m unknowns instead of k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gfy.backend import backend_of
from gfy.energies import LowRank
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.dual import kinks, many, one
from solvers.kernels import call
from solvers.kernels.at_once import AtOnce
from solvers.kernels.response import response
from solvers.loop import check, iterate, run, solution
from solvers.methods.last_digits import finish
from solvers.verdict import GAP


@dataclass(frozen=True)
class DualNewton(AtOnce):
    """Solve `gfy.Pairwise` and concave energies with kinks by Newton's method on the dual problem.

    For U = -A A^T, with u [..., k] and A [..., k, m], it minimises 1/2 |t|^2 + Omega*(u - A t) over t in R^m, and
    p = p_Omega(u - A t). This is exact after a few steps. With m = 1 on boxes it is one monotone scalar equation per
    example, and Newton's step is kept inside a bracket, because alone it can cycle between two breakpoints without
    end. Otherwise it is a semismooth Newton method with an m x m system and a line search; the simplex has one more
    multiplier. A concave energy with kinks (`ConcaveSpen` and `InputConvexNetwork` with relu, any energy that has
    `kinks`) is solved for the multipliers of its rectifiers by an interior-point method with a Newton finish. This
    serves every regularizer with an argmax map, and Omega = 0. Where such an energy is not concave (`Spen` with relu),
    the rectifiers that bend upwards are replaced by their tangents until these no longer change, and the answer is a
    local maximum. On a processor where numba is installed
    (the extra `native`), quadratic and entropic regularizers on boxes and (capped) simplices with m <= 32 run
    compiled, which is the same method and several times as fast.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Qi and Sun (1993), semismooth Newton methods.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[1.0, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> solvers.DualNewton().solve(problem, v).p.tolist()
        [[0.654, 0.077]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    fixed_tolerance: ClassVar[bool] = True  # True: a compiled call needs the tolerance when it is staged

    @property
    def name(self) -> str:
        return "DualNewton"

    @property
    def not_unrollable(self) -> str:
        return (
            "DualNewton brackets and searches for scalars that carry no derivative, so its steps are not to be "
            "unrolled: use Implicit, which costs one m x m solve here"
        )

    def unsupported(self, problem: InnerProblem) -> str | None:
        if _kinked(problem):
            return kinks.unsupported(problem)
        if problem.energy.interactions != "low rank":
            return (
                f"{problem.energy.name} has no low-rank dual: DualNewton serves Pairwise (U = -A A^T) and concave "
                "energies of rectifiers; use Auto"
            )
        if not problem.regularizer.separable:
            return f"the dual of {problem.regularizer.name} is not differentiable: use Auto"
        return problem.regularizer.no_argmax(problem.domain)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        found = self.at_once(problem, v, p0, stop)
        if found is not None:
            return found
        check(self, problem, v)
        if _kinked(problem):
            # The error bounds the gap only up to a factor, so the steps end somewhat below the tolerance.
            most = kinks.MOST_STEPS if problem.concave else kinks.MOST_LOCAL
            return run(
                self, problem, v, p0, replace(stop, tol=0.3 * stop.tol, max_steps=min(stop.max_steps, most))
            )
        if call.serves(problem, v, stop):
            return call.solve(problem, v, p0, stop, by_framework)
        return by_framework(problem, v, p0, stop)

    def compiled(self, problem: InnerProblem, v: Input) -> bool:
        return not _kinked(problem) and self.unsupported(problem) is None and call.serves(problem, v)

    def response(self, problem: InnerProblem, v: Input, p: Array) -> Callable[[Array], Array] | None:
        """Return the compiled response of p* to moved scores, or None where the framework must solve the systems."""
        return response(problem, v, p)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any:
        if _kinked(problem):
            return kinks.init(problem, v, p0)
        return many.init(problem, v, p0)

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any:
        if _kinked(problem):
            return kinks.step(problem, v, state)
        return many.step(problem, v, state)


def by_framework(problem: InnerProblem, v: Input, p0: Array | None, stop: Stop) -> Solution:
    """Take the framework's own steps: one unknown per example and its bracket, or `init` and `step` of the solver."""
    curvature = problem.energy.curvature(v)
    assert isinstance(curvature, LowRank)
    if not _scalar(problem, curvature):
        return run(
            DualNewton(), problem, v, p0, stop, lambda v, s: _finish(problem, v, s.p, dot(s.F, s.F), stop)
        )
    # The loop does not carry p, because t determines it.
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))
    given = one.parts(problem, v)
    step = lambda _, s: one.step(problem, given, s)  # noqa: E731
    final = iterate(backend, step, None, one.start(given, p0), stop, hold=False)
    p = one.primal(problem, given, final.state.best)
    return solution(problem, v, final, stop, *_finish(problem, v, p, final.state.error**2, stop))


def _kinked(problem: InnerProblem) -> bool:
    return problem.energy.kinked


def _finish(problem: InnerProblem, v: Input, p: Array, square: Array, stop: Stop) -> tuple[Array, Array]:
    """Return p corrected to its last digits and a bound of its gap; `square` [...] is |F|^2 = |t - A^T p|^2.

    Because p = p_Omega(grad Phi(p) - A F), its gap is at most |A|^2 |F|^2 / (2 mu).
    """
    curvature = problem.energy.curvature(v)
    assert isinstance(curvature, LowRank)
    mu = problem.regularizer.strong_convexity(problem.domain)
    off = curvature.bound() * square
    xp = backend_of(off).xp
    gap = off / (2 * mu) if mu > 0 else xp.where(off > 0, xp.full_like(off, float("inf")), off)
    return finish(problem, v, p, gap, GAP * stop.tol)


def _scalar(problem: InnerProblem, curvature: LowRank) -> bool:
    """Return whether there is one unknown per example: the rank is 1 and sum p is free."""
    domain = problem.domain
    return curvature.A.shape[-1] == 1 and domain.banded and domain.total is None
