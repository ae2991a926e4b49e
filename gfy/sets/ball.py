"""Define the Euclidean ball."""

from __future__ import annotations

from dataclasses import dataclass

from gfy.backend import namespace
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import clip, dot
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.sets.base import ConvexSet


@dataclass(frozen=True)
class Ball(ConvexSet):
    """Represent the Euclidean ball {p : |p| <= radius}.

    Args:
        radius: a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a radius that is not positive.

    Example:
        >>> gfy.Ball(radius=2.0).project(array([3.0, 4.0])).tolist()
        [1.2, 1.6]
    """

    radius: float = 1.0
    ball = True

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise GfyValueError(f"Ball.radius must be positive, got {self.radius!r}")

    @in_single
    def project(self, x: Array) -> Array:
        length = _length(x)
        return namespace(x).where(length > self.radius, x * (self.radius / length), x)

    @in_single
    def linear_oracle(self, scores: Array) -> Array:
        xp = namespace(scores)
        direction = scores * (self.radius / _length(scores))
        return xp.where(dot(scores, scores)[..., None] > 0, direction, xp.zeros_like(scores))

    @in_single
    def violation(self, p: Array) -> Array:
        return clip(namespace(p).sqrt(dot(p, p)) - self.radius, 0.0, float("inf"))

    def extent(self) -> tuple[float, float]:
        return -self.radius, self.radius

    def largest_norm(self, k: int) -> float:
        return float(self.radius)

    def diameter(self, k: int) -> float:
        return 2 * self.radius if k else 0.0


def _length(x: Array) -> Array:
    """Return |x| as [..., 1], with 1 where x = 0 so that a division (and its derivative) stays finite."""
    xp = namespace(x)
    square = dot(x, x)[..., None]
    return xp.sqrt(xp.where(square > 0, square, xp.ones_like(square)))
