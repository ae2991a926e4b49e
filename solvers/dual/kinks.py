"""Solve energies with kinks from the dual, where the multipliers of their rectifiers are the unknowns.

The method is `gfy.saddle`, which certificates and gradients use as well; here it is offered as a solver. Where the
energy is not concave, the rectifiers that bend upwards are replaced by their tangents at the last solution, and the
concave problem that remains is solved again until its solution keeps these tangents. The value increases each time, so
that this ends at a local maximum after finitely many problems.
Reference: Yuille and Rangarajan (2003), the concave-convex procedure.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy import saddle
from gfy.backend import backend_of
from gfy.energies.kinks import Stacked, stacked
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from solvers.loop import freeze

MOST_STEPS = 100  # steps; an interior-point method that has not ended by then does not end
MOST_LOCAL = 300  # the same where the energy is not concave: several problems, most of a few steps
_NEAR = 1e-6  # the error at which the tangents of a problem are replaced by those at its solution


def unsupported(problem: InnerProblem) -> str | None:
    """Return the reason why the dual does not serve an energy with kinks, in a sentence, or None where it does."""
    return saddle.unsupported(problem.regularizer, problem.domain)


class Local(NamedTuple):
    """Hold the point `at` [..., k] of the tangents, the saddle point of the concave problem that they leave, and what
    the loop reads of it."""

    p: Array
    at: Array
    saddle: saddle.Saddle
    error: Array
    noise: Array
    gap: Array


def init(problem: InnerProblem, v: Input, p0: Array | None) -> saddle.Saddle | Local:
    start = problem.initial_point(v, p0)
    if problem.concave:
        return saddle.start(_parts(problem, _stacked(problem, v)), start)
    first = saddle.start(_parts(problem, _stacked(problem, v, start)), start)
    return Local(first.p, start, first, 1 + 0 * first.error, first.noise, first.gap)


def step(problem: InnerProblem, v: Input, state: saddle.Saddle | Local) -> saddle.Saddle | Local:
    if not isinstance(state, Local):
        return saddle.step(_parts(problem, _stacked(problem, v)), state)
    backend = backend_of(v)
    xp = backend.xp
    old = _stacked(problem, v, state.at)
    now = saddle.step(_parts(problem, old), state.saddle)
    solved = now.error <= xp.maximum(now.noise, _NEAR + 0 * now.noise)
    new = _stacked(problem, v, now.p)
    differs = xp.max(xp.abs(new.slope - old.slope), axis=-1) > 0
    # Where the value has not risen, both points solve both problems: they lie on a kink that bends upwards.
    before, after = problem.value(v, state.at), problem.value(v, now.p)
    risen = after - before > 8 * backend.eps(after) * (1 + xp.abs(before))
    better = differs & risen
    moved = solved & better
    at = xp.where(moved[..., None], now.p, state.at)
    again = saddle.start(_parts(problem, _stacked(problem, v, at)), now.p)
    following = freeze(xp, moved, again, now)
    error = xp.where(better, 1 + 0 * now.error, now.error)
    return Local(now.p, at, following, error, now.noise, now.gap)


def _stacked(problem: InnerProblem, v: Input, at: Array | None = None) -> Stacked:
    found = problem.energy.kinks(v, at)
    assert found is not None
    return stacked(found, tuple(problem.energy.batch_shape(v)) if at is None else tuple(at.shape[:-1]))


def _parts(problem: InnerProblem, st: Stacked) -> saddle.Parts:
    return saddle.parts(st, problem.regularizer, problem.domain)
