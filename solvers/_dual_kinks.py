"""A concave SPEN with rectifiers, from the dual: the slopes of its hidden units are the unknowns.

The method is `gfy.energies.kinks`; here it is given the loop's form.
"""

from __future__ import annotations

from typing import NamedTuple

from gfy.backend import backend_of
from gfy.energies import kinks
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input


class State(NamedTuple):
    """p [..., k], slopes s [..., h], the dual bound and the projected gradient's size [...]."""

    p: Array
    s: Array
    bound: Array
    error: Array
    noise: Array


def init(problem: InnerProblem, v: Input, p0: Array | None) -> State:
    p = problem.initial_point(v, p0)
    s = kinks.slopes_at(problem.energy, v, p)  # type: ignore[arg-type]
    return _state(problem, v, kinks.start(problem.energy, v, s, problem.regularizer, problem.domain))  # type: ignore[arg-type]


def step(problem: InnerProblem, v: Input, state: State) -> State:
    zero = 0 * state.error
    slopes = kinks.Slopes(state.s, state.p, state.bound, state.error, zero, zero.sum())
    return _state(problem, v, kinks.step(problem.energy, v, slopes, problem.regularizer, problem.domain))  # type: ignore[arg-type]


def _state(problem: InnerProblem, v: Input, slopes: kinks.Slopes) -> State:
    backend = backend_of(v)
    size = backend.xp.max(backend.xp.abs(v.b1)) + backend.xp.max(backend.xp.abs(slopes.s), axis=-1)
    return State(slopes.p, slopes.s, slopes.bound, slopes.error, 8 * backend.eps(slopes.p) * (1 + size))
