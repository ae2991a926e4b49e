"""Run mirror ascent: multiplicative updates on simplices and boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot, sigmoid
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from gfy.regularizers import Shannon
from solvers.loop import run
from solvers.methods import relative
from solvers.methods.projected_gradient import moves


class State(NamedTuple):
    """Hold scores z [..., k] with p = mirror(z), g, the gradient of Phi - Omega at p, and L [...]."""

    p: Array
    z: Array
    g: Array
    L: Array
    error: Array
    noise: Array

    @property
    def gap(self) -> Array:
        return self.error


@dataclass(frozen=True)
class MirrorAscent:
    """Take exponentiated gradient steps, z <- z + grad(p) / L with p = mirror(z), which stay inside the set.

    The mirror is the softmax where sum p is fixed, and a sigmoid between the bounds of a box. Where Omega is an
    entropy it is p_Omega itself, which treats Omega exactly (see `relative`). L is measured during the steps. Where
    Omega is not an entropy, the error is the Frank-Wolfe gap.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Nemirovski and Yudin (1983); Kivinen and Warmuth (1997).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Shannon(), gfy.Simplex())
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.MirrorAscent().solve(problem, v).p.tolist()
        [[0.624, 0.376]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    @property
    def name(self) -> str:
        return "MirrorAscent"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.energy.smooth:
            return f"{problem.energy.name} has kinks, where mirror steps stall: use Auto"
        regularizer, domain = problem.regularizer, problem.domain
        if relative.serves(problem):
            return None
        if not (domain.banded or domain.stochastic) or not domain.compact:
            return f"mirror steps need a simplex, a bounded box or Birkhoff, not {domain.name}: use Auto"
        if not (regularizer.separable or regularizer.zero):
            return f"mirror steps need a separable regularizer, not {regularizer.name}: use Auto"
        return None

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        return run(self, problem, v, p0, stop)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any:
        if relative.serves(problem):
            return relative.init(problem, v, p0)
        xp = backend_of(v).xp
        start = problem.initial_point(v, p0)
        z = _inverse(problem, start)
        p = _mirror(problem, z)
        g = problem.grad(v, p)
        size = dot(g, g)
        L = xp.where(xp.isfinite(size), xp.max(xp.abs(g), axis=-1) + 1e-6, size)
        return State(p, z, g, L, *_gap(problem, p, g))

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any:
        if isinstance(state, relative.State):
            return relative.step(problem, v, state)
        backend = backend_of(v)
        xp = backend.xp
        z = state.z + state.g / state.L[..., None]
        z = _centered(problem, z)
        p = _mirror(problem, z)
        g = problem.grad(v, p)
        d, dz = p - state.p, state.g / state.L[..., None]
        slope, moved = -dot(g - state.g, d), dot(dz, d)
        blur = 8 * backend.eps(p) * dot(xp.abs(g) + xp.abs(state.g), xp.abs(d))
        if problem.energy.concave:
            good = slope <= state.L * moved + blur
        else:
            good = problem.value(v, p) >= problem.value(v, state.p) - blur - 1e-15
        measured = slope / xp.where(moved > 0, moved, xp.ones_like(moved))
        # A step of the size of rounding does not measure L. L would become smaller and smaller, and the
        # derivative of the step would grow without bound.
        shrunk = xp.where(moves(d, p), xp.maximum(0.7 * state.L, 0.7 * measured), state.L)
        L = xp.where(good, shrunk, xp.maximum(2 * state.L, measured))
        keep = good[..., None]
        p, z, g = xp.where(keep, p, state.p), xp.where(keep, z, state.z), xp.where(keep, g, state.g)
        return State(p, z, g, backend.stop_gradient(xp.maximum(L, 1e-8 + 0 * L)), *_gap(problem, p, g))


def _gap(problem: InnerProblem, p: Array, g: Array) -> tuple[Array, Array]:
    backend = backend_of(p)
    gap = problem.domain.support(g) - dot(g, p)
    return gap, 8 * backend.eps(p) * dot(backend.xp.abs(g), backend.xp.abs(p))


def _mirror(problem: InnerProblem, z: Array) -> Array:
    if problem.domain.banded and problem.domain.total is None:
        low, high = problem.domain.bounds(z)
        return low + (high - low) * sigmoid(z)
    return Shannon().argmax(z, problem.domain)


def _inverse(problem: InnerProblem, p: Array) -> Array:
    """Return scores whose mirror is p, moved a little inside, as there are none at a bound."""
    xp = backend_of(p).xp
    if problem.domain.banded and problem.domain.total is None:
        low, high = problem.domain.bounds(p)
        wide = xp.where(p * 0 + high > low, p * 0 + high - low, p * 0 + 1)
        share = 1e-6 + (1 - 2e-6) * (p - low) / wide
        return xp.log(share) - xp.log(1 - share)
    return xp.log(1e-6 / p.shape[-1] + (1 - 1e-6) * p)


def _centered(problem: InnerProblem, z: Array) -> Array:
    """Keep the largest score at 0 where sum p is fixed: scores matter only up to a constant there."""
    if problem.domain.total is None:
        return z
    return z - backend_of(z).xp.max(z, axis=-1)[..., None]
