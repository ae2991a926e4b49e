"""The maximum of Phi(v, p) - Omega(p) over C for one example, to the last digits, without the library under test.

CVXPY finds the maximum; the constraints that hold with equality there are kept, and Newton's method on the
conditions of Karush, Kuhn and Tucker finishes. Derivatives are complex steps, so nothing here is differentiated by
hand. Multipliers and slacks tell how far the point is from one where the solution is not differentiable.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

from .formulas_energies import Euclidean, Formula, Leaves
from .formulas_sets import Omega, Region

_STEP = 1e-30  # of a complex step: nothing cancels, so it may be as small as numbers go
_ROUNDS = 30  # changes of the active set
_EXACT = 3e-14  # a residual of rounding alone
_ACTIVE = 1e-5  # a slack below it is taken as zero at first


class Point(NamedTuple):
    """A maximum: x = (p, w, t), which inequalities are active, the multipliers, and how it was reached."""

    p: np.ndarray
    x: np.ndarray
    active: np.ndarray  # bool, one per inequality
    value: float
    margin: float  # the least multiplier of an active inequality and slack of another
    condition: float  # the norm of dp / d(linear term)
    unique: bool
    duals: np.ndarray | None = None  # the multipliers of the active inequalities and of the equations
    inverse: np.ndarray | None = None  # of the system of Newton's method; None where no equations were solved


class NoReference(Exception):
    """The reference was not found, and the sentence says why."""


@dataclass
class Problem:
    """One example: the formula and its leaves, the regularizer and the region."""

    formula: Formula
    omega: Omega
    region: Region
    v: Leaves

    def __post_init__(self) -> None:
        self.k, self.n_w = self.region.k, self.region.extra

    def parts(self, x: Any) -> tuple[Any, Any, Any]:
        """x as p, the weights w of the set and the variables t of the kinks."""
        return (
            x[..., : self.k],
            x[..., self.k : self.k + self.n_w],
            x[..., self.k + self.n_w :],
        )

    def cost(self, x: Any) -> Any:
        """Omega(p) - phi(v, p, t): what is minimised."""
        p, _, t = self.parts(x)
        return self.omega.value(p) - self.formula.phi(self.v, p, t)

    def inequalities(self, x: Any) -> Any:
        p, w, t = self.parts(x)
        rows = self.region.inequalities(p, w) + self.formula.kinks(self.v, p, t)
        return np.concatenate(rows, axis=-1) if rows else x[..., :0]

    def equalities(self, x: Any) -> Any:
        p, w, _ = self.parts(x)
        rows = self.region.equalities(p, w)
        return np.concatenate(rows, axis=-1) if rows else x[..., :0]

    def lift(self, p: np.ndarray) -> np.ndarray:
        return np.concatenate([p, self.region.lift(p), self.formula.lift(self.v, p)])

    def start(self) -> np.ndarray:
        """CVXPY's answer, as x."""
        p = cp.Variable(self.k)
        phi, constraints, t = self.formula.model(self.v, p)
        inside, w = self.region.model(p)
        program = cp.Problem(cp.Minimize(self.omega.model(p) - phi), constraints + inside)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                program.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
            except cp.SolverError as error:
                raise NoReference(f"CVXPY found no solution: {error}") from None
        if p.value is None:
            raise NoReference(f"CVXPY ended with the status {program.status}")
        parts = [p.value, self.region.lift(p.value) if w is None else w.value]
        parts.append(self.formula.lift(self.v, p.value) if t is None else np.atleast_1d(t.value))
        return np.concatenate(parts)


def solve(problem: Problem, start: np.ndarray | None = None) -> Point:
    """The maximum, from CVXPY's answer or from a point p."""
    if (only := _only_point(problem)) is not None:
        return only
    x = problem.start() if start is None else problem.lift(np.asarray(start, dtype=float))
    if isinstance(problem.formula, Euclidean) and np.abs(x[: problem.k] - problem.v["v"]).max() < 1e-6:
        return _pinned(problem)
    low, high = problem.omega.bounds
    if problem.omega.inside:
        x[: problem.k] = np.clip(x[: problem.k], max(low, -1e300) + 1e-12, min(high, 1e300) - 1e-12)
    active = problem.inequalities(x) > -_ACTIVE
    return _finish(problem, x, active)


def _only_point(problem: Problem) -> Point | None:
    """The point of a set that has no other."""
    E = problem.region.E
    if E is None or np.linalg.matrix_rank(E) < problem.k:
        return None
    p = np.linalg.lstsq(E, problem.region.e, rcond=None)[0]
    x = problem.lift(p)
    value = -float(problem.cost(x))
    return Point(p, x, problem.inequalities(x) > np.inf, value, np.inf, 0.0, True)


def _pinned(problem: Problem) -> Point:
    """p = v inside C: the maximum where the slope of Omega is shorter than 1."""
    p = problem.v["v"]
    x = problem.lift(p)
    g = problem.inequalities(x)
    if problem.region.E is not None:
        raise NoReference("p = v on a flat set is a point where the metric's loss is not differentiable")
    slope = np.linalg.norm(_gradient(lambda y: problem.omega.value(y), p))
    inside = -float(g.max(initial=-np.inf))
    if problem.n_w:
        inside = float(x[problem.k :].max() > 0)  # the caller puts v well inside the hull
    margin = min(1 - slope, inside)
    if margin < 0:
        raise NoReference(f"p = v is not the maximum: the slope of Omega there has the length {slope:.3g}")
    return Point(p, x, g > np.inf, -float(problem.omega.value(p)), margin, 1.0, True)


def _finish(problem: Problem, x: np.ndarray, active: np.ndarray) -> Point:
    for _ in range(_ROUNDS):
        x, duals, system = _newton(problem, x, active)
        multipliers = _spread(problem, x, active, duals[: int(active.sum())])
        g = problem.inequalities(x)
        scale = 1 + np.abs(x).max()
        wrong = active.copy()
        wrong[active] = multipliers < -1e-10
        broken = ~active & (g > 1e-10 * scale)
        if not wrong.any() and not broken.any():
            break
        if broken.any():
            active = active | (broken & (g >= g[broken].max() / 2))
        else:
            least = np.where(active)[0][np.argmin(multipliers)]
            active = active.copy()
            active[least] = False
    else:
        raise NoReference("the active constraints of the reference keep changing")
    inverse = np.linalg.pinv(system, rcond=1e-10)
    sensitivity = inverse[: problem.k, : problem.k]
    # p is unique where no null direction of the system moves it
    null = np.eye(len(system))[: problem.k] - (inverse @ system)[: problem.k]
    unique = bool(np.abs(null).max(initial=0.0) < 1e-6)
    slack = -g[~active]
    margin = min(multipliers.min(initial=np.inf), slack.min(initial=np.inf))
    if problem.omega.inside:
        low, high = problem.omega.bounds
        margin = min(margin, float((x[: problem.k] - low).min()), float((high - x[: problem.k]).min()))
    condition = max(float(np.linalg.norm(sensitivity, 2)), 1e-12)
    value = -float(problem.cost(x))
    return Point(x[: problem.k], x, active, value, float(margin), condition, unique, duals, inverse)


def _spread(problem: Problem, x: np.ndarray, active: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """Where the active rows depend on each other, the multipliers whose least is largest; the given ones elsewhere."""
    slope, both = _conditions(problem, x, active)
    count, every = int(active.sum()), len(both)
    if not count or np.linalg.matrix_rank(both, tol=1e-9) == every:
        return multipliers
    # variables: multipliers of the rows and of the equations, and their least m
    equations = np.hstack([both.T, np.zeros((len(x), 1))])
    order = np.hstack([-np.eye(count), np.zeros((count, every - count)), np.ones((count, 1))])
    box = [(None, None)] * every + [(None, 1.0)]
    found = linprog(np.append(np.zeros(every), -1.0), order, np.zeros(count), equations, -slope, bounds=box)
    return multipliers if found.x is None else found.x[:count]


def _newton(problem: Problem, x: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A stationary point with the active inequalities as equations; the multipliers of all rows and the last system."""
    slope, rows = _conditions(problem, x, active)
    duals = -np.linalg.lstsq(rows.T, slope, rcond=1e-12)[0] if len(rows) else np.zeros(0)
    count = int(active.sum())
    best = np.inf
    for _ in range(60):

        def lagrangian(y: Any, multipliers: np.ndarray = duals[:count]) -> Any:
            return problem.cost(y) + problem.inequalities(y)[..., active] @ multipliers

        slope, rows = _conditions(problem, x, active)
        error = np.concatenate([slope + rows.T @ duals, _values(problem, x, active)])
        size = np.abs(error).max(initial=0.0)
        zero = np.zeros((len(rows), len(rows)))
        system = np.block([[_hessian(lagrangian, x), rows.T], [rows, zero]])
        if size < _EXACT or (size < 1e-11 and size >= best / 2):
            return x, duals, system
        best = min(best, size)
        step = np.linalg.lstsq(system, -error, rcond=1e-12)[0]
        length = _within(problem, x, step[: len(x)])
        x, duals = x + length * step[: len(x)], duals + length * step[len(x) :]
    raise NoReference(f"Newton's method of the reference ended with a residual of {size:.2g}")


def _conditions(problem: Problem, x: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the cost, and the derivatives of the active inequalities and of the equations, one per row."""
    near = x + 1j * _STEP * np.eye(len(x))
    rows = np.concatenate([problem.inequalities(near)[..., active], problem.equalities(near)], axis=-1)
    return problem.cost(near).imag / _STEP, (rows.imag / _STEP).T


def _values(problem: Problem, x: np.ndarray, active: np.ndarray) -> np.ndarray:
    return np.concatenate([problem.inequalities(x)[active], problem.equalities(x)])


def neighbour(problem: Problem, base: Point) -> Point:
    """The maximum of a problem near that of `base`, by Newton's method with the system of `base`."""
    if base.inverse is None:
        return _only_point(problem) if base.condition == 0.0 else _pinned(problem)  # type: ignore[return-value]
    x, duals, best = base.x, base.duals, np.inf
    for _ in range(40):
        slope, rows = _conditions(problem, x, base.active)
        error = np.concatenate([slope + rows.T @ duals, _values(problem, x, base.active)])
        size = np.abs(error).max(initial=0.0)
        if size < _EXACT or (size < 1e-11 and size >= best / 2):
            break
        best = min(best, size)
        step = base.inverse @ error
        x, duals = x - step[: len(x)], duals - step[len(x) :]
    else:
        raise NoReference(f"the reference of a neighbour ended with a residual of {size:.2g}")
    if (problem.inequalities(x)[~base.active] > 0).any():
        raise NoReference("the active constraints change near the point")
    return base._replace(p=x[: problem.k], x=x, duals=duals, value=-float(problem.cost(x)))


def _within(problem: Problem, x: np.ndarray, move: np.ndarray) -> float:
    """The longest step up to 1 that keeps p where an entropy is defined."""
    if not problem.omega.inside:
        return 1.0
    p, d = x[: problem.k], move[: problem.k]
    low, high = problem.omega.bounds
    down = np.where(d < 0, (p - low) / np.where(d < 0, -d, 1), np.inf)
    up = np.where(d > 0, (high - p) / np.where(d > 0, d, 1), np.inf)
    return float(min(1.0, 0.95 * down.min(), 0.95 * up.min()))


def _gradient(fn: Any, x: np.ndarray) -> np.ndarray:
    return fn(x + 1j * _STEP * np.eye(len(x))).imag / _STEP


def _hessian(fn: Any, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Differences of complex steps."""
    n = len(x)
    near = np.concatenate([x + step * np.eye(n), x - step * np.eye(n)])
    slopes = fn(near[:, None, :] + 1j * _STEP * np.eye(n)).imag / _STEP
    found = (slopes[:n] - slopes[n:]) / (2 * step)
    return (found + found.T) / 2
