"""Run Frank-Wolfe: it needs only a linear oracle of the set, and its solution is a sparse mixture of vertices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gfy.backend import backend_of
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot, matvec, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.loop import check, iterate, run, solution
from solvers.methods import active_set

VARIANTS = ("classic", "away", "pairwise", "blended")


class State(NamedTuple):
    """Hold p [..., k] = weights [..., n] @ atoms [..., n, k], and g, the gradient of Phi - Omega at p.

    `vertex` is the oracle's answer at g, and `error` is the gap that it proves; both belong to this p.
    """

    p: Array
    g: Array
    vertex: Array
    weights: Array
    atoms: Array
    L: Array
    error: Array
    noise: Array

    @property
    def gap(self) -> Array:
        return self.error


class Active(NamedTuple):
    """Hold p* as a mixture: weights [..., n] (many are 0), atoms [..., n, k], and the solution they make."""

    weights: Array
    atoms: Array
    solution: Solution


@dataclass(frozen=True)
class FrankWolfe:
    """Move towards the vertex that the set's linear oracle returns, or away from a bad one, without projections.

    The step length is exact for quadratic problems and adaptive otherwise. While all slots are in use, weight moves
    between the atoms that are held. Where Omega is an entropy the oracle is p_Omega
    (conditional gradients that keep Omega), and no atoms are held.

    Args:
        variant: "classic"; "away" (may move off its worst atom); "pairwise" (from the worst atom to the best vertex);
            "blended", the default (pairwise among the held atoms while these have the larger gap).
        max_atoms: the most atoms held; None, the default, is 2 k + 2 (by Caratheodory k + 1 are enough for any p).

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.
        GfyValueError: for a variant that is not known.

    Reference: Lacoste-Julien and Jaggi (2015); Tsuji et al. (2022), blended pairwise steps; Pedregosa et al. (2020).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(), gfy.Simplex())
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.FrankWolfe().solve(problem, v).p.tolist()
        [[0.667, 0.333]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    variant: str = "blended"
    max_atoms: int | None = None

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise GfyValueError(
                f"FrankWolfe.variant must be one of {', '.join(VARIANTS)}, got {self.variant!r}"
            )
        if self.max_atoms is not None and self.max_atoms < 2:
            raise GfyValueError(f"FrankWolfe.max_atoms must be at least 2, got {self.max_atoms!r}")

    @property
    def name(self) -> str:
        return "FrankWolfe"

    @property
    def not_unrollable(self) -> str:
        return "the vertices that FrankWolfe moves to are piecewise constant in v: use Envelope or Implicit"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.energy.smooth:
            return f"{problem.energy.name} has kinks, where Frank-Wolfe steps stall: use Auto"
        if not problem.domain.compact:
            return f"{problem.domain.name} is not bounded and has no linear oracle: use ProjectedGradient"
        if not problem.regularizer.quadratic:
            return problem.regularizer.no_argmax(problem.domain)
        return None

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        return run(self, problem, v, p0, stop)

    def solve_active(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Active:
        """Return the solution with the atoms and weights it is made of (as SparseMAP)."""
        check(self, problem, v)
        backend = backend_of(v)
        v, p0 = backend.stop_gradient((v, p0))
        final = iterate(backend, lambda v, s: self.step(problem, v, s), v, self.init(problem, v, p0), stop)
        return Active(final.state.weights, final.state.atoms, solution(problem, v, final, stop))

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> State:
        backend = backend_of(v)
        xp = backend.xp
        if p0 is not None:
            p = problem.initial_point(v, p0)
        else:  # a set may have an oracle and no projection
            like = next(leaf for leaf in _leaves(v))
            shape = (*problem.energy.batch_shape(v), problem.energy.dim(v))
            first = problem.domain.linear_oracle(backend.zeros(shape, like))
            p = first if _plain(problem) else problem.initial_point(v)
        g = problem.grad(v, p) if _plain(problem) else problem.energy.grad_p(v, p)
        n = 1 if not _plain(problem) else (self.max_atoms or 2 * p.shape[-1] + 2)
        slots = backend.asarray([1.0] + [0.0] * (n - 1), like=p)
        weights = xp.zeros_like(p[..., :1]) + slots
        atoms = p[..., None, :] * slots[:, None]
        vertex, gap, noise = _look(problem, p, g)
        return State(p, g, vertex, weights, atoms, 1e-3 + 0 * gap, gap, noise)

    def step(self, problem: InnerProblem, v: Input, state: State) -> State:
        if not _plain(problem):
            return _conditional(problem, v, state)
        backend = backend_of(v)
        xp = backend.xp
        vertex = state.vertex
        move = active_set.choose(self.variant, state, vertex, state.error)
        d, most = move.direction, move.most
        rise = dot(state.g, d)
        length = dot(d, d)
        if _quadratic(problem):
            bend = -dot(problem.grad(v, state.p + d) - state.g, d)
            size = xp.where(bend > 0, rise / xp.where(bend > 0, bend, xp.ones_like(bend)), most)
        else:
            size = rise / xp.where(length > 0, state.L * length, xp.ones_like(length))
        size = xp.where(rise > 0, xp.minimum(size, most), xp.zeros_like(size))
        size = xp.where(xp.isfinite(size), size, xp.zeros_like(size))
        weights, atoms = active_set.apply(move, state, vertex, size)
        p = matvec(transpose(atoms), weights)
        g = problem.grad(v, p)
        good, L = rise > -math.inf, state.L
        if not _quadratic(problem):
            before, after = problem.value(v, state.p), problem.value(v, p)
            promised = size * rise - 0.5 * state.L * size * size * length
            good = after >= before + promised - 8 * backend.eps(p) * (1 + xp.abs(before))
            L = xp.where(good, 0.9 * state.L, 2 * state.L)
        keep = good[..., None]
        p, g = xp.where(keep, p, state.p), xp.where(keep, g, state.g)
        vertex, gap, noise = _look(problem, p, g)
        return State(
            p,
            g,
            vertex,
            xp.where(keep, weights, state.weights),
            xp.where(keep[..., None], atoms, state.atoms),
            L,
            gap,
            noise,
        )


def _look(problem: InnerProblem, p: Array, g: Array) -> tuple[Array, Array, Array]:
    """Return the oracle's answer at p, the gap it proves, and the part of that gap that rounding causes."""
    backend = backend_of(p)
    xp = backend.xp
    if _plain(problem):
        vertex = problem.domain.linear_oracle(g)
        gap = dot(g, vertex - p)
        noise = 8 * backend.eps(p) * dot(xp.abs(g), xp.abs(p) + xp.abs(vertex))
    else:
        vertex = problem.regularizer.argmax(g, problem.domain)
        gap = problem.regularizer.excess(g, vertex, p)
        size = dot(xp.abs(g), xp.abs(p)) + xp.abs(problem.regularizer.value(p)) + 1
        noise = 8 * backend.eps(p) * size
    return vertex, xp.where(gap < 0, 0 * gap, gap), noise  # a NaN stays a NaN


def _conditional(problem: InnerProblem, v: Input, state: State) -> State:
    """Return p + size (p_Omega(grad Phi(p)) - p): only Phi is linearised, so the gap is Fenchel-Young's."""
    backend = backend_of(v)
    xp = backend.xp
    best, gap = state.vertex, state.error
    d = best - state.p
    ahead = problem.energy.grad_p(v, best)
    bend = -dot(ahead - state.g, d)
    # The gap gives a lower bound of Omega's curvature along the step. Together with `bend` it gives the
    # length of the step.
    size = (2 * gap) / xp.where(gap + bend > 0, 2 * gap + bend, xp.ones_like(gap))
    size = xp.where(gap > 0, xp.minimum(size, 1 + 0 * size), 0 * size)
    p = state.p + size[..., None] * d
    g = problem.energy.grad_p(v, p)
    vertex, gap, noise = _look(problem, p, g)
    return State(p, g, vertex, state.weights, p[..., None, :], state.L, gap, noise)


def _plain(problem: InnerProblem) -> bool:
    """Return whether the gradient of Omega is finite on all of C."""
    return problem.regularizer.quadratic


def _quadratic(problem: InnerProblem) -> bool:
    from solvers.methods.projected_gradient import is_affine

    return is_affine(problem)


def _leaves(v: Input) -> list[Array]:
    from gfy.backend import leaves

    return [leaf for leaf in leaves(v) if hasattr(leaf, "dtype")]
