"""The energies of the paper's Table 1, for one example, from their formulas: in NumPy and as CVXPY expressions.

A kink (relu, a maximum, an absolute value) is written with further variables t and linear constraints, so that
`phi` is smooth in (p, t) and g(p, t) <= 0 holds the kinks. p and t may carry leading axes and may be complex.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

Leaves = dict[str, np.ndarray]


def dot(a: Any, b: Any) -> Any:
    return (a * b).sum(-1)


def softplus(z: Any) -> Any:
    z = np.asarray(z)
    large = z.real > 0
    return np.where(large, z, 0) + np.log1p(np.exp(np.where(large, -z, z)))


class Formula:
    """Phi(v, p) = max over t of phi(v, p, t) subject to kinks(v, p, t) <= 0."""

    concave: bool = True

    def extra(self, v: Leaves) -> int:
        """The number of further variables t."""
        return 0

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        raise NotImplementedError

    def kinks(self, v: Leaves, p: Any, t: Any) -> list[Any]:
        """Arrays [..., n] that must not be positive."""
        return []

    def lift(self, v: Leaves, p: np.ndarray) -> np.ndarray:
        """The best t for p."""
        return np.zeros(0)

    def value(self, v: Leaves, p: np.ndarray) -> float:
        """Phi(v, p)."""
        return float(self.phi(v, p, self.lift(v, p)))

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        """Phi as a concave CVXPY expression, its constraints, and the expression of t (None without one)."""
        raise NotImplementedError

    def smooth_in_v(self, v: Leaves) -> float:
        """How far v is from a point where Phi itself is not differentiable in v."""
        return np.inf


@dataclass
class Scores(Formula):
    """<scores(v), p>; `scores` is a function of the leaf v."""

    scores: Any
    margin: Any = None

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        return dot(self.scores(v["v"]), p)

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        return self.scores(v["v"]) @ p, [], None

    def smooth_in_v(self, v: Leaves) -> float:
        return np.inf if self.margin is None else float(self.margin(v["v"]))


def gap_to_second(v: np.ndarray) -> float:
    """How far the largest coordinate is from the second, as a maximum's kink."""
    ordered = np.sort(v)
    return float(ordered[-1] - ordered[-2])


@dataclass
class Quadratic(Formula):
    """<u, p> + <p, U p> / 2."""

    concave: bool = True

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        return dot(v["u"], p) + dot(p, p @ v["U"]) / 2

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        root = np.linalg.cholesky(-v["U"])  # the walk's U are negative definite
        return v["u"] @ p - cp.sum_squares(root.T @ p) / 2, [], None


class LowRank(Formula):
    """<u, p> - |A^T p|^2 / 2."""

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        across = p @ v["A"]
        return dot(v["u"], p) - dot(across, across) / 2

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        return v["u"] @ p - cp.sum_squares(v["A"].T @ p) / 2, [], None


class Euclidean(Formula):
    """-|p - v|: smooth where p is not v; at p = v the reference keeps p there (`pinned`)."""

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        apart = p - v["v"]
        return -np.sqrt(dot(apart, apart))

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        return -cp.norm(p - v["v"], 2), [], None


class Manhattan(Formula):
    """-sum |p - v|: t >= p - v and t >= v - p."""

    def extra(self, v: Leaves) -> int:
        return len(v["v"])

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        return -t.sum(-1)

    def kinks(self, v: Leaves, p: Any, t: Any) -> list[Any]:
        return [p - v["v"] - t, v["v"] - p - t]

    def lift(self, v: Leaves, p: np.ndarray) -> np.ndarray:
        return np.abs(p - v["v"])

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        t = cp.abs(p - v["v"])
        return -cp.sum(t), [], t


@dataclass
class Prior(Formula):
    """<u, p> - <w, sigma(W1 p + b1)> - b2 with w = softplus(W2) (concave) or W2 itself.

    A relu unit with a negative weight is convex: near a local maximum it is linear, with the slope it has at `near`.
    """

    activation: str
    concave: bool = True
    near: np.ndarray | None = field(default=None)

    def _weights(self, v: Leaves) -> np.ndarray:
        return softplus(v["W2"]) if self.concave else v["W2"]

    def _kinked(self, v: Leaves) -> np.ndarray:
        return (self._weights(v) >= 0) & (self.activation == "relu")

    def _hidden(self, v: Leaves, p: Any) -> Any:
        return p @ v["W1"].T + v["b1"]

    def extra(self, v: Leaves) -> int:
        return int(self._kinked(v).sum())

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        w, z, kinked = self._weights(v), self._hidden(v, p), self._kinked(v)
        value = dot(v["u"], p) - v["b2"]
        if self.activation == "softplus":
            return value - dot(w, softplus(z))
        if not kinked.all():
            assert self.near is not None
            on = (self._hidden(v, self.near) > 0) & ~kinked
            value = value - dot((w * on)[~kinked], z[..., ~kinked])
        return value - dot(w[kinked], t)

    def kinks(self, v: Leaves, p: Any, t: Any) -> list[Any]:
        if self.activation == "softplus":
            return []
        kinked = self._kinked(v)
        return [self._hidden(v, p)[..., kinked] - t, -t]

    def lift(self, v: Leaves, p: np.ndarray) -> np.ndarray:
        return np.maximum(self._hidden(v, p)[self._kinked(v)], 0)

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        w, z = self._weights(v), v["W1"] @ p + v["b1"]
        t = cp.pos(z) if self.activation == "relu" else cp.logistic(z)
        return v["u"] @ p - w @ t - v["b2"], [], t if self.activation == "relu" else None


@dataclass
class ConvexNetwork(Formula):
    """<u, p> - <softplus(wz), sigma(softplus(Wz) sigma(W0 p + b0) + Wp p + b1)>."""

    activation: str

    def extra(self, v: Leaves) -> int:
        return len(v["b0"]) + len(v["b1"]) if self.activation == "relu" else 0

    def _layers(self, v: Leaves, p: Any, sigma: Any) -> tuple[Any, Any]:
        first = sigma(p @ v["W0"].T + v["b0"])
        return first, sigma(first @ softplus(v["Wz"]).T + p @ v["Wp"].T + v["b1"])

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        if self.activation == "relu":
            return dot(v["u"], p) - dot(softplus(v["wz"]), t[..., len(v["b0"]) :])
        return dot(v["u"], p) - dot(softplus(v["wz"]), self._layers(v, p, softplus)[1])

    def kinks(self, v: Leaves, p: Any, t: Any) -> list[Any]:
        if self.activation != "relu":
            return []
        first, second = t[..., : len(v["b0"])], t[..., len(v["b0"]) :]
        inner = first @ softplus(v["Wz"]).T + p @ v["Wp"].T + v["b1"]
        return [p @ v["W0"].T + v["b0"] - first, -first, inner - second, -second]

    def lift(self, v: Leaves, p: np.ndarray) -> np.ndarray:
        if self.activation != "relu":
            return np.zeros(0)
        return np.concatenate(self._layers(v, p, lambda z: np.maximum(z, 0)))

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        sigma = cp.pos if self.activation == "relu" else cp.logistic
        first = sigma(v["W0"] @ p + v["b0"])
        second = sigma(softplus(v["Wz"]) @ first + v["Wp"] @ p + v["b1"])
        value = v["u"] @ p - softplus(v["wz"]) @ second
        return value, [], cp.hstack([first, second]) if self.activation == "relu" else None


class Handwritten(Formula):
    """What the user's functions of the walk compute: <u, p> - sum softplus(W p + b) - |p|^2 / 4."""

    def phi(self, v: Leaves, p: Any, t: Any) -> Any:
        z = p @ v["W"].T + v["b"] if "W" in v else p
        return dot(v["u"], p) - softplus(z).sum(-1) - dot(p, p) / 4

    def model(self, v: Leaves, p: Any) -> tuple[Any, list[Any], Any]:
        z = v["W"] @ p + v["b"] if "W" in v else p
        return v["u"] @ p - cp.sum(cp.logistic(z)) - cp.sum_squares(p) / 4, [], None
