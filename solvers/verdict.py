"""Judge a p that a solver returns by its duality gap in its own dtype and by what rounding can cause of it.

A solver stops by a measure of its own, at an iterate that may not be the one that it returns. Here the returned p is
measured once more, by one gradient and one argmax map, which take as long as one step. `converged` is then a
statement about that p.
"""

from __future__ import annotations

import math

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Stop

# An error within the tolerance is accepted where the relative gap is at most this many times Stop.tol.
GAP = 1e2
_UNITS = 16.0  # units in the last place by which a score and a sum may be wrong in `rounding_floor`
_SURE = 0.25  # The gap must be at most this share of the floor, because the gap is rounded itself.
_STEEP = 1e3  # limits the infinite gradient of an entropy on the boundary, where there is no argmax map


def duality_gap(problem: InnerProblem, v: Input, p: Array) -> tuple[Array, Array]:
    """Return Omega*(g) + Omega(p) - <g, p> and g = grad_p Phi(v, p); the first bounds the suboptimality of p.

    Where p_Omega is not known on C it is the Frank-Wolfe gap; for a Phi that is not concave it measures stationarity.

    Args:
        problem: the energy, the regularizer and the set.
        v: the energy's Input.
        p: points of C, [..., k].

    Returns:
        The gap [...] and g [..., k], in the dtype of p.

    Raises:
        GfyTypeError: v and p hold no array, or arrays of two frameworks.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> gap, g = solvers.verdict.duality_gap(problem, gfy.Bilinear.Input(array([0.0, 1.0])), array([0.5, 0.9]))
        >>> gap.item(), g.tolist()
        (0.01, [0.0, 1.0])
    """
    xp = backend_of(p).xp
    omega, domain = problem.regularizer, problem.domain
    energy = problem.energy
    above = None
    if energy.smooth or omega.no_argmax(domain) is not None:
        g = energy.grad_p(v, p)
    else:  # At a kink the energy chooses one of its supergradients, and gives the distance of its bound.
        g, constant = energy.majorant(v, p, omega, domain)
        above = constant + dot(g, p) - energy.value(v, p)
    if omega.no_argmax(domain) is not None:
        slope = g - omega.grad(p)
        if not omega.quadratic:
            slope = xp.minimum(xp.maximum(slope, xp.full_like(slope, -_STEEP)), xp.full_like(slope, _STEEP))
        return domain.support(slope) - dot(slope, p), g
    best = omega.argmax(g, domain)
    gap = omega.excess(g, best, p) if above is None else omega.excess(g, best, p) + above
    if domain.stochastic:  # The argmax map is iterative here, and a gap at a point outside C proves nothing.
        outside = xp.maximum(domain.violation(best), domain.violation(p))
        gap = xp.where(outside <= math.sqrt(backend_of(p).eps(p)), gap, xp.full_like(gap, math.inf))
    return gap, g


def rounding_floor(
    problem: InnerProblem, v: Input, p: Array, g: Array | None = None, eps: float | None = None
) -> Array:
    """Return the gap, [...], below which a p held with relative precision `eps` (its dtype's) cannot be told from p*.

    A score g_j = grad_p Phi(v, p)_j is known up to d_j = 16 eps (|g_j| + h_j sum_i h_i |p_i|), where h_j^2 is the
    curvature of Phi along coordinate j. The sum bounds the terms that are added to make g_j. Scores that are wrong by
    d cost a gap of at most sum_j min(d_j^2 / (2 mu), d_j w_j), where Omega is mu-strongly convex on C, and w_j is the
    extent of C along j. The sums and the rounding of p at its bounds add 16 eps (sum_j |g_j p_j| + |Omega(p)| + k
    mu).

    Args:
        problem: the energy, the regularizer and the set.
        v: the energy's Input.
        p: points of C, [..., k].
        g: grad_p Phi(v, p) [..., k], where it is known; None by default.
        eps: the relative precision; None, the default, is that of the dtype of p.

    Returns:
        The gap, [...].

    Raises:
        GfyTypeError: p is no array of a framework.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v, p = gfy.Bilinear.Input(array([0.0, 1.0])), array([0.5, 1.0])
        >>> solvers.verdict.rounding_floor(problem, v, p, eps=1e-3).item()
        0.084
    """
    backend = backend_of(p)
    xp = backend.xp
    omega, domain = problem.regularizer, problem.domain
    g = problem.energy.grad_p(v, p) if g is None else g
    unit = _UNITS * (backend.eps(p) if eps is None else eps)
    mu = omega.strong_convexity(domain)
    h = _bend(problem, v)
    scale = xp.abs(g) if h is None else xp.abs(g) + h * (h * xp.abs(p)).sum(-1)[..., None]
    size = (
        dot(xp.abs(g), xp.abs(p)) + xp.abs(omega.value(p)) + p.shape[-1] * (mu if math.isfinite(mu) else 0.0)
    )
    return cost_of(problem, unit * scale) + unit * size


def cost_of(problem: InnerProblem, off: Array) -> Array:
    """Return the largest gap that errors of the scores of at most off [..., k] >= 0 can cause, [...]: see
    `rounding_floor`."""
    xp = backend_of(off).xp
    mu = problem.regularizer.strong_convexity(problem.domain)
    cost = _reach(problem, off)
    return (xp.minimum(off * off / (2 * mu), cost) if mu > 0 else cost).sum(-1)


def results(
    problem: InnerProblem,
    v: Input,
    p: Array,
    error: Array,
    stop: Stop,
    done: Array,
    otherwise: Array,
    gap: Array | None = None,
) -> Array:
    """Return the reason why each example ended: CONVERGED or ROUNDING_FLOOR only where the gap at p agrees.

    The result is NOT_FINITE wherever the value at p is NaN or infinite, which an infinite score in v causes.

    Args:
        problem: the energy, the regularizer and the set.
        v: the energy's Input.
        p: the points that are returned, [..., k].
        error: the solver's own measure, [...].
        stop: the stopping rule.
        done: where the solver's own test was met, [...] bool.
        otherwise: the result where it was not met, [...] int32.
        gap: the duality gap at p, [...], where it is known; None by default.

    Returns:
        Values of `gfy.Result`, [...] int32.

    Raises:
        GfyTypeError: p is no array of a framework.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v, p, error = gfy.Bilinear.Input(array([[0.0, 1.0]])), array([[0.5, 0.9]]), array([0.0])
        >>> limit = array([int(gfy.Result.STEP_LIMIT)])
        >>> found = solvers.verdict.results(problem, v, p, error, gfy.Stop(), error == 0, limit)
        >>> gfy.Result(found.item()).name  # p misses the maximum by 0.01, whatever the solver says
        'INACCURATE'
    """
    backend = backend_of(p)
    xp = backend.xp
    if gap is None:
        gap, _ = duality_gap(problem, v, p)
    goal = GAP * stop.tol
    met, floor = (xp.full_like(otherwise, int(r)) for r in (Result.CONVERGED, Result.ROUNDING_FLOOR))
    level = xp.where(error <= stop.tol, met, floor)
    size = xp.abs(problem.value(v, p))
    sound = size < math.inf  # NaN is not below any number

    def weigh(_: Array) -> Array:
        small = gap <= goal * xp.maximum(size, xp.ones_like(size))
        lost = gap <= _SURE * rounding_floor(problem, v, p)
        rest = Result.INACCURATE if problem.energy.smooth else Result.STALLED_AT_KINK
        found = xp.where(done, xp.full_like(otherwise, int(rest)), otherwise)
        found = xp.where(lost & (found != int(Result.NOT_FINITE)), floor, found)
        found = xp.where(done & small, level, found)
        return xp.where(sound, found, xp.full_like(found, int(Result.NOT_FINITE)))

    # Where every gap is small already, no floor needs to be computed.
    return backend.cond(xp.all(done & sound & (gap <= goal)), lambda level: level, weigh, level)


def converged(result: Array) -> Array:
    """Return whether a result is one of the two good ones, [...] bool."""
    return result <= int(Result.ROUNDING_FLOOR)


def _bend(problem: InnerProblem, v: Input) -> Array | None:
    """Return h [..., k] (or [..., 1]) with |d^2 Phi / dp_i dp_j| <= h_i h_j, or None where it is zero or unknown."""
    xp = backend_of(v).xp
    curvature = problem.energy.curvature(v)
    if curvature is not None:
        return xp.sqrt(xp.abs(curvature.diagonal()))
    bound = None if problem.energy.linear else problem.energy.smoothness(v)
    return None if bound is None else xp.sqrt(bound)[..., None]


def _reach(problem: InnerProblem, off: Array) -> Array:
    """Return off_j w_j, [..., k], where w_j is the width of C along coordinate j; it is infinite where C is
    not bounded."""
    xp = backend_of(off).xp
    if problem.domain.banded:
        low, high = problem.domain.bounds(off)
        wide = high - low
    else:
        wide = problem.domain.diameter(off.shape[-1])
    return xp.where(off > 0, off * wide, xp.zeros_like(off))
