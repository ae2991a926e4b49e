"""How good is p, whoever computed it? A Fenchel-Young gap in float64, from outside the solver.

For concave Phi, L(v, p) <= L_Omega(grad_p Phi(v, p), p): a computable bound of the suboptimality of any feasible
p. It is the Frank-Wolfe gap when Omega = 0 and tighter otherwise. Where p_Omega is not computable on C, the
Frank-Wolfe gap of Phi - Omega stands in; for energies that are not concave either number measures stationarity only.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import Backend, backend_of, get_backend, is_floating, tree_map
from gfy.energies.base import Energy
from gfy.errors import GfyValueError, PrecisionWarning
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array
from gfy.telling import warn_once

_EPS = float(np.finfo(np.float64).eps)


class Certificate(NamedTuple):
    """Float64 NumPy arrays, one number for each example [...].

    gap: an upper bound of max Phi - Omega minus its value at p (a measure of stationarity where not `concave`).
    residual: |p - p_Omega(grad_p Phi(v, p))|, zero exactly at stationary points.
    feasibility: how far p is outside C.
    value: Phi(v, p) - Omega(p).
    distance: an upper bound of |p - p*| where Phi - Omega is strongly concave, infinite elsewhere.
    concave: whether `gap` is a bound.
    """

    gap: np.ndarray
    residual: np.ndarray
    feasibility: np.ndarray
    value: np.ndarray
    distance: np.ndarray
    concave: bool

    @property
    def says(self) -> str:
        """What the numbers mean, in a sentence."""
        if self.concave:
            return "gap bounds the suboptimality of p"
        return "the energy is not concave: gap and residual certify stationarity only"


def certify(problem: InnerProblem, v: Any, p: Array) -> Certificate:
    """The certificate of p for max_{p in C} Phi(v, p) - Omega(p): float64, whatever dtype and framework solved.

    v the energy's Input, p [..., k] -> Certificate of arrays [...]. A p outside C is certified at its projection,
    the distance between the two being `feasibility`.
    Reference: Blondel et al. (2022), Proposition 3, last upper bound.
    """
    v = problem.energy.coerce(v)
    problem.energy.check(v)
    source = backend_of(v, p)
    violation = _checked(problem, v, source.to_numpy(p))
    with _float64(source):
        double = get_backend("numpy") if problem.energy.array_api else source
        v64 = tree_map(lambda leaf: _double_leaf(double, source, leaf, problem.energy), v)
        judged = replace(problem, energy=problem.energy.computed_in("float64", v64))
        given = source.to_numpy(p).astype(np.float64)
        # a point outside C has no value there: the nearest point of C is what is certified
        inside = problem.domain.project(given) if (violation > 0).any() else given
        _tell_precision(judged, v64, _double(double, inside))
        gap, residual, value = _judge(judged, v64, _double(double, inside))
    concave = problem.energy.concave
    distance = _distance(problem, v64, gap, residual, value, np.sqrt((inside * inside).sum(-1)), double)
    return Certificate(gap, residual, violation, value, distance, concave)


def _judge(problem: InnerProblem, v: Any, p: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    energy, regularizer, domain = problem.energy, problem.regularizer, problem.domain
    backend = backend_of(v, p)
    value = problem.value(v, p)
    if regularizer.no_argmax(domain) is None:
        slope, constant = energy.majorant(v, p, regularizer, domain)
        best = regularizer.argmax(slope, domain)
        above = (
            constant + dot(slope, p) - energy.value(v, p)
        )  # how far the linear bound of Phi is above it at p
        gap = regularizer.gap(slope, best, p) + above
        residual = p - best
    else:
        gradient = problem.grad(v, p)
        best = domain.linear_oracle(gradient)
        gap = dot(gradient, best - p)
        residual = p - domain.project(p + gradient)
    length = backend.xp.sqrt(dot(residual, residual))
    arrays = tuple(np.asarray(backend.to_numpy(x), dtype=np.float64) for x in (gap, length, value))
    return np.maximum(arrays[0], 0.0), arrays[1], arrays[2]


def _tell_precision(problem: InnerProblem, v: Any, p: Array) -> None:
    """Warn where a function of the user's computes in less than float64 whatever it is given."""
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
    value: np.ndarray,
    length: np.ndarray,
    backend: Backend,
) -> np.ndarray:
    """|p - p*| <= sqrt(2 gap / mu), and <= (1 + L / mu) residual where Phi is L-smooth: the smaller of the two.

    Both are taken with room for the rounding of the gap and of p itself.
    """
    mu = problem.strong_concavity
    slack = 64 * _EPS * (1 + np.abs(value))
    if mu <= 0:
        return np.full_like(gap, np.inf)
    by_gap = np.sqrt(2 * (gap + slack) / mu)
    smoothness = problem.energy.smoothness(v)
    if smoothness is None or problem.regularizer.no_argmax(problem.domain) is not None:
        return by_gap
    L = np.asarray(backend.to_numpy(smoothness), dtype=np.float64)
    by_residual: np.ndarray = (1 + L / mu) * (residual + 64 * _EPS * (1 + length))
    return np.minimum(by_gap, by_residual)


def _checked(problem: InnerProblem, v: Any, p: np.ndarray) -> np.ndarray:
    if not p.ndim:
        raise GfyValueError("p must have at least one axis, its last the coordinates of p")
    problem.domain.check_dim(p.shape[-1])
    if not np.isfinite(p).all():
        raise GfyValueError("p holds values that are NaN or infinite: there is nothing to certify")
    if p.size == 0:
        return np.zeros(p.shape[:-1])
    violation = np.asarray(problem.domain.violation(p.astype(np.float64)), dtype=np.float64)
    return np.where(violation <= 1e-15, 0.0, violation)


def _double_leaf(backend: Backend, source: Backend, leaf: Any, energy: Energy) -> Any:
    """A leaf of v in float64; integers stay where they are not numbers to compute with but indices of a function's."""
    plain = not is_floating(leaf) and not energy.array_api
    if plain and not hasattr(leaf, "dtype"):
        return leaf
    values = source.to_numpy(leaf)
    return backend.asarray(values) if plain else _double(backend, values)


def _double(backend: Backend, x: np.ndarray) -> Array:
    return backend.asarray(np.asarray(x, dtype=np.float64), dtype="float64")


def _float64(backend: Backend) -> Any:
    if backend.name != "jax":
        return nullcontext()
    import jax

    return jax.enable_x64(True)
