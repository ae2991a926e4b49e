"""Define energies with a prior network on p: structured prediction energy networks and input-convex networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from gfy.backend import namespace
from gfy.energies.base import Energy, agree
from gfy.energies.kinks import Kinks, Layer
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot, matvec, relu, sigmoid, softplus, transpose
from gfy.protocols import Array


class SpenInput(NamedTuple):
    """Hold u [..., k] and the prior network's W1 [..., h, k], b1 [..., h], W2 [..., h], b2 [...]; any may be shared."""

    u: Array
    W1: Array
    b1: Array
    W2: Array
    b2: Array


class IcnnInput(NamedTuple):
    """Hold u [..., k]; W0 [..., h, k], b0 [..., h]; Wz [..., g, h], Wp [..., g, k], b1 [..., g]; wz [..., g].

    Wz and wz pass through a softplus, so the network is convex in p for all their values.
    """

    u: Array
    W0: Array
    b0: Array
    Wz: Array
    Wp: Array
    b1: Array
    wz: Array


class Activation:
    """Represent a convex, non-decreasing scalar function chosen by name, and its first two derivatives."""

    activation: str

    def __post_init__(self) -> None:
        if self.activation not in ("relu", "softplus"):
            raise GfyValueError(f'activation must be "relu" or "softplus", got {self.activation!r}')

    @property
    def smooth(self) -> bool:
        return self.activation == "softplus"

    @property
    def kinked(self) -> bool:
        return self.activation == "relu"

    def sigma(self, z: Array) -> Array:
        return relu(z) if self.activation == "relu" else softplus(z)

    def slope(self, z: Array) -> Array:
        return namespace(z).astype(z > 0, z.dtype) if self.activation == "relu" else sigmoid(z)

    def bend(self, z: Array) -> Array:
        return namespace(z).zeros_like(z) if self.activation == "relu" else sigmoid(z) * sigmoid(-z)


@dataclass(frozen=True)
class Spen(Activation, Energy):  # type: ignore[misc, override]
    """Represent the network energy (SPEN) Phi(v, p) = <u, p> - (<W2, sigma(W1 p + b1)> + b2), not concave in p.

    The prior network has the weights W1 [..., h, k], b1 [..., h], W2 [..., h] and b2 [...]; u is [..., k]. With
    "relu" a local maximum may lie on kinks of the units whose W2 is positive. The kinks of the other units bend
    upwards, and no local maximum lies on them. At a local maximum the derivative of the value in (W1, b1, W2) uses
    the multipliers of the kinks on which it lies (see `gfy.energies.kinks`), and the tangents of the other units. At
    any other point there are no such multipliers, and the derivative is not valid. Gradient steps may end at such a
    point, because they stall at kinks, so read `converged`. `DualNewton` ends at a local maximum.

    Args:
        activation: "relu" (the default) or "softplus".

    Raises:
        GfyValueError: for an activation that is not known.

    Reference: Belanger and McCallum (2016); Blondel et al. (2022), Section 6 and Table 1.

    Example:
        >>> v = gfy.Spen.Input(
        ...     u=array([0.5, 0.0]), W1=array([[1.0, -1.0]]), b1=array([0.0]), W2=array([0.2]), b2=array(0.0)
        ... )
        >>> gfy.Spen().value(v, array([1.0, 0.5])).item()  # 0.5 - 0.2 * relu(0.5)
        0.4
    """

    activation: str = "relu"
    concave = False
    in_v = "nonconvex"
    Input = SpenInput
    ranks = {"u": 1, "W1": 2, "b1": 1, "W2": 1, "b2": 0}
    explicit_hessian = True

    def weights(self, v: Any) -> Array:
        """Return the output weights of the prior network, [..., h]."""
        return v.W2

    def hidden(self, v: Any, p: Array) -> Array:
        """Return W1 p + b1, [..., h]."""
        return matvec(v.W1, p) + v.b1

    def value(self, v: Any, p: Array) -> Array:
        return dot(v.u, p) - dot(self.weights(v), self.sigma(self.hidden(v, p))) - v.b2

    def grad_p(self, v: Any, p: Array) -> Array:
        return v.u - matvec(transpose(v.W1), self.weights(v) * self.slope(self.hidden(v, p)))

    def hessian_product(self, v: Any, p: Array, x: Array) -> Array:
        bend = self.weights(v) * self.bend(self.hidden(v, p))
        return -matvec(transpose(v.W1), bend * matvec(v.W1, x))

    def network(self, v: Any) -> Kinks | None:
        return Kinks(v.u, -v.b2, (Layer(v.W1, v.b1),), self.weights(v)) if self.is_network else None

    def kinks(self, v: Any, p: Array | None = None) -> Kinks | None:
        if not self.kinked:
            return None
        weights = self.weights(v)
        if self.concave:
            return self.network(v)
        upwards = (weights - relu(weights)) * self.slope(self.hidden(v, p))
        slope = v.u - matvec(transpose(v.W1), upwards)
        return Kinks(slope, -v.b2 - dot(upwards, v.b1), (Layer(v.W1, v.b1),), relu(weights))

    def smoothness(self, v: Any) -> Array | None:
        if self.activation == "relu":
            return None
        xp = namespace(v.u)
        return 0.25 * (xp.abs(self.weights(v)) * (v.W1 * v.W1).sum(-1)).sum(-1)

    def dim(self, v: Any) -> int:
        return int(v.u.shape[-1])

    def _check_sizes(self, v: Any) -> None:
        agree(self.name, k=("u's last axis", v.u.shape[-1]), w=("W1's columns", v.W1.shape[-1]))
        agree(self.name, h=("W1's rows", v.W1.shape[-2]), b=("b1", v.b1.shape[-1]), w=("W2", v.W2.shape[-1]))


@dataclass(frozen=True)
class ConcaveSpen(Spen):
    """Represent the input-concave SPEN: W2 passes through a softplus, so that Phi is concave in p.

    Phi(v, p) = <u, p> - (<softplus(W2), sigma(W1 p + b1)> + b2), with u [..., k], W1 [..., h, k], b1 [..., h], W2
    [..., h] and b2 [...]. With "relu" Phi has kinks, and p* often lies on some of them. The maximum is then a saddle
    point between p and multipliers of the hidden units (see `gfy.energies.kinks`). `DualNewton` solves for both, and
    the certificate uses the bound of the best multipliers. Gradients are those at the saddle point, which are right
    wherever the multipliers are unique.

    Args:
        activation: "relu" (the default) or "softplus".

    Raises:
        GfyValueError: for an activation that is not known.

    Reference: Blondel et al. (2022), Section 6 and Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.ConcaveSpen(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.ConcaveSpen.Input(
        ...     u=array([0.5, 0.0]), W1=array([[1.0, -1.0]]), b1=array([0.0]), W2=array([0.2]), b2=array(0.0)
        ... )
        >>> gfy.argmax(problem, v).tolist()  # W1 p + b1 = 0: p* lies on the kink
        [0.625, 0.625]
    """

    concave = True
    proven = True
    is_network = True

    def weights(self, v: Any) -> Array:
        return softplus(v.W2)


@dataclass(frozen=True)
class InputConvexNetwork(Activation, Energy):  # type: ignore[misc, override]
    """Represent Phi(v, p) = <u, p> minus a two-layer network convex in p; Phi is concave in p, not convex in v.

    Phi = <u, p> - <softplus(wz), sigma(softplus(Wz) sigma(W0 p + b0) + Wp p + b1)>, with u [..., k], W0 [..., h, k],
    b0 [..., h], Wz [..., g, h], Wp [..., g, k], b1 [..., g] and wz [..., g]. With "relu" it has kinks. Their
    multipliers serve to solve, certify and differentiate the problem, as for `ConcaveSpen`.

    Args:
        activation: "softplus" (the default) or "relu".

    Raises:
        GfyValueError: for an activation that is not known.

    Reference: Amos et al. (2017); Blondel et al. (2022), Table 1.

    Example:
        >>> problem = gfy.InnerProblem(gfy.InputConvexNetwork(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> one, row = array([0.0]), array([[1.0, -1.0]])
        >>> v = gfy.InputConvexNetwork.Input(
        ...     u=array([0.5, 0.0]), W0=row, b0=one, Wz=array([[0.0]]), Wp=row, b1=one, wz=one
        ... )
        >>> gfy.argmax(problem, v).tolist()
        [0.505, 0.745]
    """

    activation: str = "softplus"
    proven = True
    is_network = True
    in_v = "nonconvex"
    Input = IcnnInput
    ranks = {"u": 1, "W0": 2, "b0": 1, "Wz": 2, "Wp": 2, "b1": 1, "wz": 1}

    def layers(self, v: Any, p: Array) -> tuple[Array, Array]:
        """Return the two pre-activations, [..., h] and [..., g]."""
        first = matvec(v.W0, p) + v.b0
        return first, matvec(softplus(v.Wz), self.sigma(first)) + matvec(v.Wp, p) + v.b1

    def value(self, v: Any, p: Array) -> Array:
        _, second = self.layers(v, p)
        return dot(v.u, p) - dot(softplus(v.wz), self.sigma(second))

    def grad_p(self, v: Any, p: Array) -> Array:
        first, second = self.layers(v, p)
        outer = softplus(v.wz) * self.slope(second)
        inner = matvec(transpose(softplus(v.Wz)), outer) * self.slope(first)
        return v.u - matvec(transpose(v.W0), inner) - matvec(transpose(v.Wp), outer)

    def network(self, v: Any) -> Kinks:
        layers = (Layer(v.W0, v.b0), Layer(v.Wp, v.b1, softplus(v.Wz)))
        return Kinks(v.u, 0 * v.u.sum(-1), layers, softplus(v.wz))

    def kinks(self, v: Any, p: Array | None = None) -> Kinks | None:
        return self.network(v) if self.kinked else None

    def dim(self, v: Any) -> int:
        return int(v.u.shape[-1])

    def smoothness(self, v: Any) -> Array | None:
        """Bound both curvature terms by the row norms of the layers; the bound is not tight."""
        if self.activation == "relu":
            return None
        xp = namespace(v.u)
        weight, inner = softplus(v.wz), softplus(v.Wz)
        rows0 = xp.sqrt((v.W0 * v.W0).sum(-1))
        rows1 = matvec(inner, rows0) + xp.sqrt((v.Wp * v.Wp).sum(-1))
        return 0.25 * (weight * (rows1 * rows1 + matvec(inner, rows0 * rows0))).sum(-1)

    def _check_sizes(self, v: Any) -> None:
        agree(
            self.name,
            k=("u's last axis", v.u.shape[-1]),
            w=("W0's columns", v.W0.shape[-1]),
            p=("Wp's columns", v.Wp.shape[-1]),
        )
        agree(
            self.name,
            h=("W0's rows", v.W0.shape[-2]),
            b=("b0", v.b0.shape[-1]),
            z=("Wz's columns", v.Wz.shape[-1]),
        )
        agree(
            self.name,
            g=("Wz's rows", v.Wz.shape[-2]),
            p=("Wp's rows", v.Wp.shape[-2]),
            b=("b1", v.b1.shape[-1]),
            z=("wz", v.wz.shape[-1]),
        )
