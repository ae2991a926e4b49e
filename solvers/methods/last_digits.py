"""Correct the last digits of p by Newton's step in p itself, where p has the rounding of other unknowns.

With r = p_Omega(grad Phi(p)) - p a step solves (I - J H) d = r. Where Omega is weak, a method that computes p =
p_Omega(theta) moves p by much more than rounding when theta moves to the next number of its dtype. d is a correction
to p, so it keeps p's own digits.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.energies.base import LowRank
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from solvers import verdict
from solvers.methods.newton_system import answer, positive_solve, responder_at, slope_at, small_system

_LOOKS = 3  # p is judged as it is and after each of two corrections


class _Found(NamedTuple):
    p: Array
    gap: Array
    trial: Array
    count: Array


def finish(problem: InnerProblem, v: Input, p: Array, gap: Array, goal: float) -> tuple[Array, Array]:
    """Return the best of p and its corrections, and its gap [...]; `gap` bounds the gap at p and is trusted
    up to `goal`.

    Where every bound is at most `goal` nothing is evaluated.
    """
    backend = backend_of(v, p)
    xp = backend.xp

    def body(now: _Found) -> _Found:
        gap, g = verdict.duality_gap(problem, v, now.trial)
        better = gap < now.gap
        kept, known = xp.where(better[..., None], now.trial, now.p), xp.where(better, gap, now.gap)
        return _Found(kept, known, _corrected(problem, v, now.trial, g), now.count + 1)

    known = xp.where(gap <= goal, gap, xp.full_like(gap, float("inf")))
    start = _Found(p, known, p, xp.sum(xp.zeros_like(gap)))
    final = backend.while_loop(lambda now: xp.any(now.gap > goal) & (now.count < _LOOKS), body, start)
    return final.p, final.gap


def _corrected(problem: InnerProblem, v: Input, p: Array, g: Array) -> Array:
    """Return p + d, [..., k], or p itself where the derivative of p_Omega is not a diagonal."""
    if not (problem.domain.banded and problem.regularizer.separable):
        return p
    best, balanced = problem.regularizer.argmax(g, problem.domain), problem.domain.total is not None
    r, D = best - p, slope_at(problem, best)
    curvature = problem.energy.curvature(v)
    if isinstance(curvature, LowRank):
        y = positive_solve(small_system(curvature.A, D, balanced), curvature.across(r))
        moved = best - answer(D, curvature.along(y), balanced)
    else:
        moved = best + responder_at(problem, v, p)(D)(problem.energy.hessian_product(v, p, r))
    xp = backend_of(p).xp
    return problem.domain.project(xp.where(xp.isfinite(moved), moved, p))
