"""What the adapters of quadratic-programming codes share: programs from inner problems, one host call per batch.

A code that works on NumPy arrays is given the whole batch at once, so that the adapter adds one copy of the inputs and
nothing per example; how the batch is worked off (a loop, threads, a batched call) is the adapter's business.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gfy.backend import backend_of, tree_map
from gfy.energies import LowRank
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, Stop
from gfy.regularizers import Quadratic
from gfy.sets import BandSet
from solvers.loop import check
from solvers.peers.host import shaped, unflat
from solvers.peers.jaxopt_shared import not_quadratic


@dataclass(frozen=True)
class Programs:
    """n programs min 1/2 <p, H p> + <g, p> with low <= p <= high, and sum p = total where a total is given.

    g is [n, k], low and high are [k]. H = curvature I + (A A^T or `matrix`): A [n, k, m] where the interactions have
    low rank, `matrix` [n, k, k] otherwise; their first axis has length 1 where the batch shares them.
    """

    g: np.ndarray
    low: np.ndarray
    high: np.ndarray
    total: float | None
    curvature: float
    A: np.ndarray | None
    matrix: np.ndarray | None

    @cached_property
    def H(self) -> np.ndarray:
        """[n or 1, k, k]."""
        interactions = self.matrix if self.A is None else self.A @ np.swapaxes(self.A, -1, -2)
        assert interactions is not None
        whole: np.ndarray = interactions + self.curvature * np.eye(self.g.shape[-1])
        return whole

    def hessian(self, n: int) -> np.ndarray:
        """H of program n, [k, k]."""
        one: np.ndarray = self.H[n % len(self.H)]
        return one

    def factor(self, n: int) -> np.ndarray | None:
        """A of program n, [k, m]; None where the interactions are not of low rank."""
        return None if self.A is None else self.A[n % len(self.A)]


class Answer(NamedTuple):
    """What a code says of each program: p [n, k], iterations [n] (-1 where it does not count), success [n]."""

    p: np.ndarray
    steps: np.ndarray
    solved: np.ndarray


@dataclass(frozen=True)
class QuadraticPeer:
    """An outside code for quadratic programs behind the protocol: a subclass names its library and solves a batch."""

    library: ClassVar[str]  # what must be importable
    sums: ClassVar[bool] = True  # whether the code accepts the constraint sum p = total
    definite: ClassVar[bool] = False  # whether it needs a strictly convex program

    @property
    def name(self) -> str:
        return type(self).__name__

    def unsupported(self, problem: InnerProblem) -> str | None:
        if find_spec(self.library) is None:
            return f"{self.library} is not installed: python -m pip install {self.library}"
        domain = problem.domain
        if not isinstance(domain, BandSet) or not domain.compact:
            return f"this adapter writes boxes and simplices as bounds, not {domain.name}"
        if domain.total is not None and not self.sums:
            return f"{self.library} knows bounds only, not the sum that {domain.name} fixes"
        if self.definite and not isinstance(problem.regularizer, Quadratic):
            return f"{self.library} needs a strictly convex program, which {problem.regularizer.name} does not give"
        return not_quadratic(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem)
        backend = backend_of(v)
        v, p0 = backend.stop_gradient((v, p0))
        start = problem.initial_point(v, p0)

        def host(inputs: Any, point: np.ndarray) -> Solution:
            inputs = tree_map(lambda x: np.asarray(x, dtype=np.float64), inputs)
            point = np.asarray(point, dtype=np.float64)
            batch, k = point.shape[:-1], point.shape[-1]
            flat = point.reshape(-1, k)
            found = self._batch(programs(problem, inputs, batch), flat.copy() if p0 is not None else None, stop)
            return unflat(_judged(problem, flat, found), batch)

        answer: Solution = backend.callback(host, _shaped(start), v, start)
        return answer

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        """Solve every program; `start` [n, k] is a warm start."""
        raise NotImplementedError(f"{self.name}._batch")


def programs(problem: InnerProblem, v: Any, batch: tuple[int, ...]) -> Programs:
    """The inner problems of a batch in NumPy as quadratic programs."""
    omega, domain = problem.regularizer, problem.domain
    assert isinstance(domain, BandSet)
    curved, tilt = (omega.curvature, omega.tilt) if isinstance(omega, Quadratic) else (0.0, 0.0)
    k = problem.energy.dim(v)
    linear = problem.energy.grad_p(v, np.zeros((*batch, k)))
    curvature = problem.energy.curvature(v)
    assert curvature is not None
    low, high = (
        np.array(np.broadcast_to(np.asarray(b, dtype=float), (k,))) for b in domain.bounds(np.zeros(k))
    )
    A = curvature.A if isinstance(curvature, LowRank) else None
    matrix = None if isinstance(curvature, LowRank) else -curvature.U
    return Programs(
        -(np.broadcast_to(linear, (*batch, k)).reshape(-1, k) + tilt),
        low,
        high,
        domain.total,
        float(curved),
        _rows(A, batch),
        _rows(matrix, batch),
    )


def _rows(matrix: np.ndarray | None, batch: tuple[int, ...]) -> np.ndarray | None:
    """Matrices [..., a, b] along one axis, [n or 1, a, b]; one that the batch shares is not copied."""
    if matrix is None:
        return None
    event = matrix.shape[-2:]
    if matrix.size == event[0] * event[1]:
        return np.ascontiguousarray(matrix.reshape(1, *event))
    return np.ascontiguousarray(np.broadcast_to(matrix, (*batch, *event)).reshape(-1, *event))


def each(work: Callable[[int], None], count: int, threads: int = 1) -> None:
    """work(n) for n below count, on several threads where the code releases the interpreter."""
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
    """The processors this process may use, or fewer where OMP_NUM_THREADS says so."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(here, int(said)) if said.isdigit() and int(said) > 0 else here


def _shaped(point: Array) -> Solution:
    found = shaped(point)
    return found._replace(result=found.steps)


def _judged(problem: InnerProblem, fallback: np.ndarray, found: Answer) -> Solution:
    """The answers made feasible; where a code failed, its claim is false and the error is infinite."""
    finite = np.isfinite(found.p).all(-1)
    p = np.where(finite[:, None], found.p, fallback)
    violation = np.asarray(problem.domain.violation(p))
    if (violation > 0).any():
        p = np.asarray(problem.domain.project(p))
    fine = np.asarray(found.solved, dtype=bool) & finite
    result = np.where(finite, np.where(fine, Result.CONVERGED, Result.STEP_LIMIT), Result.NOT_FINITE)
    error = np.where(fine, 0.0, np.inf)
    return Solution(p, error, np.asarray(found.steps, dtype=np.int32), fine, result.astype(np.int32))
