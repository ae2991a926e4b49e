"""Define the only loop: repeat a solver's step until every example has finished.

Each example has its own flag. A finished example is frozen. An example whose step becomes NaN or infinite keeps its
last finite, feasible p and reports `converged=False`. No example waits for a number that rounding does not allow.
`result` says why an example ended; it says converged only where the gap at the returned p agrees (see `verdict`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gfy.backend import Backend, backend_of, dtype_name, is_floating, leaves, tree_map
from gfy.errors import UnsupportedError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, SteppableSolver, Stop
from solvers import verdict
from solvers.chunks import in_chunks

_LONG = 64  # examples; for a shorter batch a second loop takes longer than it saves
_LIGHT = 20_000  # Numbers per example. Copying a larger input takes as long as the steps that it saves.
_FEW = 4  # When one quarter of the batch is left, the loop continues with these examples alone.


class Run(NamedTuple):
    """Hold the state of the loop: the solver's state, the steps [...] of each example, which are active, all steps.

    `stalled` [...] marks the examples whose last step had an infinite error at a finite p. With this a solver reports
    that it makes no progress.
    """

    state: Any
    steps: Array
    active: Array
    count: Array
    stalled: Array


def run(
    solver: SteppableSolver,
    problem: InnerProblem,
    v: Input,
    p0: Array | None,
    stop: Stop,
    finish: Callable[[Input, Any], tuple[Array, Array]] | None = None,
) -> Solution:
    """Solve by init and step: p [..., k], error, steps, converged and result [...]. No derivative passes.

    `finish(v, state)`, where it is given, makes the answer from the last state: p [..., k] and a bound of its gap
    [...].
    """
    check(solver, problem, v)
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))

    def solve(v: Input, p0: Array | None) -> Solution:
        state = solver.init(problem, v, p0)
        split = splitter(problem, v, state)
        step = lambda v, s: solver.step(problem, v, s)  # noqa: E731
        final = iterate(backend, step, v, state, stop, split)
        return solution(problem, v, final, stop, *(finish(v, final.state) if finish else ()))

    with backend.constant():  # The function of an energy may have captured tensors that require a gradient.
        return in_chunks(problem, v, p0, solve)


def check(solver: Any, problem: InnerProblem, v: Input | None = None) -> None:
    """Raise the solver's own sentence where it does not serve the problem, and another where v is in another dtype."""
    reason = solver.unsupported(problem)
    if reason is not None:
        raise UnsupportedError(f"{solver.name} on {problem.name}: {reason}")
    whole = getattr(problem.energy, "ranks", None) is not None  # all leaves are numbers to compute with
    for leaf in leaves(v) if v is not None else ():
        if leaf.dtype.itemsize < 4 if is_floating(leaf) else whole:
            raise UnsupportedError(
                f"{solver.name} computes in float32 or float64, and v holds {dtype_name(leaf.dtype)}: give v to "
                "gfy.argmax, which computes in one of the two, or convert it"
            )


def iterate(
    backend: Backend,
    step: Callable[[Any, Any], Any],
    v: Any,
    state: Any,
    stop: Stop,
    split: Callable[[Any, Array], Any] | None = None,
    hold: bool = True,
) -> Run:
    """Repeat step(v, state) on a NamedTuple that has the field `error` [...]; leaves without batch axes are counters.

    A field `noise` [...] is the error below which rounding hides progress; an example that reaches it has ended.
    `split(v, index)` gives the inputs of some examples: once few are left, only those continue. With `hold=False`
    finished examples take part in further steps, for a method whose steps at a solution stay there.
    """
    xp = backend.xp

    def body(now: Run, v: Any) -> Run:
        new = step(v, now.state)
        sound = new.error < math.inf  # NaN is not below any number, and an error is never negative
        if hasattr(new, "p"):
            sound = sound & all_finite(new.p)
        kept = freeze(xp, now.active & sound, new, now.state) if hold else new
        steps = now.steps + xp.astype(now.active, now.steps.dtype)
        stalled = now.stalled | (now.active & (new.error == math.inf)) if hold else now.stalled
        return Run(kept, steps, now.active & sound & ~finished(kept, stop), now.count + 1, stalled)

    def loop(now: Run, v: Any, left: int) -> Run:
        def going(now: Run) -> Array:
            some = xp.sum(xp.astype(now.active, xp.int32)) > left if left else xp.any(now.active)
            return some & (now.count < stop.max_steps)

        return backend.while_loop(going, lambda now: body(now, v), now)

    error = state.error
    steps = xp.astype(xp.zeros_like(error), xp.int32)
    start = Run(
        state, steps, xp.isfinite(error) & ~finished(state, stop), xp.sum(steps) * 0, xp.zeros_like(steps) > 0
    )
    if split is None:
        return loop(start, v, 0)
    few = error.shape[0] // _FEW
    now = loop(start, v, few)
    # The examples that are left are gathered, so that a finished example takes no more time.
    index = xp.argsort(xp.astype(~now.active, xp.int32))[:few]
    rest = loop(_gather(now, index, error.shape[0]), split(v, index), 0)
    return _scatter(backend, now, rest, index)


def splitter(problem: InnerProblem, v: Input, state: Any) -> Callable[[Any, Array], Any] | None:
    """Return a function that takes some examples out of v where the batch is one long axis, or None where it
    does not pay."""
    ranks = getattr(problem.energy, "ranks", None)
    if ranks is None or state.error.ndim != 1 or state.error.shape[0] < _LONG:
        return None

    def split(v: Any, index: Array) -> Any:
        return type(v)(**{f: x[index] if x.ndim > ranks[f] else x for f, x in v._asdict().items()})

    batched = all(
        leaf.ndim == ranks[field] or leaf.shape[0] == state.error.shape[0]
        for field, leaf in v._asdict().items()
    )
    small = all(
        _numbers(leaf, ranks[field]) <= _LIGHT
        for field, leaf in v._asdict().items()
        if leaf.ndim > ranks[field]
    )
    return split if batched and small else None


def _numbers(leaf: Array, rank: int) -> int:
    """Return how many numbers one example's part of a leaf has."""
    return math.prod(leaf.shape[leaf.ndim - rank :])


def _gather(now: Run, index: Array, size: int) -> Run:
    def pick(leaf: Array) -> Array:
        return leaf[index] if leaf.ndim and leaf.shape[0] == size else leaf

    return tree_map(pick, now)


def _scatter(backend: Backend, now: Run, rest: Run, index: Array) -> Run:
    def put(old: Array, new: Array) -> Array:
        return new if old.ndim == new.ndim == 0 else backend.set_at(old, index, new)

    return tree_map(put, now, rest)


def finished(state: Any, stop: Stop) -> Array:
    """Return which examples have converged, [...] bool."""
    done = state.error <= stop.tol
    return done | (state.error <= state.noise) if hasattr(state, "noise") else done


def freeze(xp: Any, active: Array, new: Any, old: Any) -> Any:
    """Return the new state where active, and the old one elsewhere."""

    def pick(fresh: Array, kept: Array) -> Array:
        if fresh.ndim < active.ndim:
            return fresh
        mask = active[(..., *(None,) * (fresh.ndim - active.ndim))]
        return xp.where(mask, fresh, kept)

    return tree_map(pick, new, old)


def solution(
    problem: InnerProblem,
    v: Input,
    final: Run,
    stop: Stop,
    p: Array | None = None,
    gap: Array | None = None,
) -> Solution:
    """Return the solution of the loop with its verdict; an example that never had a finite p gets a point of C.

    A state that knows the gap [...] at its p has it in a field `gap`, or gives an upper bound of the maximum in a
    field `bound`.
    """
    state = final.state
    p = state.p if p is None else p
    backend = backend_of(p)
    xp = backend.xp
    sound = all_finite(p) & xp.isfinite(state.error)
    if not (backend.is_concrete(sound) and bool(xp.all(sound))):
        p = xp.where(all_finite(p)[..., None], p, _somewhere(problem, p))
    gap = getattr(state, "gap", None) if gap is None else gap
    if gap is None and hasattr(state, "bound"):
        gap = state.bound - problem.value(v, p)
    p, gap = _feasible(problem, v, p, gap)
    limit, broken = (xp.full_like(final.steps, int(r)) for r in (Result.STEP_LIMIT, Result.NOT_FINITE))
    otherwise = xp.where(final.active, limit, broken)
    otherwise = xp.where(final.stalled, xp.full_like(limit, int(Result.STALLED_AT_KINK)), otherwise)
    otherwise = xp.where(sound, otherwise, broken)
    result = verdict.results(problem, v, p, state.error, stop, finished(state, stop) & sound, otherwise, gap)
    return Solution(p, state.error, final.steps, verdict.converged(result), result)


def _feasible(problem: InnerProblem, v: Input, p: Array, gap: Array | None) -> tuple[Array, Array | None]:
    """Return p, projected where its sum is off by more than rounding, as the multiplier of large scores may
    leave it."""
    total = problem.domain.total
    if total is None:
        return p, gap
    backend = backend_of(p)
    off = problem.domain.violation(p)
    gap = verdict.duality_gap(problem, v, p)[0] if gap is None else gap

    def mend(given: tuple[Array, Array]) -> tuple[Array, Array]:
        inside = problem.domain.project(given[0])
        return inside, verdict.duality_gap(problem, v, inside)[0]

    off_by_much = backend.xp.any(off > 8 * backend.eps(p) * max(1.0, total))
    found: tuple[Array, Array] = backend.cond(off_by_much, mend, lambda given: given, (p, gap))
    return found


def all_finite(p: Array) -> Array:
    """Return which rows of p [..., k] hold no NaN and no infinity: 0 times either is NaN, and zeros cannot overflow."""
    backend = backend_of(p)
    # All numbers are finite where their sum is, and no array of zeros is made.
    quick = backend.xp.isfinite(p.sum(-1))
    if backend.is_concrete(quick) and bool(backend.xp.all(quick)):
        return quick
    return (0 * p).sum(-1) == 0


def _somewhere(problem: InnerProblem, like: Array) -> Array:
    """Return a point of C with the shape of `like`; a set may have a linear oracle and nothing else."""
    try:
        return problem.domain.center(like)
    except NotImplementedError:
        return problem.domain.linear_oracle(backend_of(like).xp.zeros_like(like))
