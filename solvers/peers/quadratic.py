"""Define what the adapters of quadratic-programming codes share: the programs that belong to inner problems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from gfy.energies import LowRank
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers.host_batch import Answer, on_host_batch
from solvers.peers.jaxopt_shared import not_quadratic


@dataclass(frozen=True)
class Programs:
    """Hold n programs min 1/2 <p, H p> + <g, p> with low <= p <= high, and sum p = total where a total is given.

    g is [n, k], low and high are [k]. H = curvature I + (A A^T or `matrix`). A [n, k, m] is given where the
    interactions have low rank, and `matrix` [n, k, k] otherwise; their first axis has length 1 where the batch shares
    them.
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
        """Return the Hessians, [n or 1, k, k]."""
        interactions = self.matrix if self.A is None else self.A @ np.swapaxes(self.A, -1, -2)
        assert interactions is not None
        whole: np.ndarray = interactions + self.curvature * np.eye(self.g.shape[-1])
        return whole

    def hessian(self, n: int) -> np.ndarray:
        """Return H of program n, [k, k]."""
        one: np.ndarray = self.H[n % len(self.H)]
        return one

    def factor(self, n: int) -> np.ndarray | None:
        """Return the A of program n, [k, m], or None where the interactions are not of low rank."""
        return None if self.A is None else self.A[n % len(self.A)]


@dataclass(frozen=True)
class QuadraticPeer:
    """Adapt an outside code for quadratic programs to the protocol: a subclass names its library and solves a batch."""

    library: ClassVar[str]  # the name of the package that must be installed
    sums: ClassVar[bool] = True  # whether the code accepts the constraint sum p = total
    definite: ClassVar[bool] = False  # whether it needs a strictly convex program
    fixed_tolerance: ClassVar[bool] = False
    ignores_tolerance: ClassVar[bool] = False  # whether the code takes no tolerance

    @property
    def name(self) -> str:
        return type(self).__name__

    def unsupported(self, problem: InnerProblem) -> str | None:
        if find_spec(self.library) is None:
            return f"{self.library} is not installed: python -m pip install {self.library}"
        domain = problem.domain
        if not (domain.banded and domain.compact):
            return f"this adapter writes boxes and simplices as bounds, not {domain.name}: use Auto"
        if domain.total is not None and not self.sums:
            return f"{self.library} knows bounds only, not the sum that {domain.name} fixes: use Auto"
        if self.definite and problem.regularizer.zero:
            return f"{self.library} needs a regularizer that makes the program strictly convex: use Auto"
        return not_quadratic(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def work(inputs: Any, batch: tuple[int, ...], start: np.ndarray | None, stop: Stop) -> Answer:
            return self._batch(programs(problem, inputs, batch), start, stop)

        return on_host_batch(self, problem, v, p0, stop, work)

    def _batch(self, given: Programs, start: np.ndarray | None, stop: Stop) -> Answer:
        """Solve every program; `start` [n, k] is a warm start."""
        raise NotImplementedError(f"{self.name} must define the method _batch")


def programs(problem: InnerProblem, v: Any, batch: tuple[int, ...]) -> Programs:
    """Return the inner problems of a batch in NumPy as quadratic programs."""
    omega, domain = problem.regularizer, problem.domain
    form = problem.energy.quadratic(v)
    assert form is not None
    (linear, curvature), k = form, form.u.shape[-1]
    low, high = (
        np.array(np.broadcast_to(np.asarray(b, dtype=float), (k,))) for b in domain.bounds(np.zeros(k))
    )
    A = curvature.A if isinstance(curvature, LowRank) else None
    matrix = None if isinstance(curvature, LowRank) else -curvature.U
    return Programs(
        -(np.broadcast_to(linear, (*batch, k)).reshape(-1, k) + omega.tilt),
        low,
        high,
        domain.total,
        float(omega.curvature),
        _rows(A, batch),
        _rows(matrix, batch),
    )


def _rows(matrix: np.ndarray | None, batch: tuple[int, ...]) -> np.ndarray | None:
    """Return matrices [..., a, b] along one axis, [n or 1, a, b]; a matrix that the batch shares is not copied."""
    if matrix is None:
        return None
    event = matrix.shape[-2:]
    if matrix.size == event[0] * event[1]:
        return np.ascontiguousarray(matrix.reshape(1, *event))
    return np.ascontiguousarray(np.broadcast_to(matrix, (*batch, *event)).reshape(-1, *event))
