"""Run a primal-dual interior-point method: about a dozen steps for any conditioning, one linear system each.

The bounds low <= p <= high become barriers. zl and zu are the multipliers of the distances to the bounds, and
Newton's method follows (p - low) zl = (high - p) zu = mu until mu = 0. Omega is not changed. Where it is an entropy,
its own curvature is added to that of the barriers. An entropy with a small gamma is neither smooth nor a barrier.
Methods that need it to be one of these take thousands of steps; this method needs neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import clip
from gfy.numerics.spd import responder
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers import verdict
from solvers.again import again, better
from solvers.loop import check, iterate, solution
from solvers.methods.last_digits import finish
from solvers.methods.newton_system import responder_at, slope_at

_LEAST = 1e-30  # the smallest p at which the gradient of an entropy is computed
_BACK = 0.995  # the share of the way to the nearest bound that a step may go
_MOST_DENSE = 512  # Coordinates. Above this, a k x k system per example and step takes too long.
_STEPS = 60  # More steps do not help, because the rest is rounding.
# With Omega = 0 and an eps above this, steps lose their digits: D is as large as 1 / eps, and the sum of p is
# a small difference of such numbers. `again` then solves the examples that remain unsolved, in double
# precision where it can run on the host.
_COARSE = 1e-10
# The curvature that a step takes for granted without an Omega, as a share of that of Phi. Without it D grows beyond all
# numbers where p moves freely, and the last digits of a step are lost.
_FLAT = 1e-7
_DEEP = 1e-3  # The steps end at this share of Stop.tol, which is near enough for the last Newton step in p.


class State(NamedTuple):
    """Hold p [..., k], its distances to the bounds and their multipliers; the gap of the best p so far, [...]."""

    p: Array
    below: Array
    above: Array
    zl: Array
    zu: Array
    best: Array
    gap: Array
    error: Array
    noise: Array


@dataclass(frozen=True)
class InteriorPoint:
    """Solve smooth concave energies on boxes and (capped) simplices by a primal-dual interior-point method.

    It serves any separable regularizer, or none. A step factors diag(omega'') - H plus the barriers' curvature (k x
    k, or m x m where U = -A A^T has a rank m below k). It starts from the middle of C, and a warm start p0 is not
    used. The error is the gap divided by max(1, |value|).

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Mehrotra (1992); Saunders and Tomlin (1996), PDCO, for separable objectives.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.InteriorPoint().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework

    @property
    def name(self) -> str:
        return "InteriorPoint"

    @property
    def not_unrollable(self) -> str:
        return "its steps end at bounds of lengths that carry no derivative: use Implicit, one such solve"

    def unsupported(self, problem: InnerProblem) -> str | None:
        energy = problem.energy
        if not energy.concave or not energy.smooth:
            return f"{energy.name} is not smooth and concave in p, as Newton steps need: use Auto"
        if energy.opaque:
            return f"{energy.name} gives no Hessian products in every framework: use ProjectedGradient"
        if not problem.domain.banded:
            return f"{problem.domain.name} is not given by bounds on p: use ProjectedGradient"
        if not (problem.regularizer.separable or problem.regularizer.zero):
            return f"{problem.regularizer.name} is not separable: use ProjectedGradient"
        return problem.unbounded

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem, v)
        found = self._once(problem, v, p0, stop)
        backend = backend_of(v)
        if not problem.regularizer.zero or backend.eps(found.p) < _COARSE:
            return found
        here, start = backend.stop_gradient((v, p0))

        def more(found: Solution) -> Solution:
            return better(problem, here, found, again(_Once(), problem, here, start, stop, found.converged))

        return backend.cond(found.converged.all(), lambda found: found, more, found)

    def _once(self, problem: InnerProblem, v: Input, p0: Array | None, stop: Stop) -> Solution:
        """Return the solution in the precision of v."""
        backend = backend_of(v)
        v = backend.stop_gradient(v)
        deep = replace(stop, tol=_DEEP * stop.tol, max_steps=min(stop.max_steps, _STEPS))
        final = iterate(backend, lambda v, s: self.step(problem, v, s), v, self.init(problem, v, p0), deep)
        p, gap = finish(problem, v, final.state.best, final.state.gap, -math.inf)
        state = final.state._replace(p=p, gap=gap, error=gap / _size(problem, v, p))
        return solution(problem, v, final._replace(state=state), stop)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> State:
        backend = backend_of(v)
        xp = backend.xp
        domain = problem.domain
        p = problem.initial_point(v)
        low, high = domain.bounds(p)
        below, above = p - low, high - p
        r = problem.energy.grad_p(v, p) - problem.regularizer.grad(_inside(problem, p))
        if domain.total is not None:
            r = r - xp.mean(r, axis=-1)[..., None]
        pull = xp.max(xp.abs(r), axis=-1)[..., None]
        room = xp.where(below < above, below, above)
        room = xp.min(xp.where((room > 0) & xp.isfinite(room), room, xp.ones_like(room)), axis=-1)[..., None]
        mu = xp.maximum(pull, backend.eps(p) * (1 + xp.abs(pull))) * room
        return State(p, below, above, _over(mu, below), _over(mu, above), p, *_measure(problem, v, p))

    def step(self, problem: InnerProblem, v: Input, state: State) -> State:
        backend = backend_of(v)
        xp = backend.xp
        p, below, above, zl, zu = state.p, state.below, state.above, state.zl, state.zu
        inside = _inside(problem, p)
        r = problem.energy.grad_p(v, p) - problem.regularizer.grad(inside)
        curved = _bend(problem, inside) + _over(zl, below) + _over(zu, above)
        free = (below > 0) & (above > 0)  # a coordinate with low = high does not move
        D = xp.where(
            free,
            1 / xp.maximum(curved, xp.full_like(curved, backend.eps(p)) + _least_bend(problem, v)),
            xp.zeros_like(p),
        )
        respond = _responder(problem, v, p)(D)
        many = 2 * p.shape[-1]
        # The predictor is the step for mu = 0.
        dp = _balanced(problem, p, D, respond(r))
        dl, du = -zl - _over(zl, below) * dp, -zu + _over(zu, above) * dp
        size = _longest(state, dp, dl, du)[..., None]
        mu = _pairing(below, above, zl, zu, many)
        after = _pairing(below + size * dp, above - size * dp, zl + size * dl, zu + size * du, many)
        aim = mu * (after / xp.where(mu > 0, mu, xp.ones_like(mu))) ** 3
        # The corrector aims at products that all equal `aim`, the mean that can be expected of the next
        # point.
        cl, cu = _over(aim[..., None] - dp * dl, below), _over(aim[..., None] + dp * du, above)
        dp = _balanced(problem, p, D, respond(r + cl - cu))
        dl, du = cl - zl - _over(zl, below) * dp, cu - zu + _over(zu, above) * dp
        size = xp.minimum(_BACK * _longest(state, dp, dl, du), xp.ones_like(mu))[..., None]
        p, below, above = p + size * dp, below + size * dp, above - size * dp
        zl, zu = zl + size * dl, zu + size * du
        gap, error, noise = _measure(problem, v, p)
        better = ~(gap > state.gap)
        # The sum of the products bounds what further steps can gain. Beyond rounding, steps end in numbers
        # that are too small to divide by.
        spent = _pairing(below, above, zl, zu, 1) <= backend.eps(p) ** 2 * _size(problem, v, p)
        return State(
            p,
            below,
            above,
            zl,
            zu,
            xp.where(better[..., None], p, state.best),
            xp.where(better, gap, state.gap),
            xp.where(better, error, state.error),
            xp.where(spent, xp.full_like(noise, math.inf), noise),
        )


class _Once(InteriorPoint):
    """Solve without a second look, which is then in double precision on the host."""

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        return self._once(problem, v, p0, stop)


def _responder(problem: InnerProblem, v: Input, p: Array) -> Callable[[Array], Callable[[Array], Array]]:
    """Return `responder_at`, by the dense Hessian where no Omega bounds D: an m x m system then loses its digits."""
    curvature = problem.energy.curvature(v)
    if curvature is None or not problem.regularizer.zero or p.shape[-1] > _MOST_DENSE:
        return responder_at(problem, v, p)
    balanced = problem.domain.total is not None
    return lambda D: responder(curvature.dense(), D, balanced)


def _least_bend(problem: InnerProblem, v: Input) -> Array | float:
    """Return the curvature [..., 1] that a step takes for granted where no Omega gives one: D would be infinite."""
    curvature = problem.energy.curvature(v)
    if curvature is None or not problem.regularizer.zero:
        return 0.0
    xp = backend_of(v).xp
    return _FLAT * xp.max(xp.abs(curvature.diagonal()), axis=-1)[..., None]


def _measure(problem: InnerProblem, v: Input, p: Array) -> tuple[Array, Array, Array]:
    """Return the gap at p, the same relative to the value, and the part that rounding causes, all [...]."""
    backend = backend_of(p)
    gap, g = verdict.duality_gap(problem, v, p)
    size = _size(problem, v, p)
    return gap, gap / size, backend.eps(p) * backend.xp.abs(g * p).sum(-1) / size


def _size(problem: InnerProblem, v: Input, p: Array) -> Array:
    value = backend_of(p).xp.abs(problem.value(v, p))
    return backend_of(p).xp.maximum(value, backend_of(p).xp.ones_like(value))


def _inside(problem: InnerProblem, p: Array) -> Array:
    """Return p where Omega has a gradient: an entropy has none on the boundary, where rounding may put p."""
    if problem.regularizer.quadratic:
        return p
    backend = backend_of(p)
    low, high = problem.domain.bounds(p)
    return clip(p, low + _LEAST, high - backend.eps(p))


def _bend(problem: InnerProblem, p: Array) -> Array:
    """Return omega''(p), [..., k]."""
    xp = backend_of(p).xp
    if problem.regularizer.quadratic:
        return xp.full_like(p, problem.regularizer.strong_convexity(problem.domain))
    slope = slope_at(problem, p)
    return xp.where(slope > 0, 1 / xp.where(slope > 0, slope, xp.ones_like(slope)), xp.zeros_like(slope))


def _balanced(problem: InnerProblem, p: Array, D: Array, dp: Array) -> Array:
    """Return the step dp moved along D so that p + dp has the sum that C requires: rounding of large D would add up."""
    total = problem.domain.total  # type: ignore[attr-defined]
    if total is None:
        return dp
    xp = backend_of(p).xp
    room = D.sum(-1)
    missing = total - p.sum(-1) - dp.sum(-1)
    share = xp.where(room > 0, missing / xp.where(room > 0, room, xp.ones_like(room)), xp.zeros_like(room))
    return dp + D * share[..., None]


def _over(a: Array, b: Array) -> Array:
    """Return a / b, or 0 where b is no distance: infinite, or zero because low = high."""
    xp = backend_of(b).xp
    real = (b > 0) & (b < math.inf)
    return xp.where(real, a / xp.where(real, b, xp.ones_like(b)), xp.zeros_like(b))


def _pairing(below: Array, above: Array, zl: Array, zu: Array, many: int) -> Array:
    """Return the mean of the products, [...]."""
    xp = backend_of(zl).xp
    pairs = [xp.where(d < math.inf, d, xp.zeros_like(d)) * z for d, z in ((below, zl), (above, zu))]
    return (pairs[0] + pairs[1]).sum(-1) / many


def _longest(state: State, dp: Array, dl: Array, du: Array) -> Array:
    """Return the longest step, at most 1, that keeps distances and multipliers at least 0, [...]."""
    xp = backend_of(dp).xp
    size = xp.ones_like(dp)
    for x, d in ((state.below, dp), (state.above, -dp), (state.zl, dl), (state.zu, du)):
        ahead = (d < 0) & (x > 0)
        size = xp.where(ahead, xp.minimum(size, -x / xp.where(ahead, d, -xp.ones_like(d))), size)
    return xp.min(size, axis=-1)
