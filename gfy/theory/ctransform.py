"""Compute C-transforms of optimal transport: min_p C(v, p) - Lambda(p), the min counterpart of the conjugate.

With C = -Phi and Lambda = -Omega, the C-transform is -Omega^Phi. A bilinear cost gives concave conjugates, a cost
c(v - p) gives infimal convolutions, and a metric changes only the sign of a 1-Lipschitz potential. With `gamma` the
minimum is softened as in entropic transport. Alternating the soft transforms of two potentials is Sinkhorn's
algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gfy.backend import backend_of
from gfy.calling.guard import guard
from gfy.conjugate import conjugate
from gfy.energies.base import Energy
from gfy.errors import GfyTypeError, GfyValueError
from gfy.numerics.arithmetic import dot, logsumexp
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Stop
from gfy.regularizers.base import Regularizer
from gfy.sets.base import ConvexSet

Cost = Callable[[Array, Array], Array]


@guard
def c_transform(
    cost: Any,
    potential: Any,
    v: Any = None,
    *,
    points: Any = None,
    domain: ConvexSet | None = None,
    gamma: float = 0.0,
    weights: Any = None,
    solver: InnerSolver | None = None,
    stop: Stop = Stop(),
) -> Array:
    """Compute the C-transform of optimal transport, min_p C(v, p) - Lambda(p), or its soft form; differentiable.

    With C = -Phi and Lambda = -Omega it is -Omega^Phi(v). With gamma > 0 the minimum becomes
    -gamma log sum_j w_j exp((Lambda_j - C_j) / gamma): a Sinkhorn half-step when w is the marginal of p.

    Args:
        cost: a matrix [..., n, m]; a name ("bilinear", "euclidean", "manhattan", "squared") or a function of
            (v [..., d], p [..., k]) that returns [...]; or an Energy Phi, for C = -Phi.
        potential: Lambda: [..., m] beside a matrix; [m] or a function of p beside `points`; a Regularizer Omega
            (Lambda = -Omega) beside an Energy.
        v: [..., d], or the energy's Input; None, the default, beside a matrix.
        points: the p's, [m, k], for a named cost or a function; None by default.
        domain: the set of p, for an Energy; None by default.
        gamma: the temperature of the soft minimum, a number >= 0; 0.0 by default, which is the minimum itself.
        weights: w [..., m] of the soft minimum; None, the default, is 1 each.
        solver: an inner solver, for an Energy; None, the default, chooses one.
        stop: the tolerance and the most steps of an iterative solver; 1e-8 and 1000 by default.

    Returns:
        [..., n] for a matrix, [...] otherwise.

    Raises:
        GfyTypeError, GfyValueError: where the arguments do not go together, or gamma is negative.

    Reference: Blondel et al. (2022), Section 3; Peyre and Cuturi (2019), Sections 4 and 5.

    Example:
        >>> cost, potential = array([[1.0, 4.0], [2.0, 0.0]]), array([0.0, 1.0])
        >>> gfy.c_transform(cost, potential).tolist()  # min over columns of cost - potential
        [1.0, -1.0]
    """
    if not 0 <= gamma < math.inf:
        raise GfyValueError(f"c_transform gamma must be a number >= 0, got {gamma!r}")
    if isinstance(cost, Energy):
        return _continuous(cost, potential, v, domain, gamma, solver, stop)
    if hasattr(cost, "shape"):
        return _soft_min(
            cost - potential[..., None, :], gamma, weights if weights is None else weights[..., None, :]
        )
    if v is None or points is None:
        raise GfyTypeError(
            "c_transform with a cost function needs v=... and points=..., the p over which the minimum is taken"
        )
    backend = backend_of(v)
    places = backend.asarray(points, like=v)
    level = potential(places) if callable(potential) else backend.asarray(potential, like=v)
    costs = named_cost(cost)(v[..., None, :], places)
    return _soft_min(costs - level, gamma, weights)


@guard
def concave_conjugate(potential: Any, v: Array, points: Any) -> Array:
    """Compute the concave conjugate min_p <v, p> - Lambda(p) over finitely many points.

    Args:
        potential: Lambda, [m] or a function of p.
        v: [..., k].
        points: the p's, [m, k].

    Returns:
        The minimum for each v, [...].

    Raises:
        GfyTypeError, GfyValueError: as `c_transform`.

    Reference: Blondel et al. (2022), Section 3.

    Example:
        >>> points = [[0.0], [1.0], [2.0]]
        >>> gfy.concave_conjugate([0.0, 1.0, 1.5], array([[0.75]]), points).tolist()
        [-0.25]
    """
    return c_transform("bilinear", potential, v, points=points)


@guard
def infimal_convolution(c: Callable[[Array], Array], f: Any, v: Array, points: Any) -> Array:
    """Compute the infimal convolution min_p c(v - p) + f(p) over finitely many points.

    Args:
        c: a function from [..., k] to [...].
        f: [m] or a function of p.
        v: [..., k].
        points: the p's, [m, k].

    Returns:
        The minimum for each v, [...].

    Raises:
        GfyTypeError, GfyValueError: as `c_transform`.

    Reference: Blondel et al. (2022), Section 3.

    Example:
        >>> squared = lambda x: 0.5 * (x * x).sum(-1)
        >>> gfy.infimal_convolution(squared, [0.0, 1.0], array([[1.0]]), points=[[0.0], [1.0]]).tolist()
        [0.5]
    """
    backend = backend_of(v)
    places = backend.asarray(points, like=v)
    values = f(places) if callable(f) else backend.asarray(f, like=v)
    return c_transform(lambda x, p: c(x - p), -values, v, points=places)


def named_cost(cost: Any) -> Cost:
    """Return a cost by its name, or the one that was given."""
    if callable(cost):
        return cost
    if cost not in _COSTS:
        raise GfyValueError(
            f"cost must be one of {', '.join(_COSTS)}, a matrix, a function or an Energy, got {cost!r}"
        )
    return _COSTS[cost]


def _euclidean(v: Array, p: Array) -> Array:
    apart = v - p
    xp = backend_of(apart).xp
    square = dot(apart, apart)
    away = square > 0  # The root has no derivative at 0, so none is recorded there.
    return xp.where(away, xp.sqrt(xp.where(away, square, xp.ones_like(square))), xp.zeros_like(square))


_COSTS: dict[str, Cost] = {
    "bilinear": dot,
    "euclidean": _euclidean,
    "manhattan": lambda v, p: backend_of(v, p).xp.abs(v - p).sum(-1),
    "squared": lambda v, p: 0.5 * dot(v - p, v - p),
}


def _soft_min(excess: Array, gamma: float, weights: Any) -> Array:
    """Return the minimum over the last axis, or its entropic soft form."""
    backend = backend_of(excess)
    xp = backend.xp
    if gamma == 0:
        if weights is not None:
            raise GfyValueError("weights soften the minimum: they need gamma > 0")
        return xp.min(excess, axis=-1)
    scores = -excess / gamma
    if weights is not None:
        w = backend.asarray(weights, like=excess)
        safe = xp.where(w > 0, w, xp.ones_like(w))
        scores = xp.where(w > 0, scores + xp.log(safe), xp.full_like(scores, -math.inf))
    return -gamma * logsumexp(scores)


def _continuous(
    energy: Energy, regularizer: Any, v: Any, domain: ConvexSet | None, gamma: float, solver: Any, stop: Stop
) -> Array:
    if not isinstance(regularizer, Regularizer) or not isinstance(domain, ConvexSet):
        raise GfyTypeError(
            "c_transform with an Energy needs potential: a Regularizer Omega (Lambda = -Omega), and a domain"
        )
    if gamma:
        raise GfyValueError("c_transform: gamma > 0 needs finitely many p (a cost matrix, or points=...)")
    return -conjugate(InnerProblem(energy, regularizer, domain), v, solver=solver, stop=stop)
