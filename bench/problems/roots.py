"""Make problems with an f-divergence on the simplex, and solve them by a fixed number of bisections.

A user can write this bisection in 15 lines; the bracketed Newton root of this library is compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import gfy
from gfy.backend import backend_of

NAMES = ("jensen-shannon", "reverse-kl", "alpha-1.5")


@dataclass(frozen=True)
class Setting:
    """Hold a divergence, a size and a framework; the prior falls like 1 / j, the scores are standard normal."""

    f: str
    k: int
    batch: int
    backend: str

    @property
    def prior(self) -> np.ndarray:
        weights = 1.0 / np.arange(1.0, self.k + 1.0)
        return np.asarray(weights / weights.sum())

    @property
    def theta(self) -> np.ndarray:
        return np.random.default_rng(0).normal(size=(self.batch, self.k))

    @property
    def problem(self) -> gfy.InnerProblem:
        name, _, alpha = self.f.partition("-") if self.f.startswith("alpha") else (self.f, "", "")
        omega = gfy.FDivergence(name, self.prior, alpha=float(alpha) if alpha else None)
        return gfy.InnerProblem(gfy.Bilinear(), omega, gfy.Simplex())


def bisected(theta: Any, prior: Any, f: str, halvings: int) -> Any:
    """Return p [..., k] with p_j = q_j (f')^-1(theta_j - tau), tau after so many halvings of a bracket of its own.

    f' is written without its additive constant, which becomes a part of tau. There is no stopping rule, so that every
    call takes the same number of steps.

    Args:
        theta: Scores, [..., k].
        prior: q, [k].
        f: One of `NAMES`.
        halvings: How often the bracket is halved.

    Returns:
        p, whose sum is 1 as far as the last bracket says.

    Example:
        >>> p = bisected(theta, prior, "reverse-kl", 50)
    """
    backend = backend_of(theta)
    xp = backend.xp

    def p(tau: Any) -> Any:
        s = theta - tau
        if f == "jensen-shannon":
            return prior / xp.expm1(-xp.minimum(s, s * 0 - 1e-300))
        if f == "reverse-kl":
            return prior / -xp.minimum(s, s * 0 - 1e-300)
        return prior * (xp.maximum(s, s * 0) / 2) ** 2

    def slope(x: Any) -> Any:
        u = x / prior
        return -xp.log1p(1 / u) if f == "jensen-shannon" else -1 / u if f == "reverse-kl" else 2 * xp.sqrt(u)

    def halve(ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = (low + high) / 2
        over = xp.sum(p(middle), axis=-1)[..., None] > 1
        return xp.where(over, middle, low), xp.where(over, high, middle)

    low = xp.max(theta - slope(1 + 0 * theta), axis=-1)[..., None]
    high = xp.max(theta - slope(0 * theta + 1 / theta.shape[-1]), axis=-1)[..., None]
    low, high = backend.scan(halve, (low, high), halvings)
    return p((low + high) / 2)
