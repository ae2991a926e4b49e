"""Run codes that work on NumPy arrays: the whole batch is passed to the host in one call.

The adapter adds one copy of the inputs and no work per example. The code itself decides how it computes the batch
(a loop, threads, a batched call).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of, tree_map
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, Stop
from solvers import verdict
from solvers.loop import check
from solvers.peers.host import along, claimed, heard, shaped, unflat


class Answer(NamedTuple):
    """Hold what a code reports of each example: p [n, k], iterations [n] (-1 where it does not count), success [n]."""

    p: np.ndarray
    steps: np.ndarray
    solved: np.ndarray


# work(inputs in NumPy float64, their batch shape, a warm start [n, k] or None, stop) -> answers along one
# axis
Work = Callable[[Any, tuple[int, ...], np.ndarray | None, Stop], Answer]


def on_host_batch(
    solver: Any, problem: InnerProblem, v: Input, p0: Array | None, stop: Stop, work: Work
) -> Solution:
    """Return the solutions of a batch by one call on the host, inside either framework (jitted or not)."""
    check(solver, problem, v)
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))
    start = problem.initial_point(v, p0)

    told = heard(stop)

    def host(inputs: Any, point: np.ndarray, tol: np.ndarray) -> Solution:
        inputs = tree_map(lambda x: np.asarray(x, dtype=np.float64), inputs)
        point = np.asarray(point, dtype=np.float64)
        batch, k = tuple(point.shape[:-1]), point.shape[-1]
        flat = point.reshape(-1, k)
        found = work(problem.energy.coerce(inputs), batch, flat.copy() if p0 is not None else None, told(tol))
        return unflat(_judged(problem, flat, found), batch)

    like = shaped(start)
    answer: Solution = backend.callback(host, like._replace(result=like.steps), v, start, along(stop, start))
    return answer


def held(problem: InnerProblem, v: Any, p: np.ndarray, batch: tuple[int, ...], stop: Stop) -> np.ndarray:
    """Return which of p [n, k] are solutions by their duality gap, [n], for codes that do not report it."""
    point = p.reshape((*batch, p.shape[-1]))
    with np.errstate(all="ignore"):  # a NaN among the inputs gets a result code and not a warning
        result = claimed(problem, v, point, 0 * point[..., 0], point[..., 0] == point[..., 0], stop)
    return np.asarray(verdict.converged(result)).ravel()


def each(work: Callable[[int], None], count: int, threads: int = 1) -> None:
    """Run work(n) for n below count, on several threads where the code releases the interpreter."""
    if threads <= 1 or count < 2 * threads:
        for n in range(count):
            work(n)
        return

    def part(first: int) -> None:
        for n in range(first, count, threads):
            work(n)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(threads)))


def cores() -> int:
    """Return the number of processors this process may use, or fewer where OMP_NUM_THREADS says so."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(here, int(said)) if said.isdigit() and int(said) > 0 else here


def _judged(problem: InnerProblem, fallback: np.ndarray, found: Answer) -> Solution:
    """Return the answers made feasible; where a code failed, its claim is false and the error is infinite."""
    finite = np.isfinite(found.p).all(-1)
    p = np.where(finite[:, None], found.p, fallback)
    if len(p) and (np.asarray(problem.domain.violation(p)) > 0).any():
        p = np.asarray(problem.domain.project(p))
    fine = np.asarray(found.solved, dtype=bool) & finite
    result = np.where(finite, np.where(fine, Result.CONVERGED, Result.STEP_LIMIT), Result.NOT_FINITE)
    error = np.where(fine, 0.0, np.inf)
    return Solution(p, error, np.asarray(found.steps, dtype=np.int32), fine, result.astype(np.int32))
