"""Certify how good a point p is, whoever computed it, by a Fenchel-Young gap in float64 outside the solver.

For concave Phi, L(v, p) <= L_Omega(grad_p Phi(v, p), p). The right-hand side is a computable bound of the
suboptimality of any feasible p. It is the Frank-Wolfe gap when Omega = 0, and tighter otherwise. It holds the
conjugate of Omega, for which weak duality gives an upper bound (`gfy.regularizers.bounds`), however accurate the
argmax map is; the rounding of the sums is added. For energies that are not concave the number measures stationarity
only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import Backend, backend_of, get_backend, is_floating, leaves, tree_map
from gfy.calling.guard import guard
from gfy.calling.telling import warn_once
from gfy.checks import check_against
from gfy.energies.base import Dense, Energy, LowRank
from gfy.errors import GfyTypeError, GfyValueError, PrecisionWarning
from gfy.numerics.arithmetic import dot, matvec, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array
from gfy.regularizers.bounds import GapBound

_EPS = float(np.finfo(np.float64).eps)
_ROUNDINGS = 4  # the rounding of a gradient, in eps times the root of the sum of its terms' squares
_POINTS = 8  # points of C at which a claim of concavity is tried
# a violation of concavity, relative to the values, that not even rounding in float32 explains
_DOUBTFUL = 1e-5


class Certificate(NamedTuple):
    """Hold what `gfy.certify` found about a p: float64 NumPy arrays, one number per example [...].

    Args:
        gap: an upper bound of max Phi - Omega minus its value at p (a measure of stationarity where not `concave`).
        residual: |p - p_Omega(grad_p Phi(v, p))|, zero exactly at stationary points.
        feasibility: how far p is outside C.
        value: Phi(v, p) - Omega(p), at the projection of p where p is outside C.
        distance: an upper bound of |p - p*| where Phi - Omega is strongly concave, infinite elsewhere.
        concave: whether `gap` is a bound.
        claimed: whether concavity is the word of the energy's author (`CustomEnergy(concave=True)`), which was tried
            at random points of C and not proven; False by default.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> proof = gfy.certify(problem, gfy.Bilinear.Input(array([0.0, 1.0])), array([0.5, 0.9]))
        >>> proof.gap.item(), proof.feasibility.item(), proof.concave
        (0.01, 0.0, True)
    """

    gap: np.ndarray
    residual: np.ndarray
    feasibility: np.ndarray
    value: np.ndarray
    distance: np.ndarray
    concave: bool
    claimed: bool = False

    @property
    def says(self) -> str:
        """Explain the numbers in a sentence."""
        if not self.concave:
            return "the energy is not concave: gap and residual certify stationarity only"
        if self.claimed:
            return (
                "gap bounds the suboptimality of p if the energy is concave in p, which its author claims: "
                "the claim was tried at random points of C and not proven"
            )
        return "gap bounds the suboptimality of p"


@guard
def certify(problem: InnerProblem, v: Any, p: Array) -> Certificate:
    """Measure how good any p is, whoever computed it, by an upper bound of its distance to the maximum.

    Everything is computed in float64 on the host, whatever framework and dtype solved the problem. A p outside C is
    certified at its projection; `feasibility` is the distance between the two, and `distance` is that of the given p.
    Concavity at this v is checked for every size, by one factorisation per dense matrix; a claim of concavity that
    cannot be checked is tried at random points.

    Args:
        problem: the energy, the regularizer and the set.
        v: the energy's Input.
        p: the points to certify, [..., k].

    Returns:
        A `Certificate` of NumPy arrays [...], one number per example.

    Raises:
        GfyValueError: where v or p holds NaN or infinities, where the energy claims to be concave and is not, and
            where a matrix that must be symmetric is not.
        GfyTypeError: where an argument is of another kind.

    Reference: Blondel et al. (2022), Proposition 3, last upper bound.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Bilinear.Input(array([[0.0, 1.0], [0.0, 1.0]]))
        >>> gfy.certify(problem, v, array([[0.5, 1.0], [0.5, 0.0]])).gap.tolist()  # the first is p*, the second is not
        [0.0, 1.0]
    """
    energy = problem.energy
    v = energy.coerce(v)
    energy.check(v)
    source = backend_of(v, p)
    given = source.to_numpy(p).astype(np.float64)
    violation = _checked(problem, v, given)
    claimed = energy.concave and not (energy.linear or energy.proven)
    # The warnings are off, because infinity is a valid result here.
    with (
        source.float64(),
        np.errstate(over="ignore", divide="ignore", invalid="ignore"),
    ):
        double = get_backend("numpy") if energy.array_api else source
        v64 = tree_map(lambda leaf: _double_leaf(double, source, leaf, energy), v)
        wide = replace(problem, energy=energy.computed_in("float64", v64))
        inside = _inside(problem, given, violation)
        point = _double(double, inside)
        _tell_precision(wide, v64, point)
        if claimed and inside.size:
            _try_claim(wide, v64, point, double)
        judged = _judge(wide, v64, point, double)
    moved = given - inside
    distance = judged.distance + np.sqrt((moved * moved).sum(-1))
    return Certificate(
        judged.gap, judged.residual, violation, judged.value, distance, energy.concave, claimed
    )


class _Judgement(NamedTuple):
    gap: np.ndarray
    residual: np.ndarray
    value: np.ndarray
    distance: np.ndarray


def _judge(problem: InnerProblem, v: Any, p: Array, backend: Backend) -> _Judgement:
    """Compute the certificate at a p that lies in C up to rounding."""
    energy = problem.energy
    xp = backend.xp

    def host(x: Any) -> np.ndarray:
        return np.asarray(backend.to_numpy(x), dtype=np.float64)

    value = host(problem.value(v, p))
    above = np.zeros_like(value)  # how far the linear bound of Phi is above it at p
    if energy.smooth:
        slope = energy.grad_p(v, p)
    else:
        slope, constant = energy.majorant(v, p, problem.regularizer, problem.domain)
        here, touch = energy.value(v, p), dot(slope, p)
        terms = xp.abs(here) + xp.abs(constant) + dot(xp.abs(slope), xp.abs(p))
        above = host(constant + touch - here + 8 * backend.eps(p) * terms)
    blur = _blur(problem, v, p, slope)
    bound = problem.regularizer.gap(slope, p, problem.domain, blur)
    gap = np.maximum(host(bound.gap) + above, 0.0)
    rise = _rise(problem, v)
    mu = problem.regularizer.strong_convexity(problem.domain)
    gap = _bent(gap, rise, mu, problem.domain.diameter(p.shape[-1]) if problem.domain.compact else np.inf)
    length = np.sqrt(host(dot(p, p)))
    slack = host(bound.slack) + 64 * _EPS * (1 + np.abs(value))
    residual = p - (
        bound.best
        if problem.regularizer.no_argmax(problem.domain) is None
        else problem.domain.project(p + _finite(slope - problem.regularizer.grad(p)))
    )
    short = np.sqrt(host(dot(residual, residual)))
    distance = _distance(problem, v, gap + slack, short, length, bound, mu - rise, backend)
    return _Judgement(gap, short, value, distance)


def _tell_precision(problem: InnerProblem, v: Any, p: Array) -> None:
    """Warn where a function of the user computes in less than float64 although its input is float64."""
    if problem.energy.array_api or not backend_of(v, p).narrows(problem.energy.value, v, p):
        return
    warn_once(
        PrecisionWarning,
        f"the energy of {problem.name} casts float64 numbers to a narrower dtype: the certificate is no better than "
        "the rounding there; remove the casts from the energy's function",
        problem,
    )


def _distance(
    problem: InnerProblem,
    v: Any,
    gap: np.ndarray,
    residual: np.ndarray,
    length: np.ndarray,
    bound: GapBound,
    mu: np.ndarray,
    backend: Backend,
) -> np.ndarray:
    """Return the smaller of two bounds of |p - p*|: sqrt(2 gap / mu), and (1 + L / mu) residual where Phi is L-smooth.

    Both bounds include the rounding of the gap and of p itself, and the error of the argmax map.
    """
    if not problem.energy.concave:
        return np.full_like(gap, np.inf)
    curved = mu > 0
    mu = np.where(curved, mu, 1.0)
    found: np.ndarray = np.sqrt(2 * gap / mu)
    smoothness = problem.energy.smoothness(v)
    if smoothness is not None and problem.regularizer.no_argmax(problem.domain) is None:
        L = np.asarray(backend.to_numpy(smoothness), dtype=np.float64)
        off = np.asarray(backend.to_numpy(bound.off), dtype=np.float64)
        found = np.minimum(found, (1 + L / mu) * (residual + off + 4 * _EPS * length))
    found = np.where(curved, found, np.inf)
    domain = problem.domain
    return (
        np.minimum(found, domain.diameter(bound.best.shape[-1])) if domain.compact and curved.any() else found
    )


def _blur(problem: InnerProblem, v: Any, p: Array, slope: Array) -> Array:
    """Return the rounding of the slope [..., k]: a few eps times the root of the squares of the added terms."""
    curvature = problem.energy.curvature(v)
    backend = backend_of(v, p)
    xp = backend.xp
    size = xp.abs(slope)
    if isinstance(curvature, Dense):
        size = size + xp.sqrt(matvec(curvature.U**2, p**2))
    elif isinstance(curvature, LowRank):
        across = xp.sqrt(matvec(transpose(curvature.A**2), p**2))
        size = size + matvec(xp.abs(curvature.A), across)
    return _ROUNDINGS * backend.eps(slope) * size


def _rise(problem: InnerProblem, v: Any) -> np.ndarray:
    """Return the largest eigenvalue of Phi's Hessian, [...], where it is a matrix and rounding left it above
    0; else 0."""
    curvature = problem.energy.curvature(v)
    if not problem.energy.concave or not isinstance(curvature, Dense):
        return np.zeros(())
    U = np.asarray(curvature.U, dtype=np.float64)
    if not U.size:
        return np.zeros(U.shape[:-2])
    room = 4 * U.shape[-1] * _EPS * np.abs(U).max((-1, -2))
    try:  # A factorisation takes a tenth of the time of the eigenvalues, and is enough for most matrices.
        np.linalg.cholesky(room[..., None, None] * np.eye(U.shape[-1]) - U)
    except np.linalg.LinAlgError:
        return np.maximum(np.linalg.eigvalsh(U)[..., -1], 0.0) + room
    return room


def _bent(gap: np.ndarray, rise: np.ndarray, mu: float, diameter: float) -> np.ndarray:
    """Return the bound where Phi lies above its tangent by rise / 2 |q - p|^2 at most and Omega is mu-strongly convex.

    L_Omega(theta, p) >= mu / 2 |p - p_Omega(theta)|^2 turns this into a factor mu / (mu - rise) of the gap.
    """
    factor = np.where(rise < mu, mu / np.where(rise < mu, mu - rise, 1.0), np.inf)
    added = np.where(rise > 0, rise / 2 * diameter**2, 0.0)
    scaled = np.where(gap > 0, gap * factor, np.where(rise < mu, 0.0, np.inf))
    return np.where(rise > 0, np.fmin(scaled, gap + added), gap)


def _try_claim(problem: InnerProblem, v: Any, p: Array, backend: Backend) -> None:
    """Refuse an energy that lies above its tangent at p, or below a chord, by more than rounding explains."""
    energy, domain = problem.energy, problem.domain
    rng = np.random.default_rng(0)
    here = backend.to_numpy(p)

    def value(x: np.ndarray) -> np.ndarray:
        return np.asarray(backend.to_numpy(energy.value(v, _double(backend, x))), dtype=np.float64)

    level, slope = value(here), np.asarray(backend.to_numpy(energy.grad_p(v, p)), dtype=np.float64)
    for _ in range(_POINTS):
        draw = rng.normal(size=here.shape)
        if domain.compact:
            share = rng.uniform(size=(*here.shape[:-1], 1))
            there = here + share * (domain.linear_oracle(draw) - here)
        else:
            there = domain.project(here + (1 + np.abs(here).max()) * draw)
        far, middle = value(there), value((here + there) / 2)
        tangent = level + (slope * (there - here)).sum(-1)
        room = _DOUBTFUL * (1 + np.abs(level) + np.abs(far) + np.abs(slope * (there - here)).sum(-1))
        worst = np.maximum(far - tangent, (level + far) / 2 - middle) - room
        if np.any(worst > 0):
            raise GfyValueError(
                f"{energy.name} claims to be concave in p but is not: at a point of {domain.name} it lies above its "
                f"tangent at p, or below the chord between the two, by {np.nanmax(worst):.3g}; pass an energy that is "
                "concave, or say concave=False"
            )


def _inside(problem: InnerProblem, p: np.ndarray, violation: np.ndarray) -> np.ndarray:
    """Return p moved exactly into its bounds, or its projection where it lies outside C and has no value."""
    if problem.domain.banded:
        p = np.clip(p, *problem.domain.bounds(p))
    elif problem.regularizer.separable:
        p = np.clip(p, problem.regularizer.least, problem.regularizer.most)
    outside = (violation > 0)[..., None]
    return np.where(outside, problem.domain.project(p), p) if outside.any() else p


def _checked(problem: InnerProblem, v: Any, p: np.ndarray) -> np.ndarray:
    """Return the violation of p [...], and refuse what has no certificate."""
    energy = problem.energy
    source = backend_of(v)
    fields = getattr(v, "_fields", ())
    for name, part in zip(fields, v, strict=True):
        arrays = [source.to_numpy(leaf) for leaf in leaves(part) if hasattr(leaf, "dtype")]
        bad = sum(int((~np.isfinite(x)).sum()) for x in arrays if x.dtype.kind in "fc")
        if any(x.dtype.kind == "c" for x in arrays):
            raise GfyTypeError(f"{energy.name}.Input.{name} must hold real numbers, got complex ones")
        if bad:
            raise GfyValueError(f"{energy.name}.Input.{name} holds {bad} values that are NaN or infinite")
    sentence = energy.concavity_violation(v)
    if sentence is not None:
        raise GfyValueError(sentence)
    if not p.ndim:
        raise GfyValueError("p must have at least one axis, its last the coordinates of p")
    problem.check_dim(p.shape[-1])
    check_against(energy, v, tuple(p.shape))
    if not np.isfinite(p).all():
        raise GfyValueError("p holds values that are NaN or infinite: there is nothing to certify")
    if p.size == 0:
        return np.zeros(p.shape[:-1])
    violation = np.asarray(problem.domain.violation(p), dtype=np.float64)
    return np.where(violation <= 1e-15, 0.0, violation)


def _double_leaf(backend: Backend, source: Backend, leaf: Any, energy: Energy) -> Any:
    """Return a leaf of v in float64; integers stay integers where a function uses them as indices."""
    plain = not is_floating(leaf) and not energy.array_api
    if plain and not hasattr(leaf, "dtype"):
        return leaf
    values = source.to_numpy(leaf)
    return backend.asarray(values) if plain else _double(backend, values)


def _finite(gradient: Array) -> Array:
    """Return the gradient with each infinite coordinate replaced by the largest finite one of its example (1
    without one)."""
    xp = backend_of(gradient).xp
    finite = xp.isfinite(gradient)
    size = xp.max(xp.where(finite, xp.abs(gradient), xp.ones_like(gradient)), axis=-1)[..., None]
    return xp.where(finite, gradient, xp.sign(gradient) * size)


def _double(backend: Backend, x: np.ndarray) -> Array:
    return backend.asarray(np.asarray(x, dtype=np.float64), dtype="float64")
