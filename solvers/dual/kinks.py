"""Solve concave energies with kinks from the dual, where the multipliers of their rectifiers are the unknowns.

The method is `gfy.saddle`, which certificates and gradients use as well; here it is offered as a solver.
"""

from __future__ import annotations

from gfy import saddle
from gfy.energies.kinks import stacked
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input

MOST_STEPS = 100  # steps; an interior-point method that has not ended by then does not end


def unsupported(problem: InnerProblem) -> str | None:
    """Return the reason why the dual does not serve a concave energy with kinks, in a sentence, or None where
    it does."""
    return saddle.unsupported(problem.regularizer, problem.domain)


def init(problem: InnerProblem, v: Input, p0: Array | None) -> saddle.Saddle:
    return saddle.start(_parts(problem, v), problem.initial_point(v, p0))


def step(problem: InnerProblem, v: Input, state: saddle.Saddle) -> saddle.Saddle:
    return saddle.step(_parts(problem, v), state)


def _parts(problem: InnerProblem, v: Input) -> saddle.Parts:
    found = problem.energy.kinks(v)
    assert found is not None
    st = stacked(found, tuple(problem.energy.batch_shape(v)))
    return saddle.parts(st, problem.regularizer, problem.domain)
