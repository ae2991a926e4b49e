"""Search the global maximum of energies that are not concave by many starts, or every vertex, and say which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gfy.backend import backend_of, tree_map
from gfy.errors import GfyValueError, UnsupportedError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.dual.newton import DualNewton
from solvers.loop import check
from solvers.methods.projected_gradient import ProjectedGradient

_MOST_LISTED = 20  # coordinates up to which the vertices of sets other than the simplex are listed


@dataclass(frozen=True)
class MultiStart:
    """Take the best of many local solves: a reference for energies that are not concave, such as `gfy.Spen`.

    The starts are the middle of C, random points, and every vertex of C where there are at most `most_vertices` of
    them and, on sets other than the simplex, k <= 20. `exhaustive` returns True where the vertices are among them,
    because each basin that holds a vertex is then visited. The result is a lower bound of the maximum and not a proof
    of it; `converged` belongs to the best local solve. An energy that is known to be concave has one basin, and
    one start is enough, unless it has kinks at which the local solver stalls.

    Args:
        starts: how many random points; 64 by default.
        most_vertices: the most vertices of C to start from; 256 by default.
        seed: the seed of the random points; 0 by default.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.
        GfyValueError: for a number of starts below 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.MultiStart().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    starts: int = 64
    most_vertices: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise GfyValueError(f"MultiStart.starts must be at least 1, got {self.starts!r}")

    @property
    def name(self) -> str:
        return "MultiStart"

    @property
    def says(self) -> str:
        """Say in a sentence how far the answer can be trusted."""
        return "the best of many local maxima: a lower bound of the maximum, not a proof of it"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.domain.compact:
            return f"starts are drawn from a bounded set, and {problem.domain.name} is not: use ProjectedGradient"
        return ProjectedGradient().unsupported(problem)

    def exhaustive(self, problem: InnerProblem, k: int) -> bool:
        """Return whether every vertex of C is among the starts."""
        return len(self._vertices(problem, k)) > 0

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem, v)
        backend = backend_of(v)
        xp = backend.xp
        v = backend.stop_gradient(v)
        local = _local(problem)
        if (
            problem.energy.concave
            and problem.energy.proven
            and (problem.energy.smooth or isinstance(local, DualNewton))
        ):
            return local.solve(problem, v, p0, stop)
        first = problem.initial_point(v, p0)
        points = backend.asarray(self._points(problem, first.shape[-1]), like=first)
        starts = xp.concat([first[None], 0 * first[None] + _spread(points, first.ndim)], axis=0)
        found = local.solve(problem, _widen(problem, v, tuple(starts.shape[:-1])), starts, stop)
        values = problem.value(v, found.p)
        values = xp.where(xp.isfinite(values), values, xp.full_like(values, -float("inf")))
        best = xp.argmax(values, axis=0)
        chosen: Solution = tree_map(lambda leaf: _pick(leaf, best), found)
        return chosen

    def _points(self, problem: InnerProblem, k: int) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        scores = rng.normal(size=(self.starts, k))
        inside = np.asarray(problem.domain.project(rng.normal(size=(self.starts, k)) + 0.5))
        corners = np.asarray(problem.domain.linear_oracle(scores))
        return np.concatenate([*self._vertices(problem, k), inside, corners])

    def _vertices(self, problem: InnerProblem, k: int) -> list[np.ndarray]:
        domain = problem.domain
        box = domain.banded and domain.total is None
        # A list is made only where it cannot be long: a box has 2^k vertices, a capped simplex about as many.
        if (box and 2**k > self.most_vertices) or (k > _MOST_LISTED and not domain.simplex):
            return []
        try:
            vertices = domain.vertices(k)
        except UnsupportedError:
            return []
        return [vertices] if len(vertices) <= self.most_vertices else []


def _local(problem: InnerProblem) -> DualNewton | ProjectedGradient:
    """Return the solver that each start is given to: gradient steps stall at kinks, which the dual solves."""
    dual = DualNewton()
    return dual if problem.energy.kinked and dual.unsupported(problem) is None else ProjectedGradient()


def _spread(points: Array, ndim: int) -> Array:
    """Return [n, k] as [n, 1, ..., 1, k], to stand before the batch axes."""
    return points[(slice(None), *(None,) * (ndim - 1))]


def _widen(problem: InnerProblem, v: Input, batch: tuple[int, ...]) -> Input:
    """Return v with the axis of starts before its batch axes; shared leaves broadcast."""
    xp = backend_of(v).xp
    ranks = getattr(problem.energy, "ranks", None)
    if ranks is None:
        return tree_map(
            lambda leaf, axes: xp.broadcast_to(leaf, (*batch, *leaf.shape[axes:])) if axes else leaf,
            v,
            problem.energy.axes(v),
        )
    field = next(iter(ranks))  # it is enough that one leaf has the axis
    leaf = getattr(v, field)
    event = tuple(leaf.shape[leaf.ndim - ranks[field] :])
    return v._replace(**{field: xp.broadcast_to(leaf, (*batch, *event))})


def _pick(leaf: Array, best: Array) -> Array:
    """Return leaf[best[b], b, ...] for every b."""
    xp = backend_of(leaf).xp
    rest = leaf.ndim - 1 - best.ndim
    index = best[(None, ..., *(None,) * rest)] + xp.astype(0 * leaf[:1], best.dtype)
    return xp.take_along_axis(leaf, index, axis=0)[0]
