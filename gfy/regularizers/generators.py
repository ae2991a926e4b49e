"""Define the convex functions f of f-divergences sum_j q_j f(p_j / q_j): f, f', its inverse and 1 / f'', elementwise.

All have f(1) = f'(1) = 0. The alpha family c (u^alpha - 1 - alpha (u - 1)) / (alpha (alpha - 1)) holds all of them
but Jensen-Shannon's. Its members alpha = 1 and alpha = 0 are limits, and no formula below divides by a number that
vanishes near them.

f' is bounded on one side: from below by f'(0) where alpha > 1, and from above (where the inverse has a pole) where
alpha < 1 and for Jensen-Shannon's. Near that end f'(u) = s is a small difference of large numbers. Where only
differences of s matter, because sum p is fixed, `from_end()` measures s from that end, and nothing cancels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from gfy.backend import namespace
from gfy.numerics.arithmetic import xlogx
from gfy.protocols import Array

# For an |alpha - 1| below this, f' is nearly a logarithm and is always measured from f'(1).
_FLAT = 0.25


class Generator(Protocol):
    """Define f, elementwise, for u >= 0."""

    def __hash__(self) -> int: ...

    @property
    def end(self) -> float:
        """Return the value from which s is measured: s = f'(u) - end."""
        ...

    @property
    def size(self) -> float:
        """Return the size of the constants in f' and in its inverse."""
        ...

    def from_end(self) -> Generator:
        """Return this generator with s measured from the finite end of f'."""
        ...

    def value(self, u: Array) -> Array:
        """Return f(u), which is infinite at 0 where f is."""
        ...

    def slope(self, u: Array) -> Array:
        """Return s = f'(u) - end, which is infinite at 0 where f' is."""
        ...

    def inverse(self, s: Array) -> Array:
        """Return u with slope(u) = s; it is 0 below the slopes of f and infinite above them."""
        ...

    def flatness(self, u: Array) -> Array:
        """Return 1 / f''(u)."""
        ...

    def rise(self, w: Array, share: Array) -> Array:
        """Return f(u) - f(w) - f'(w) (u - w) for u = (1 + share) w, |share| <= 1/2, w > 0, to a few eps of |u - w|."""
        ...


@dataclass(frozen=True)
class Power:
    """Represent the alpha family: kl (alpha = 1), reverse kl (0), chi-square (2), squared Hellinger (1/2,
    scale 1/2)."""

    alpha: float
    scale: float = 1.0
    ended: bool = False

    @property
    def end(self) -> float:
        return -self.scale / (self.alpha - 1) if self.ended else 0.0

    @property
    def size(self) -> float:
        return self.scale / max(abs(self.alpha - 1), _FLAT)

    def from_end(self) -> Power:
        return replace(self, ended=abs(self.alpha - 1) >= _FLAT)

    def value(self, u: Array) -> Array:
        if self.alpha >= 0.5:
            # u box_cox(u) is 0 at u = 0, whatever box_cox gives there.
            found = (_times(u, box_cox(u, self.alpha - 1)) - (u - 1)) / self.alpha
        else:
            found = ((u - 1) - box_cox(u, self.alpha)) / (1 - self.alpha)
        return self.scale * found

    def slope(self, u: Array) -> Array:
        b = self.alpha - 1
        if not self.ended:
            return self.scale * box_cox(u, b)
        return self.scale * (power(u, b, 0.0 if b > 0 else math.inf) / b)

    def inverse(self, s: Array) -> Array:
        xp = namespace(s)
        b, t = self.alpha - 1, s / self.scale
        if b == 0:
            return xp.exp(t)
        if abs(b) < _FLAT:
            sound = b * t > -1
            u = xp.exp(xp.log1p(xp.where(sound, b * t, xp.zeros_like(t))) / b)
            return xp.where(sound, u, xp.full_like(u, 0.0 if b > 0 else math.inf))
        return power(b * t if self.ended else 1 + b * t, 1 / b, 0.0 if b > 0 else math.inf)

    def flatness(self, u: Array) -> Array:
        b = 2 - self.alpha
        return power(u, b, 0.0 if b > 0 else (1.0 if b == 0 else math.inf)) / self.scale

    def rise(self, w: Array, share: Array) -> Array:
        return power(w, self.alpha, 1.0) * self.value(1 + share) if self.alpha else self.value(1 + share)


@dataclass(frozen=True)
class JensenShannon:
    """Represent f(u) = u log u - (u + 1) log((u + 1) / 2)."""

    ended: bool = False

    @property
    def end(self) -> float:
        return math.log(2.0) if self.ended else 0.0

    @property
    def size(self) -> float:
        return 1.0

    def from_end(self) -> JensenShannon:
        return JensenShannon(True)

    def value(self, u: Array) -> Array:
        return xlogx(u) - (u + 1) * namespace(u).log1p((u - 1) / 2)

    def slope(self, u: Array) -> Array:
        """Return -log(1 + 1 / u), plus log 2 where it is measured from f'(1)."""
        xp = namespace(u)
        one = xp.ones_like(u)
        small, large = (xp.where((u > 0) & (u < 1), u, one), xp.where(u < 1, one, u))
        found = xp.where(u < 1, xp.log(small) - xp.log1p(small), -xp.log1p(1 / large))
        found = found if self.ended else found + math.log(2.0)
        return xp.where(u > 0, found, xp.full_like(u, -math.inf))

    def inverse(self, s: Array) -> Array:
        xp = namespace(s)
        t = s if self.ended else s - math.log(2.0)
        sound = t < 0
        safe = xp.where(sound, t, -xp.ones_like(t))
        return xp.where(sound, xp.exp(safe) / -xp.expm1(safe), xp.full_like(t, math.inf))

    def flatness(self, u: Array) -> Array:
        return u * (1 + u)

    def rise(self, w: Array, share: Array) -> Array:
        xp = namespace(w)
        u = (1 + share) * w
        return u * xp.log1p(share) - (u + 1) * xp.log1p(w * share / (w + 1))


def box_cox(u: Array, b: float) -> Array:
    """Return (u^b - 1) / b (log u for b = 0) without cancellation near u = 1 or b = 0; at u = 0 its limit."""
    xp = namespace(u)
    positive = u > 0
    safe = xp.where(positive, u, xp.ones_like(u))
    if b == 1:
        return u - 1
    found = xp.log(safe) if b == 0 else xp.expm1(b * xp.log(safe)) / b
    return xp.where(positive, found, xp.full_like(u, -1 / b if b > 0 else -math.inf))


def power(x: Array, exponent: float, at_zero: float) -> Array:
    """Return x^exponent for x > 0 and `at_zero` elsewhere; the derivative recorded there is finite (0)."""
    xp = namespace(x)
    if exponent == 1 and at_zero == 0:
        return xp.where(x > 0, x, xp.zeros_like(x))
    safe = xp.where(x > 0, x, xp.ones_like(x))
    if exponent == 2:
        found = safe * safe
    elif exponent == 0.5:
        found = xp.sqrt(safe)
    elif exponent == -1:
        found = 1 / safe
    elif exponent == -2:
        found = 1 / (safe * safe)
    else:
        found = safe**exponent
    return xp.where(x > 0, found, xp.full_like(x, at_zero))


def _times(u: Array, x: Array) -> Array:
    """Return u x, with 0 where u is 0."""
    xp = namespace(u)
    return xp.where(u > 0, u * xp.where(u > 0, x, xp.zeros_like(x)), xp.zeros_like(u))
