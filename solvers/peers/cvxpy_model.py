"""Write the inner problem in CVXPY, parametrised (DPP) so that it is compiled once for each shape.

The model is written from the formulas of the paper and from what an energy says of its structure
(`quadratic`, `network`). It does not use the code of value and gradient, so it is an independent check of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gfy.problem import InnerProblem


class Model:
    """Hold one compiled problem: `load(v)` fills the parameters of one example, `solve` returns p [k]."""

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
            # The certificate judges an inaccurate answer, so no warning is needed.
            warnings.simplefilter("ignore")
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

        energy, p, par = self.problem.energy, self.p, self._parameter
        if energy.metric is not None:
            apart = p - par("anchor")
            return -(cp.norm2(apart) if energy.metric == "euclidean" else cp.norm1(apart))
        linear = par("u") @ p
        if energy.linear:
            return linear
        if energy.interactions is not None:
            return linear - 0.5 * cp.sum_squares(par("root") @ p)
        network = energy.network(v)
        assert network is not None
        sigma = cp.logistic if energy.smooth else cp.pos
        z = None
        for n, layer in enumerate(network.layers):
            a = par(f"M{n}") @ p + par(f"b{n}")
            if layer.Wz is None:
                z = sigma(self._layer(a))
            else:  # z is a convex function. A variable bounded by it from below equals it at the maximum.
                outer = cp.Variable(a.shape)
                self.constraints.append(outer >= par(f"Wz{n}", True) @ z + a)
                z = sigma(outer)
        return linear - par("weights", True) @ z

    def _layer(self, preactivation: Any) -> Any:
        """Return a separate variable: a parameter times a function of parameters would not be DPP."""
        import cvxpy as cp

        z = cp.Variable(preactivation.shape)
        self.constraints.append(z == preactivation)
        return z


def parameters(energy: Any, v: Any) -> dict[str, np.ndarray]:
    """Return the parameters of the model for one example, by name."""
    if energy.metric is not None:
        return {"anchor": energy.anchor(v)}
    if energy.linear:
        return {"u": np.asarray(energy.scores(v))}
    if energy.interactions is not None:
        u, curvature = energy.quadratic(v)
        if energy.interactions == "low rank":
            return {"u": u, "root": curvature.A.T}
        spectrum, basis = np.linalg.eigh(-curvature.dense())
        return {"u": u, "root": np.sqrt(np.maximum(spectrum, 0.0))[:, None] * basis.T}
    network = energy.network(v)
    found = {"u": network.slope, "weights": network.weights}
    for n, layer in enumerate(network.layers):
        found |= {f"M{n}": layer.M, f"b{n}": layer.b}
        found |= {} if layer.Wz is None else {f"Wz{n}": layer.Wz}
    return found


def _regularizer(omega: Any, p: Any) -> Any:
    import cvxpy as cp

    if omega.quadratic:
        return 0.5 * omega.curvature * cp.sum_squares(p) - omega.tilt * cp.sum(p)
    if omega.entropy == "shannon":
        return -omega.gamma * cp.sum(cp.entr(p))
    if omega.entropy == "binary":
        return -omega.gamma * cp.sum(cp.entr(p) + cp.entr(1 - p))
    if omega.divergence_from is not None:
        return omega.gamma * _divergence(omega, p)
    scale = omega.gamma / (omega.alpha * (omega.alpha - 1))
    return scale * (cp.sum(cp.power(p, omega.alpha)) - cp.sum(p))


def _divergence(omega: Any, p: Any) -> Any:
    """Return sum_j q_j f(p_j / q_j), with each f by the function that CVXPY has for it."""
    import cvxpy as cp

    q = np.broadcast_to(np.asarray(omega.prior, dtype=float), p.shape)
    f, alpha = omega.divergence_from, omega.alpha
    if f == "kl" or alpha == 1:
        return cp.sum(cp.kl_div(p, q))
    if f == "reverse-kl" or alpha == 0:
        return cp.sum(cp.kl_div(q, p))
    if f == "chi-square":
        return 0.5 * cp.sum(cp.multiply(1 / q, cp.square(p - q)))
    if f == "jensen-shannon":
        return cp.sum(cp.kl_div(p, (p + q) / 2) + cp.kl_div(q, (p + q) / 2))
    if f == "squared-hellinger":
        return cp.sum(p + q - 2 * cp.multiply(np.sqrt(q), cp.sqrt(p)))
    powers = cp.sum(cp.multiply(q ** (1 - alpha), cp.power(p, alpha)))
    return (powers - alpha * cp.sum(p) + (alpha - 1) * np.sum(q)) / (alpha * (alpha - 1))


def _set(domain: Any, p: Any) -> list[Any]:
    import cvxpy as cp

    if domain.whole:
        return []
    if domain.banded:
        low, high = domain.bounds(np.zeros(p.shape))
        sides = [p >= low] if np.all(np.isfinite(low)) else []
        sides += [p <= high] if np.all(np.isfinite(high)) else []
        return sides if domain.total is None else [*sides, cp.sum(p) == domain.total]
    if domain.stochastic:
        n = domain.side(p.shape[0])
        matrix = cp.reshape(p, (n, n), order="C")
        return [p >= 0, cp.sum(matrix, axis=0) == 1, cp.sum(matrix, axis=1) == 1]
    if domain.ranked:  # p = M w for a doubly stochastic M
        mixed = cp.Variable((p.shape[0], p.shape[0]), nonneg=True)
        w = domain.profile(p.shape[0])
        return [cp.sum(mixed, axis=0) == 1, cp.sum(mixed, axis=1) == 1, p == mixed @ w]
    if domain.ball:
        return [cp.norm2(p) <= domain.radius]
    weights = cp.Variable(len(domain.points), nonneg=True)
    return [cp.sum(weights) == 1, p == domain.points.T @ weights]
