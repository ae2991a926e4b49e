"""The sets and regularizers from their formulas, for one example: in NumPy and in CVXPY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import nnls


@dataclass
class Region:
    """{p : low <= p <= high, E p = e, |p| <= radius}, or the hull of `points` (weights w are further variables)."""

    k: int
    low: Any = None
    high: Any = None
    E: np.ndarray | None = None
    e: np.ndarray | None = None
    radius: float | None = None
    points: np.ndarray | None = None

    @property
    def extra(self) -> int:
        return 0 if self.points is None else len(self.points)

    @property
    def whole(self) -> bool:
        """Whether there is no condition at all."""
        return all(x is None for x in (self.low, self.high, self.E, self.radius, self.points))

    def inequalities(self, p: Any, w: Any) -> list[Any]:
        """Arrays [..., n] that must not be positive."""
        found = []
        if self.low is not None:
            found.append(np.broadcast_to(self.low, (self.k,)) - p)
        if self.high is not None:
            found.append(p - np.broadcast_to(self.high, (self.k,)))
        if self.radius is not None:
            found.append(((p * p).sum(-1) - self.radius**2)[..., None] / (2 * self.radius))
        if self.points is not None:
            found.append(-w)
        return found

    def equalities(self, p: Any, w: Any) -> list[Any]:
        """Arrays [..., n] that must be zero."""
        if self.points is not None:
            return [p - w @ self.points, w.sum(-1)[..., None] - 1]
        return [] if self.E is None else [p @ self.E.T - self.e]

    def lift(self, p: np.ndarray) -> np.ndarray:
        """The weights of p on the points."""
        if self.points is None:
            return np.zeros(0)
        rows = np.vstack([self.points.T, np.ones(len(self.points))])
        return nnls(rows, np.append(p, 1.0))[0]

    def model(self, p: Any) -> tuple[list[Any], Any]:
        """CVXPY constraints, and the variable of the weights (None without one)."""
        if self.points is not None:
            w = cp.Variable(len(self.points), nonneg=True)
            return [cp.sum(w) == 1, p == self.points.T @ w], w
        found = []
        if self.low is not None:
            found.append(p >= self.low)
        if self.high is not None:
            found.append(p <= self.high)
        if self.E is not None:
            found.append(self.E @ p == self.e)
        if self.radius is not None:
            found.append(cp.norm(p, 2) <= self.radius)
        return found, None

    def violation(self, p: np.ndarray) -> float:
        w = self.lift(p)
        parts = [np.maximum(x, 0) for x in self.inequalities(p, w)] + [
            np.abs(x) for x in self.equalities(p, w)
        ]
        return max((float(x.max()) for x in parts), default=0.0)


@dataclass
class Omega:
    """A regularizer by name: "norm", "gini", "binary-gini", "shannon", "binary-shannon", "tsallis", "zero",
    "jensen-shannon" or "reverse-kl" (the divergences from the same number q in every coordinate)."""

    kind: str
    gamma: float = 1.0
    alpha: float = 1.5
    prior: float = 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Where it is defined and its derivatives finite inside."""
        if self.kind in ("shannon", "tsallis", "jensen-shannon", "reverse-kl"):
            return 0.0, np.inf
        return (0.0, 1.0) if self.kind == "binary-shannon" else (-np.inf, np.inf)

    @property
    def inside(self) -> bool:
        """Whether its slope is infinite at its bounds, so that p* is inside them."""
        return self.kind in ("shannon", "binary-shannon", "jensen-shannon", "reverse-kl")

    def value(self, p: Any) -> Any:
        g = self.gamma
        if self.kind == "zero":
            return 0 * p.sum(-1)
        if self.kind == "norm":
            return g / 2 * (p * p).sum(-1)
        if self.kind in ("gini", "binary-gini"):
            return (g / 2 if self.kind == "gini" else g) * (p * (p - 1)).sum(-1)
        if self.kind == "shannon":
            return g * _xlogx(p).sum(-1)
        if self.kind == "binary-shannon":
            return g * (_xlogx(p) + _xlogx(1 - p)).sum(-1)
        q = self.prior
        if self.kind == "jensen-shannon":
            middle = (p + q) / 2
            return g * (_xlogx(p) - (p + q) * np.log(middle) + q * np.log(q)).sum(-1)
        if self.kind == "reverse-kl":
            return g * (p - q - q * np.log(p / q)).sum(-1)
        positive = p.real > 0
        power = np.where(positive, np.where(positive, p, 1) ** self.alpha, 0)
        return g / (self.alpha * (self.alpha - 1)) * (power - p).sum(-1)

    def model(self, p: Any) -> Any:
        g = self.gamma
        if self.kind == "zero":
            return 0
        if self.kind == "norm":
            return g / 2 * cp.sum_squares(p)
        if self.kind in ("gini", "binary-gini"):
            return (g / 2 if self.kind == "gini" else g) * (cp.sum_squares(p) - cp.sum(p))
        if self.kind == "shannon":
            return -g * cp.sum(cp.entr(p))
        if self.kind == "binary-shannon":
            return -g * cp.sum(cp.entr(p) + cp.entr(1 - p))
        q = self.prior
        if self.kind == "jensen-shannon":
            return g * cp.sum(cp.kl_div(p, (p + q) / 2) + cp.kl_div(q, (p + q) / 2))
        if self.kind == "reverse-kl":
            return g * cp.sum(p - q - q * cp.log(p) + q * np.log(q))
        return g / (self.alpha * (self.alpha - 1)) * (cp.sum(cp.power(p, self.alpha)) - cp.sum(p))


def _xlogx(p: Any) -> Any:
    p = np.asarray(p)
    positive = p.real > 0
    return np.where(positive, p * np.log(np.where(positive, p, 1)), 0)
