"""The inner problem written in CVXPY, parametrised (DPP) so that it is compiled once for each shape.

Written from the formulas of the paper and not from this library's value and gradient code: it is the independent
witness of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gfy import energies, regularizers, sets
from gfy.energies.shifted import Shifted
from gfy.numerics.arithmetic import softplus
from gfy.problem import InnerProblem


class Model:
    """One compiled problem: `load(v)` fills the parameters of one example, `solve` returns p [k]."""

    def __init__(self, problem: InnerProblem, v: Any) -> None:
        import cvxpy as cp

        self.problem = problem
        self.p = cp.Variable(problem.energy.dim(v))
        self.parameters: dict[str, Any] = {}
        self.values: dict[str, np.ndarray] = {}
        self.constraints: list[Any] = []
        self.load(v)
        objective = self._energy(v) - _regularizer(problem.regularizer, self.p)
        self.constraints += _set(problem.domain, self.p)
        self.model = cp.Problem(cp.Maximize(objective), self.constraints)

    def load(self, v: Any) -> None:
        self.values = parameters(self.problem.energy, v)
        for name, parameter in self.parameters.items():
            parameter.value = self.values[name]

    def solve(self, solver: str, options: dict[str, Any]) -> tuple[np.ndarray | None, int, bool]:
        import warnings

        import cvxpy as cp

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate answer is judged by its certificate
            try:
                self.model.solve(solver=solver, **options)
            except cp.error.SolverError:
                return None, -1, False
        if self.p.value is None:
            return None, -1, False
        stats = self.model.solver_stats
        steps = stats.num_iters if stats is not None and stats.num_iters is not None else -1
        return np.asarray(self.p.value, dtype=np.float64), int(steps), self.model.status == cp.OPTIMAL

    def _parameter(self, name: str, nonneg: bool = False) -> Any:
        import cvxpy as cp

        value = self.values[name]
        self.parameters[name] = cp.Parameter(value.shape, nonneg=nonneg)
        self.parameters[name].value = value
        return self.parameters[name]

    def _energy(self, v: Any) -> Any:
        import cvxpy as cp

        energy = self.problem.energy.base if isinstance(self.problem.energy, Shifted) else self.problem.energy
        p, par = self.p, self._parameter
        if isinstance(energy, energies.Metric):
            apart = p - par("v")
            return -(cp.norm2(apart) if energy.cost == "euclidean" else cp.norm1(apart))
        linear = par("u") @ p
        if energy.linear:
            return linear
        if isinstance(energy, energies.Pairwise | energies.LinearQuadratic):
            return linear - 0.5 * cp.sum_squares(par("root") @ p)
        sigma = cp.pos if energy.activation == "relu" else cp.logistic  # type: ignore[attr-defined]
        if isinstance(energy, energies.ConcaveSpen):
            return linear - par("w", True) @ sigma(self._layer(par("W1") @ p + par("b1")))
        inner = sigma(self._layer(par("W0") @ p + par("b0")))
        outer = cp.Variable(self.values["b1"].shape[0])
        self.constraints.append(outer >= par("Wz", True) @ inner + par("Wp") @ p + par("b1"))
        return linear - par("wz", True) @ sigma(outer)

    def _layer(self, preactivation: Any) -> Any:
        """A variable of its own: a parameter times a function of parameters would not be DPP."""
        import cvxpy as cp

        z = cp.Variable(preactivation.shape)
        self.constraints.append(z == preactivation)
        return z


def parameters(energy: Any, v: Any) -> dict[str, np.ndarray]:
    """What the model is given for one example, by name."""
    if isinstance(energy, Shifted):
        inner = parameters(energy.base, v.v)
        return {**inner, "u": inner["u"] + v.c}
    if isinstance(energy, energies.Metric):
        return {"v": v.v}
    if energy.linear:
        return {"u": np.asarray(energy.scores(v))}
    if isinstance(energy, energies.Pairwise):
        return {"u": v.u, "root": v.A.T}
    if isinstance(energy, energies.LinearQuadratic):
        spectrum, basis = np.linalg.eigh(-v.U)
        return {"u": v.u, "root": np.sqrt(np.maximum(spectrum, 0.0))[:, None] * basis.T}
    if isinstance(energy, energies.ConcaveSpen):
        return {"u": v.u, "W1": v.W1, "b1": v.b1, "w": softplus(v.W2)}
    return {
        "u": v.u, "W0": v.W0, "b0": v.b0, "Wz": softplus(v.Wz), "Wp": v.Wp, "b1": v.b1, "wz": softplus(v.wz),
    }  # fmt: skip


def _regularizer(omega: Any, p: Any) -> Any:
    import cvxpy as cp

    if isinstance(omega, regularizers.Quadratic):
        return 0.5 * omega.curvature * cp.sum_squares(p) - omega.tilt * cp.sum(p)
    if isinstance(omega, regularizers.Shannon):
        return -omega.gamma * cp.sum(cp.entr(p))
    if isinstance(omega, regularizers.BinaryShannon):
        return -omega.gamma * cp.sum(cp.entr(p) + cp.entr(1 - p))
    if isinstance(omega, regularizers.Tsallis):
        scale = omega.gamma / (omega.alpha * (omega.alpha - 1))
        return scale * (cp.sum(cp.power(p, omega.alpha)) - cp.sum(p))
    return 0.0


def _set(domain: Any, p: Any) -> list[Any]:
    import cvxpy as cp

    if isinstance(domain, sets.Reals):
        return []
    if isinstance(domain, sets.BandSet):
        low, high = domain.bounds(np.zeros(p.shape))
        sides = [p >= low] if np.all(np.isfinite(low)) else []
        sides += [p <= high] if np.all(np.isfinite(high)) else []
        return sides if domain.total is None else [*sides, cp.sum(p) == domain.total]
    if isinstance(domain, sets.Birkhoff):
        n = domain.side(p.shape[0])
        matrix = cp.reshape(p, (n, n), order="C")
        return [p >= 0, cp.sum(matrix, axis=0) == 1, cp.sum(matrix, axis=1) == 1]
    if isinstance(domain, sets.Ball):
        return [cp.norm2(p) <= domain.radius]
    weights = cp.Variable(len(domain.points), nonneg=True)
    return [cp.sum(weights) == 1, p == domain.points.T @ weights]
