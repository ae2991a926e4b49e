"""The last digits of p: Newton's step in p itself, where p = p_Omega(u - A t) inherits the rounding of t.

With r = p_Omega(grad Phi(p)) - p a step solves (I + J A A^T) d = r. Where Omega is weak next to A, moving t to the next
number of its dtype moves p by much more than rounding; d is a correction to p and keeps p's own digits.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.numerics.arithmetic import matvec, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Stop
from gfy.sets import BandSet
from solvers import verdict
from solvers.methods.newton_system import answer, positive_solve, slope_at, small_system

_LOOKS = 3  # at p itself and at two corrections of it


class _Found(NamedTuple):
    p: Array
    gap: Array
    trial: Array
    count: Array


def finish(problem: InnerProblem, v: Input, p: Array, F: Array, stop: Stop) -> tuple[Array, Array]:
    """The better of p and its corrections, and a bound of its gap; F [...] = |t - A^T p| in the Euclidean norm.

    p = p_Omega(grad Phi(p) - A F), so its gap is at most |A|^2 F^2 / (2 mu): where that is small nothing is evaluated.
    """
    backend = backend_of(v, p)
    xp = backend.xp
    curvature = problem.energy.curvature(v)
    assert isinstance(curvature, LowRank)
    A = curvature.A
    mu = problem.regularizer.strong_convexity(problem.domain)
    rest = (A * A).sum(-1).sum(-1) * F * F
    known = rest / (2 * mu) if mu > 0 else xp.where(rest == 0, rest, float("inf") + rest)
    goal = verdict.GAP * stop.tol

    def body(now: _Found) -> _Found:
        gap, g = verdict.duality_gap(problem, v, now.trial)
        better = gap < now.gap
        trial = now.trial
        if isinstance(problem.domain, BandSet):
            best, balanced = problem.regularizer.argmax(g, problem.domain), problem.domain.total is not None
            r, D = best - trial, slope_at(problem, best)
            y = positive_solve(small_system(A, D, balanced), matvec(transpose(A), r))
            trial = problem.domain.project(trial + r - answer(D, matvec(A, y), balanced))
        return _Found(
            xp.where(better[..., None], now.trial, now.p), xp.where(better, gap, now.gap), trial, now.count + 1
        )

    bound = xp.where(known <= goal, known, xp.full_like(known, float("inf")))
    start = _Found(p, bound, p, xp.sum(0 * bound))
    final = backend.while_loop(lambda s: xp.any(s.gap > goal) & (s.count < _LOOKS), body, start)
    return final.p, final.gap
