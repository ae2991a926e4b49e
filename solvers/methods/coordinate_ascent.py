"""Run coordinate ascent: one coordinate (or one pair) at a time is maximised exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gfy.backend import Backend, backend_of
from gfy.energies import LowRank
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers import verdict
from solvers.loop import run
from solvers.methods import sweeps

ORDERS = ("cyclic", "shuffled")
_PERMUTATIONS = 16
_BLOCK = 8


class State(NamedTuple):
    """Hold p [..., k]; the number of sweeps []; what the last sweep moved and left over, and its rounding, [...]."""

    p: Array
    count: Array
    error: Array
    noise: Array


@dataclass(frozen=True)
class CoordinateAscent:
    """Solve quadratic energies by sweeps over the k coordinates, each set to its best value given the others.

    The best value is a closed form for quadratic regularizers, and a bracketed root to rounding for the others. With
    U = -A A^T a sweep keeps t = A^T p and costs O(k m); with a dense U it reads U once, one block of rows at a time.
    Where sum p is fixed, pairs of coordinates exchange mass.

    Args:
        order: "cyclic" (the default) or "shuffled", blocks and coordinates in a random order.
        seed: the seed of the random order; 0 by default.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.
        GfyValueError: for an order that is not known.

    Reference: Hsieh et al. (2008) for coordinates; Platt (1998) for pairs.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.CoordinateAscent().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    order: str = "cyclic"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise GfyValueError(
                f"CoordinateAscent.order must be one of {', '.join(ORDERS)}, got {self.order!r}"
            )

    @property
    def name(self) -> str:
        return "CoordinateAscent"

    def unsupported(self, problem: InnerProblem) -> str | None:
        energy = problem.energy
        if energy.interactions is None:
            return f"{energy.name} is not quadratic in p, as coordinate updates need: use Auto"
        if not energy.concave:
            return "coordinate updates need a concave energy: use ProjectedGradient"
        if not problem.domain.banded:
            return f"{problem.domain.name} does not split into coordinates or pairs: use ProjectedGradient"
        if not (problem.regularizer.separable or problem.regularizer.zero):
            return f"{problem.regularizer.name} is not separable: use Auto"
        return problem.unbounded

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        return run(self, problem, v, p0, stop)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> State:
        xp = backend_of(v).xp
        p = problem.initial_point(v, p0)
        size = problem.energy.grad_p(v, p).sum(-1)
        endless = xp.where(xp.isfinite(size), xp.full_like(size, 1e30), size)
        return State(p, xp.astype(xp.sum(0 * p), xp.int32), endless, 0 * size)

    def step(self, problem: InnerProblem, v: Input, state: State) -> State:
        backend = backend_of(v)
        xp = backend.xp
        form = problem.energy.quadratic(v)
        assert form is not None
        u, curvature = form
        if problem.domain.total is not None:
            p = sweeps.pairs(problem, u, curvature, state.p)
        elif isinstance(curvature, LowRank):
            order = self._order(backend, state.count, state.p.shape[-1], u)
            p = sweeps.low_rank(problem, u, curvature.A, state.p, order)
        else:
            block = min(_BLOCK, state.p.shape[-1])
            blocks = self._order(backend, state.count, -(-state.p.shape[-1] // block), u)
            inside = None if self.order == "cyclic" else self._order(backend, state.count, block, u)
            p = sweeps.dense(problem, u, curvature.U, state.p, block, blocks, inside)
        moved = xp.abs(p - state.p)
        least = 4 * backend.eps(p) * (1 + xp.abs(p))
        error, noise = xp.max(moved, axis=-1), xp.max(least, axis=-1)
        # A sweep may move p very little although p is not yet optimal. The gap that the sweep leaves is
        # therefore a part of the error.
        if problem.domain.total is None:
            gap, blur = (_left(problem, curvature, d) for d in (moved, least))
        else:
            gap, g = verdict.duality_gap(problem, v, p)
            blur = 16 * backend.eps(p) * (dot(xp.abs(g), xp.abs(p)) + xp.abs(problem.regularizer.value(p)))
        error, noise = xp.maximum(error, gap / verdict.GAP), xp.maximum(noise, blur / verdict.GAP)
        return State(p, state.count + 1, error, noise)

    def _order(self, backend: Backend, count: Array, size: int, like: Array) -> Array:
        """Return the order of this sweep, [size]."""
        rng = np.random.default_rng(self.seed)
        table = (
            np.arange(size)[None]
            if self.order == "cyclic"
            else np.stack([rng.permutation(size) for _ in range(_PERMUTATIONS)])
        )
        rows = backend.indices(table.size, like).reshape(table.shape)
        return backend.asarray(table, like=rows)[count % table.shape[0]]


def _left(problem: InnerProblem, curvature: Any, moved: Array) -> Array:
    """Return a bound of the gap after a sweep of exact updates that moved p by `moved` >= 0, [...].

    A coordinate had its best value when it was visited. Later moves have changed its score by at most h_j sum_i h_i
    moved_i, where h^2 is the diagonal of -U.
    """
    xp = backend_of(moved).xp
    h = xp.sqrt(xp.abs(curvature.diagonal()))
    return verdict.cost_of(problem, h * (h * moved).sum(-1)[..., None])
