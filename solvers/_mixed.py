"""Half the memory to read: iterate in float32 first, then finish in float64 from there.

A quadratic problem with a dense U costs one read of U a step. Far from the solution float32 is as good, and the
certificate (quadratic in the distance) is already small when float32 ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gfy.backend import backend_of, leaves, tree_map
from gfy.energies import LinearQuadratic
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, SteppableSolver, Stop
from gfy.sets import BandSet
from solvers._loop import check, run

_LARGE = 2_000_000  # numbers in U: below it everything stays in cache and a second loop only costs
_ROUGH = 3e-6  # what float32 steps can still see


def worthwhile(problem: InnerProblem, v: Input) -> bool:
    """A dense U in float64, too large for the caches."""
    if not isinstance(problem.energy, LinearQuadratic) or not isinstance(problem.domain, BandSet):
        return False
    return "float64" in str(v.U.dtype) and int(np.prod(v.U.shape)) >= _LARGE


def mixed(
    solver: SteppableSolver,
    problem: InnerProblem,
    v: Input,
    p0: Array | None,
    stop: Stop,
    rough: float = _ROUGH,
) -> Solution:
    """The solver's own steps in float32 down to `rough` and, from where they end, in float64."""
    check(solver, problem)
    backend = backend_of(v)
    xp = backend.xp
    v, p0 = backend.stop_gradient((v, p0))
    small: Any = tree_map(lambda x: xp.astype(x, xp.float32), (v, p0))
    first = run(solver, problem, small[0], small[1], Stop(max(stop.tol, rough), stop.max_steps))
    start = xp.astype(first.p, next(leaves(v)).dtype)
    fine = run(solver, problem, v, start, stop)
    return Solution(fine.p, fine.error, first.steps + fine.steps, fine.converged)
