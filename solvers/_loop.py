"""The only loop: repeat a solver's step until every example has finished.

Each example has its own flag. A finished one is frozen; one whose step becomes NaN or infinite keeps its last
finite, feasible p and reports `converged=False`; no example waits for a number that rounding does not allow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gfy.backend import Backend, backend_of, tree_map
from gfy.errors import UnsupportedError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, SteppableSolver, Stop


class Run(NamedTuple):
    """Where the loop stands: the solver's state, steps [...] of each example, which are active, steps in all."""

    state: Any
    steps: Array
    active: Array
    count: Array


def run(solver: SteppableSolver, problem: InnerProblem, v: Input, p0: Array | None, stop: Stop) -> Solution:
    """Solve by init and step: p [..., k], error, steps and converged [...]. No derivative passes."""
    check(solver, problem)
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))
    state = solver.init(problem, v, p0)
    return solution(iterate(backend, lambda s: solver.step(problem, v, s), state, stop), stop)


def check(solver: Any, problem: InnerProblem) -> None:
    """Raise the solver's own sentence where it does not serve the problem."""
    reason = solver.unsupported(problem)
    if reason is not None:
        raise UnsupportedError(f"{solver.name} on {problem.name}: {reason}")


def iterate(backend: Backend, step: Callable[[Any], Any], state: Any, stop: Stop) -> Run:
    """Repeat step on a NamedTuple that has the field `error` [...]; leaves without batch axes are counters.

    A field `noise` [...] is the error below which rounding hides progress: reaching it ends an example's run.
    """
    xp = backend.xp

    def body(now: Run) -> Run:
        new = step(now.state)
        sound = xp.isfinite(new.error)
        if hasattr(new, "p"):
            sound = sound & xp.all(xp.isfinite(new.p), axis=-1)
        kept = freeze(xp, now.active & sound, new, now.state)
        steps = now.steps + xp.astype(now.active, now.steps.dtype)
        return Run(kept, steps, now.active & sound & ~finished(kept, stop), now.count + 1)

    error = state.error
    steps = xp.astype(xp.zeros_like(error), xp.int32)
    start = Run(state, steps, xp.isfinite(error) & ~finished(state, stop), xp.sum(steps) * 0)
    return backend.while_loop(lambda now: xp.any(now.active) & (now.count < stop.max_steps), body, start)


def finished(state: Any, stop: Stop) -> Array:
    """Which examples have converged, [...] bool."""
    done = state.error <= stop.tol
    return done | (state.error <= state.noise) if hasattr(state, "noise") else done


def freeze(xp: Any, active: Array, new: Any, old: Any) -> Any:
    """The new state where active, the old one elsewhere."""

    def pick(fresh: Array, kept: Array) -> Array:
        if fresh.ndim < active.ndim:
            return fresh
        mask = active[(..., *(None,) * (fresh.ndim - active.ndim))]
        return xp.where(mask, fresh, kept)

    return tree_map(pick, new, old)


def solution(final: Run, stop: Stop, p: Array | None = None) -> Solution:
    state = final.state
    return Solution(state.p if p is None else p, state.error, final.steps, finished(state, stop))
