"""Run solvers outside both frameworks: one example at a time, in NumPy float64, on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gfy.backend import backend_of, tree_map
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, Stop
from solvers import verdict
from solvers.loop import check

# solve(one example's v, start) -> p, the solver's own error, its iterations, whether it reports success
One = Callable[[Any, np.ndarray | None], tuple[np.ndarray, float, int, bool]]


def on_host(
    solver: Any,
    problem: InnerProblem,
    v: Input,
    p0: Array | None,
    stop: Stop,
    prepare: Callable[[Any, Stop], One],
) -> Solution:
    """Return the solution of every example by a loop on the host, inside either framework (jitted or not).

    The tolerance is passed to the host with the inputs, so that a compiled program may have it as an argument.
    """
    check(solver, problem, v)
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))
    start = problem.initial_point(v, p0)  # it is also the answer for an example that fails

    told = heard(stop)

    def host(inputs: Any, point: np.ndarray, tol: np.ndarray) -> Solution:
        stop = told(tol)
        inputs = tree_map(lambda x: np.asarray(x, dtype=np.float64), inputs)
        point = np.asarray(point, dtype=np.float64)
        batch, k = point.shape[:-1], point.shape[-1]
        flat = point.reshape(-1, k)
        points, errors = flat.copy(), np.full(len(flat), np.inf)
        counts, content = np.zeros(len(flat), dtype=np.int32), np.zeros(len(flat), dtype=bool)
        solve = prepare(problem.energy.coerce(inputs), stop)
        for n, index in enumerate(np.ndindex(*batch)):
            p, error, steps, fine = solve(
                example(problem, inputs, index), flat[n] if p0 is not None else None
            )
            if np.isfinite(p).all():
                points[n] = np.asarray(problem.domain.project(p))
                errors[n], counts[n], content[n] = error, steps, fine
        at = points.reshape(point.shape), errors.reshape(batch), content.reshape(batch)
        with np.errstate(all="ignore"):  # a NaN among the inputs gets a result code and not a warning
            result = claimed(problem, inputs, *at, stop)
        found = Solution(points, errors, counts, verdict.converged(result).ravel(), result.ravel())
        return unflat(found, batch)

    return backend.callback(host, shaped(start), v, start, along(stop, start))


def along(stop: Stop, start: Array) -> Array:
    """Return the tolerance as an array that a callback receives beside start [..., k]: one number per example."""
    one = start[..., 0]
    return backend_of(start).xp.zeros_like(one) + stop.tol


def heard(stop: Stop) -> Callable[[np.ndarray], Stop]:
    """Read on the host the tolerance that `along` sent; the other limits are known while a program is staged."""
    max_steps = stop.max_steps

    def told(tol: np.ndarray) -> Stop:
        return Stop(float(np.ravel(tol)[0]) if np.size(tol) else 0.0, max_steps)

    return told


def claimed(problem: InnerProblem, v: Input, p: Array, error: Array, content: Array, stop: Stop) -> Array:
    """Judge a peer's claim to have converged, [...] int32: it holds where the gap at its p agrees."""
    xp = backend_of(p).xp
    ended = xp.isfinite(error)
    limit, broken = (
        xp.astype(xp.zeros_like(error), xp.int32) + int(r) for r in (Result.STEP_LIMIT, Result.NOT_FINITE)
    )
    return verdict.results(problem, v, p, error, stop, content, xp.where(ended, limit, broken))


def shaped(point: Array) -> Solution:
    """Return an example of a callback's solution for p shaped as `point`; only shapes and types count."""
    xp = backend_of(point).xp
    one = point[..., 0]
    count = xp.astype(xp.zeros_like(one), xp.int32)
    return Solution(point, one, count, one > 0, count)


def unflat(found: Solution, batch: tuple[int, ...]) -> Solution:
    """Return solutions along one axis, [n, ...], as those of a batch."""
    whole: Solution = tree_map(lambda x: x.reshape((*batch, *x.shape[1:])), found)
    return whole


def example(problem: InnerProblem, v: Any, index: tuple[int, ...]) -> Any:
    """Return the input of one example of a batch; leaves may be shared by the batch or broadcast."""

    def pick(leaf: np.ndarray, axes: int) -> np.ndarray:
        place = index[len(index) - axes :]
        return leaf[tuple(i if n > 1 else 0 for i, n in zip(place, leaf.shape[:axes], strict=True))]

    return tree_map(pick, v, problem.energy.axes(v))
