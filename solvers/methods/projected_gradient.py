"""Run projected gradient ascent: with backtracking, accelerated, or with spectral steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from gfy.backend import backend_of
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.loop import run
from solvers.methods import relative, steady
from solvers.methods.project import project

STEPS = ("accelerated", "spectral", "backtracking", "steady")
_KINK = 1e12
_STILL = 64  # Units in the last place of p. A shorter step is rounding.


class State(NamedTuple):
    """Hold p [..., k] and the gradient of Phi - Omega there; the last move and change of gradient; L, t and
    sizes [...]."""

    p: Array
    g: Array
    move: Array  # p - previous p
    bend: Array  # g - previous g
    L: Array
    t: Array  # the t of the accelerated method; with spectral steps an average of the values so far
    error: Array
    noise: Array


@dataclass(frozen=True)
class ProjectedGradient:
    """Take gradient steps that are projected onto the set; it serves any energy on every set with a projection.

    A step is p <- project(q + grad(q) / L), with L measured during the steps. Every step tries one point; an example
    that is rejected stays where it is with a larger L. Where the energy is not concave, "accelerated" takes the steps
    of "backtracking" on values, and the limit is a stationary point, not a maximum. Entropies have an infinite
    gradient on the boundary. There the step is measured by Omega's own divergence instead of the Euclidean distance
    (see `relative`).

    Args:
        step_rule: "accelerated" (the default): momentum (with the known strong concavity) and adaptive restart;
            "backtracking": q = p and L grown until the step is safe, as in the paper; "spectral": Barzilai-Borwein L;
            "steady": a momentum that rests, looked at once per block of steps (see `steady`), which costs eager
            frameworks least.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.
        GfyValueError: for a step rule that is not known.

    Reference: Beck and Teboulle (2009); O'Donoghue and Candes (2015); Birgin, Martinez and Raydan (2000).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.ProjectedGradient().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    step_rule: str = "accelerated"

    def __post_init__(self) -> None:
        if self.step_rule not in STEPS:
            raise GfyValueError(
                f"ProjectedGradient.step_rule must be one of {', '.join(STEPS)}, got {self.step_rule!r}"
            )

    @property
    def name(self) -> str:
        return "ProjectedGradient"

    def unsupported(self, problem: InnerProblem) -> str | None:
        reason = problem.unbounded
        return steady.unsupported(problem) if reason is None and self.step_rule == "steady" else reason

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        if self.step_rule != "steady":
            return run(self, problem, v, p0, stop)
        blocks = replace(stop, max_steps=-(-stop.max_steps // steady.BLOCK))
        found = run(self, problem, v, p0, blocks)
        return found._replace(steps=steady.BLOCK * found.steps)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any:
        if self.step_rule == "steady":
            return steady.init(problem, v, p0)
        if relative.serves(problem):
            return relative.init(problem, v, p0)
        backend = backend_of(v)
        xp = backend.xp
        p = problem.initial_point(v, p0)
        g = _gradient(problem, v, p)
        L = _first_curvature(problem, v, p, g)
        none = xp.zeros_like(g)
        # A NaN stays, because there is nothing to solve.
        endless = xp.where(xp.isfinite(L), xp.full_like(L, 1e30), L)
        t = problem.value(v, p) if self.step_rule == "spectral" else xp.ones_like(L)
        return State(p, g, none, none, L, t, endless, 0 * L)

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any:
        if isinstance(state, relative.State):
            return relative.step(problem, v, state)
        if isinstance(state, steady.State):
            return steady.step(problem, v, state)
        backend = backend_of(v)
        xp = backend.xp
        concave, affine = problem.energy.concave, is_affine(problem)
        rule = self.step_rule if concave or self.step_rule == "spectral" else "backtracking"
        mu = problem.strong_concavity
        beta, t = _momentum(xp, state.t, state.L, mu) if rule == "accelerated" else (0 * state.t, state.t)
        q = state.p + beta[..., None] * state.move
        # An affine gradient at q follows from the gradients of the last two points.
        at_q = (
            state.g + beta[..., None] * state.bend
            if affine or rule != "accelerated"
            else _gradient(problem, v, q)
        )
        p = project(problem.domain, q + at_q / state.L[..., None])
        g = _gradient(problem, v, p)
        d, dg = p - q, g - at_q
        length, slope = dot(d, d), -dot(dg, d)
        eps = backend.eps(p)
        blur = 8 * eps * dot(xp.abs(at_q) + xp.abs(g), xp.abs(d))  # the rounding of `slope`
        if rule == "spectral":
            # Barzilai-Borwein steps are not monotone. The value must not fall below an average of the values
            # so far.
            after = problem.value(v, p)
            good = after >= state.t + 1e-4 * dot(at_q, d) - 8 * eps * (1 + xp.abs(state.t))
            t = xp.where(good, 0.85 * state.t + 0.15 * after, state.t)
        elif concave:
            # <g(q) - g(p), p - q> <= L |p - q|^2 ensures a sufficient increase, and no digits cancel as they
            # do in a difference of values.
            allowed = state.L if affine else state.L / 2
            good = slope <= allowed * length + blur
        else:
            before, after = problem.value(v, q), problem.value(v, p)
            promised = dot(at_q, d) - 0.5 * state.L * length
            good = after >= before + promised - 8 * eps * (1 + xp.abs(before))
        measured = xp.where(
            length > 0, slope / xp.where(length > 0, length, xp.ones_like(length)), 0 * length
        )
        grown = xp.maximum(1.5 * state.L, 1.1 * measured)
        seen = blur < 0.1 * xp.abs(slope) if rule == "spectral" else moves(d, p)
        L = xp.where(good, self._next(xp, rule, state.L, measured, mu, seen), grown)
        L = backend.stop_gradient(L)
        move, bend = p - state.p, g - state.g
        restart = (dot(d, move) < 0) | ~good
        t = t if rule == "spectral" else xp.where(restart, xp.ones_like(t), t)
        keep = good[..., None]
        # |p - q| is a residual divided by L, and L / mu times it bounds the distance. At a kink L grows
        # without bound, and a step that is then too short to be seen is not convergence.
        scale = xp.maximum(state.L / (mu or 1.0), xp.ones_like(L))
        error = xp.max(xp.abs(d), axis=-1) * scale
        error = xp.where(scale > _KINK, xp.full_like(error, float("inf")), error)
        size = xp.max(xp.abs(p), axis=-1) + xp.max(xp.abs(at_q), axis=-1) / state.L
        return State(
            xp.where(keep, p, state.p),
            xp.where(keep, g, state.g),
            xp.where(keep & ~restart[..., None], move, 0 * move),
            xp.where(keep & ~restart[..., None], bend, 0 * bend),
            L,
            t,
            xp.where(good | ~xp.isfinite(error), error, state.error),
            2 * eps * size * xp.minimum(scale, 1e6 * xp.ones_like(scale)),
        )

    def _next(self, xp: Any, rule: str, L: Array, measured: Array, mu: float, seen: Array) -> Array:
        if rule == "spectral":
            kept = xp.maximum(measured, xp.zeros_like(L) + max(mu, 1e-10))
            return xp.where(seen, kept, L)
        if rule == "accelerated":
            return L
        return xp.where(seen, xp.maximum(0.9 * L, xp.zeros_like(L) + max(mu, 1e-12)), L)


def moves(d: Array, p: Array) -> Array:
    """Return whether a step d [..., k] to p is more than the rounding of p, [...] bool."""
    backend = backend_of(p)
    xp = backend.xp
    return xp.max(xp.abs(d), axis=-1) > _STILL * backend.eps(p) * xp.max(xp.abs(p), axis=-1)


def _momentum(xp: Any, t: Array, L: Array, mu: float) -> tuple[Array, Array]:
    following = (1 + xp.sqrt(1 + 4 * t * t)) / 2
    beta = (t - 1) / following
    if mu > 0:
        root = xp.sqrt(xp.maximum(L / mu, xp.ones_like(L)))
        beta = xp.minimum(beta, (root - 1) / (root + 1))
    return beta, following


def is_affine(problem: InnerProblem) -> bool:
    """Return whether the gradient of Phi - Omega is affine in p."""
    energy = problem.energy
    return problem.regularizer.quadratic and (energy.linear or energy.interactions is not None)


def _gradient(problem: InnerProblem, v: Input, p: Array) -> Array:
    """Return the gradient of Phi - Omega, kept finite where Omega's is not (p leaves the boundary at once)."""
    xp = backend_of(p).xp
    g = problem.grad(v, p)
    if problem.regularizer.quadratic:
        return g
    return xp.where(g > 1e3, xp.full_like(g, 1e3), xp.where(g < -1e3, xp.full_like(g, -1e3), g))


def _first_curvature(problem: InnerProblem, v: Input, p: Array, g: Array) -> Array:
    """Return a first L: the curvature along the gradient, which is never above what the steps would find themselves."""
    backend = backend_of(v)
    xp = backend.xp
    mu = problem.strong_concavity
    square = dot(g, g)
    unit = g / xp.sqrt(xp.where(square > 0, square, xp.ones_like(square)))[..., None]
    ahead = project(problem.domain, p + unit)
    d = ahead - p
    length = dot(d, d)
    slope = -dot(_gradient(problem, v, ahead) - g, d)
    L = xp.where(length > 0, slope / xp.where(length > 0, length, xp.ones_like(length)), 0 * length)
    least = max(mu, 1e-10)
    known = xp.where(xp.isfinite(square), xp.maximum(1.1 * L, xp.zeros_like(L) + least), square)
    return backend.stop_gradient(known)
