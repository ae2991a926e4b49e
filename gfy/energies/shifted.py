"""Add a linear term to an energy that has no linear term of its own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gfy.energies.base import Cusp, Energy, QuadraticForm
from gfy.energies.kinks import Kinks
from gfy.numerics.arithmetic import dot
from gfy.protocols import Array


class ShiftedInput(NamedTuple):
    """Hold v, the base energy's Input, and c [..., k], the linear term."""

    v: Any
    c: Array


def _of_base(fact: str) -> Any:
    """Return a fact that a linear term does not change."""
    return property(lambda self: getattr(self.base, fact))


@dataclass(frozen=True)
class Shifted(Energy):
    """Represent Phi(v, p) + <c, p>."""

    base: Energy
    Input = ShiftedInput

    name = _of_base("name")
    concave = _of_base("concave")
    proven = _of_base("proven")
    linear = _of_base("linear")
    interactions = _of_base("interactions")
    smooth = _of_base("smooth")
    kinked = _of_base("kinked")
    is_network = _of_base("is_network")
    in_v = _of_base("in_v")
    smooth_in_v = _of_base("smooth_in_v")
    array_api = _of_base("array_api")
    explicit_hessian = _of_base("explicit_hessian")
    opaque = _of_base("opaque")

    def value(self, v: Any, p: Array) -> Array:
        return self.base.value(v.v, p) + dot(v.c, p)

    def grad_p(self, v: Any, p: Array) -> Array:
        return self.base.grad_p(v.v, p) + v.c

    def scores(self, v: Any) -> Array:
        return self.base.scores(v.v) + v.c

    def dim(self, v: Any) -> int:
        return int(v.c.shape[-1])

    def quadratic(self, v: Any) -> QuadraticForm | None:
        form = self.base.quadratic(v.v)
        return None if form is None else form._replace(u=form.u + v.c)

    def network(self, v: Any) -> Kinks | None:
        found = self.base.network(v.v)
        return None if found is None else found._replace(slope=found.slope + v.c)

    def kinks(self, v: Any, p: Array | None = None) -> Kinks | None:
        found = self.base.kinks(v.v, p)
        return None if found is None else found._replace(slope=found.slope + v.c)

    def cusp(self, v: Any) -> Cusp | None:
        found = self.base.cusp(v.v)
        return None if found is None else found._replace(slope=found.slope + v.c)

    def hessian_product(self, v: Any, p: Array, x: Array) -> Array:
        return self.base.hessian_product(v.v, p, x)

    def smoothness(self, v: Any) -> Array | None:
        return self.base.smoothness(v.v)

    def concavity_violation(self, v: Any) -> str | None:
        return self.base.concavity_violation(v.v)

    def batch_shape(self, v: Any) -> tuple[int, ...]:
        return tuple(v.c.shape[:-1])

    def axes(self, v: Any) -> Any:
        return ShiftedInput(self.base.axes(v.v), v.c.ndim - 1)

    def sized(self, k: int) -> Energy:
        return Shifted(self.base.sized(k))

    def closed(self, v: Any, p: Array | None) -> tuple[Energy, Any, Hashable]:
        base, inner, program = self.base.closed(v.v, p)
        return Shifted(base), ShiftedInput(inner, v.c), program

    def computed_in(self, dtype: str, v: Any) -> Energy:
        return Shifted(self.base.computed_in(dtype, v.v))

    def check(self, v: Any) -> None:
        self.base.check(v.v)
