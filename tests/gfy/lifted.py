"""Concave rectifier problems written in CVXPY from the formula, each rectifier a variable: the outside reference.

    max <u, p> - <w, z_L> - Omega(p),   z_l >= 0,   z_l >= M_l p + b_l + Wz_l z_{l-1},   p in C

Nothing of the library's energies, maps or solvers is used: only the parameters of its regularizers and sets are read.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

import gfy

TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)


class Network(NamedTuple):
    """u [k], constant, layers of (M [h, k], b [h], Wz or None), weights [h] of the last layer; NumPy, one example."""

    u: np.ndarray
    constant: float
    layers: list[tuple[np.ndarray, np.ndarray, Any]]
    weights: np.ndarray


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x)


def spen(v: dict[str, np.ndarray], i: int) -> Network:
    """Example i of a ConcaveSpen; a leaf without a batch axis is shared."""
    u, W1, b1, W2, b2 = (_pick(v[name], rank, i) for name, rank in zip(v, (1, 2, 1, 1, 0), strict=True))
    return Network(u, -float(b2), [(W1, b1, None)], softplus(W2))


def icnn(v: dict[str, np.ndarray], i: int) -> Network:
    """Example i of an InputConvexNetwork."""
    u, W0, b0, Wz, Wp, b1, wz = (
        _pick(v[name], rank, i) for name, rank in zip(v, (1, 2, 1, 2, 2, 1, 1), strict=True)
    )
    return Network(u, 0.0, [(W0, b0, None), (Wp, b1, softplus(Wz))], softplus(wz))


def _pick(leaf: np.ndarray, rank: int, i: int) -> np.ndarray:
    return leaf[i] if leaf.ndim > rank else leaf


def value(network: Network, omega: Any, p: np.ndarray) -> float:
    """Phi(p) - Omega(p) in plain NumPy."""
    z = np.maximum(preactivations(network, p)[-len(network.weights) :], 0)
    return float(network.constant + network.u @ p - network.weights @ z - plain_omega(omega, p))


def preactivations(network: Network, p: np.ndarray) -> np.ndarray:
    """What the rectifiers are given at p, layer after layer."""
    found: list[np.ndarray] = []
    for M, b, Wz in network.layers:
        found.append(M @ p + b + (0 if Wz is None else Wz @ np.maximum(found[-1], 0)))
    return np.concatenate(found)


def polished(network: Network, omega: Any, domain: Any) -> np.ndarray:
    """CVXPY's p for a quadratic Omega on a box or simplex, the bounds and kinks it lies on solved for exactly."""
    _, p = maximum(network, omega, domain)
    curvature, tilt = {
        "SquaredNorm": (omega.gamma, 0.0), "Gini": (omega.gamma, omega.gamma / 2),
        "BinaryGini": (2 * omega.gamma, omega.gamma),
    }[omega.name]  # fmt: skip
    close = 1e-5
    equations, goals, outer = [], [], network.u + tilt
    low, high = (domain.low, domain.high) if isinstance(domain, gfy.Box) else (0.0, np.inf)
    for j, row in enumerate(np.eye(len(p))):
        for bound in (low, high):
            if abs(p[j] - bound) < close:
                equations.append(row)
                goals.append(bound)
    if not isinstance(domain, gfy.Box):
        equations.append(np.ones(len(p)))
        goals.append(domain.total)
    # the linear map of each layer where its rectifiers pass, block or lie on their kink
    below: tuple[np.ndarray, np.ndarray] | None = None
    for M, b, Wz in network.layers:
        inner, shift = (M, b) if below is None else (M + Wz @ below[0], b + Wz @ below[1])
        a = inner @ p + shift
        for i in np.flatnonzero(np.abs(a) < close):
            equations.append(inner[i])
            goals.append(-shift[i])
        passes = (a >= close).astype(float)
        below = passes[:, None] * inner, passes * shift
    assert below is not None
    outer = outer - below[0].T @ network.weights
    A, rhs = np.array(equations).reshape(-1, len(p)), np.array(goals)
    blank = np.zeros((len(A), len(A)))
    system = np.block([[curvature * np.eye(len(p)), A.T], [A, blank]])
    exact = np.linalg.lstsq(system, np.concatenate([outer, rhs]), rcond=None)[0][: len(p)]
    assert np.abs(exact - p).max() < 1e-4
    return exact


def plain_omega(omega: Any, p: np.ndarray) -> float:
    def xlogx(x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0)

    if isinstance(omega, gfy.Zero):
        return 0.0
    if isinstance(omega, gfy.SquaredNorm):
        return float(omega.gamma / 2 * p @ p)
    if isinstance(omega, gfy.Gini):
        return float(omega.gamma / 2 * p @ (p - 1))
    if isinstance(omega, gfy.BinaryGini):
        return float(omega.gamma * p @ (p - 1))
    if isinstance(omega, gfy.Shannon):
        return float(omega.gamma * xlogx(p).sum())
    if isinstance(omega, gfy.BinaryShannon):
        return float(omega.gamma * (xlogx(p) + xlogx(1 - p)).sum())
    if isinstance(omega, gfy.Tsallis):
        return float(omega.gamma * (p**omega.alpha - p).sum() / (omega.alpha * (omega.alpha - 1)))
    raise NotImplementedError(omega.name)


def maximum(network: Network, omega: Any, domain: Any) -> tuple[float, np.ndarray]:
    """The maximum as CVXPY and Clarabel find it, and its p."""
    import cvxpy as cp

    p = cp.Variable(len(network.u))
    constraints = _inside(cp, domain, p)
    z = None
    for M, b, Wz in network.layers:
        a = M @ p + b + (0 if Wz is None else Wz @ z)
        z = cp.Variable(len(b))
        constraints += [z >= a, z >= 0]
    objective = network.u @ p - network.weights @ z - _omega(cp, omega, p)
    model = cp.Problem(cp.Maximize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may say that it stopped short of 1e-12
        model.solve(solver=cp.CLARABEL, **TIGHT)
        if not np.isfinite(model.value):  # with power cones it may pass the best it can do and end in NaN
            model.solve(solver=cp.CLARABEL)
    assert model.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE), model.status
    return float(model.value) + network.constant, np.asarray(p.value)


def _omega(cp: Any, omega: Any, p: Any) -> Any:
    if isinstance(omega, gfy.Zero):
        return 0
    if isinstance(omega, gfy.SquaredNorm):
        return omega.gamma / 2 * cp.sum_squares(p)
    if isinstance(omega, gfy.Gini):
        return omega.gamma / 2 * (cp.sum_squares(p) - cp.sum(p))
    if isinstance(omega, gfy.BinaryGini):
        return omega.gamma * (cp.sum_squares(p) - cp.sum(p))
    if isinstance(omega, gfy.Shannon):
        return -omega.gamma * cp.sum(cp.entr(p))
    if isinstance(omega, gfy.BinaryShannon):
        return -omega.gamma * (cp.sum(cp.entr(p)) + cp.sum(cp.entr(1 - p)))
    if isinstance(omega, gfy.Tsallis):
        power = cp.sum(cp.power(p, omega.alpha))
        return omega.gamma * (power - cp.sum(p)) / (omega.alpha * (omega.alpha - 1))
    raise NotImplementedError(omega.name)


def _inside(cp: Any, domain: Any, p: Any) -> list[Any]:
    if isinstance(domain, gfy.Reals):
        return []
    if isinstance(domain, gfy.Box):
        return [p >= np.asarray(domain.low), p <= np.asarray(domain.high)]
    if isinstance(domain, gfy.Simplex):
        return [p >= 0, cp.sum(p) == 1]
    if isinstance(domain, gfy.CappedSimplex):
        return [p >= 0, p <= 1, cp.sum(p) == domain.k]
    if isinstance(domain, gfy.Ball):
        return [cp.norm(p) <= domain.radius]
    if isinstance(domain, gfy.Birkhoff):
        n = round(p.shape[0] ** 0.5)
        rows, columns = np.kron(np.eye(n), np.ones((1, n))), np.kron(np.ones((1, n)), np.eye(n))
        return [p >= 0, rows @ p == 1, columns @ p == 1]
    if isinstance(domain, gfy.ConvexHull):
        weights = cp.Variable(len(domain.points))
        return [weights >= 0, cp.sum(weights) == 1, p == domain.points.T @ weights]
    raise NotImplementedError(domain.name)
