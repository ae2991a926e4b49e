"""Compute the map of an f-divergence on the simplex by a fixed number of bisections: what a user writes in 15 lines."""

from __future__ import annotations

from typing import Any

from gfy.backend import backend_of

NAMES = ("jensen-shannon", "reverse-kl", "alpha-1.5")


def bisected(theta: Any, prior: Any, f: str, halvings: int) -> Any:
    """Return p [..., k] with p_j = q_j (f')^-1(theta_j - tau), tau after so many halvings of a bracket of its own.

    f' is written without its constant, which tau takes up. There is no stopping rule: each halving costs the same.

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
