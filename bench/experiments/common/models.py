"""Define the networks of the multilabel experiments: from an example x to the input v of an energy.

    unary-linear     u = W x + b
    unary-rectifier  u = W2 relu(W1 x + b1) + b2, min(100, d / 3) hidden units
    pairwise         as above, and A = W x + b of rank m with parameters of its own
    spen             as unary-rectifier, and a prior network on p that x does not reach
    concave-spen     the same with output weights kept positive

Parameters are a dictionary of arrays, drawn with NumPy so that both frameworks start alike.
Shapes: x [..., d] -> u [..., k], A [..., k, m].
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gfy.errors import GfyValueError

ENERGIES = ("unary-linear", "unary-rectifier", "pairwise", "spen", "concave-spen")
REGULARIZERS = ("gini", "shannon")
PRIOR_STARTS = ("concave", "zero", "signed")
Params = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """Describe a network; its numbers are kept in `Params`."""

    energy: str
    features: int
    labels: int
    rank: int = 1
    regularizer: str = "gini"
    prior_start: str = "concave"  # the shape of a SPEN's energy at first; a concave SPEN ignores it
    prior_units: int | None = None  # hidden units of the prior; None stands for min(100, k / 3)

    def __post_init__(self) -> None:
        if self.energy not in ENERGIES:
            raise GfyValueError(f"energy '{self.energy}' is not known; there are {', '.join(ENERGIES)}")
        if self.regularizer not in REGULARIZERS:
            raise GfyValueError(
                f"regularizer '{self.regularizer}' is not known; there are {', '.join(REGULARIZERS)}"
            )
        if self.rank < 1:
            raise GfyValueError(f"rank must be at least 1, {self.rank} was given")
        if self.prior_start not in PRIOR_STARTS:
            raise GfyValueError(
                f"prior_start '{self.prior_start}' is not known; there are {', '.join(PRIOR_STARTS)}"
            )

    @property
    def hidden(self) -> int:
        return max(1, min(100, self.features // 3))

    @property
    def prior_hidden(self) -> int:
        """Return the width of the prior network by the same rule; a wider one learns to reject p between 0 and 1."""
        return self.prior_units or max(1, min(100, self.labels // 3))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter; nothing is drawn, so that sizes can be checked before they are made."""
        d, k, h, m = self.features, self.labels, self.hidden, self.rank
        if self.energy == "unary-linear":
            return {"W": (d, k), "b": (k,)}
        found: dict[str, tuple[int, ...]] = {"W1": (d, h), "b1": (h,), "W2": (h, k), "b2": (k,)}
        if self.energy == "pairwise":
            found |= {"A": (d, k * m), "a": (k * m,)}
        if self.energy in ("spen", "concave-spen"):
            g = self.prior_hidden
            found |= {"P1": (g, k), "c1": (g,), "P2": (g,), "c2": ()}
        return found

    def init(self, seed: int) -> Params:
        """Draw Glorot-uniform weights and zero biases in float32."""
        rng = np.random.default_rng([seed, 2022])
        d, k, h, m = self.features, self.labels, self.hidden, self.rank

        def weights(rows: int, columns: int) -> np.ndarray:
            limit = np.sqrt(6.0 / (rows + columns))
            return rng.uniform(-limit, limit, size=(rows, columns)).astype(np.float32)

        def zeros(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.float32)

        if self.energy == "unary-linear":
            return {"W": weights(d, k), "b": zeros(k)}
        params: Params = {"W1": weights(d, h), "b1": zeros(h), "W2": weights(h, k), "b2": zeros(k)}
        if self.energy == "pairwise":
            drawn = [weights(d, k) for _ in range(m)]
            params |= {"A": np.stack(drawn, axis=-1).reshape(d, k * m), "a": zeros(k * m)}
        if self.energy in ("spen", "concave-spen"):
            g = self.prior_hidden
            last = weights(g, 1)[:, 0]
            params |= {"P1": weights(g, k), "c1": zeros(g), "P2": self._output_weights(last), "c2": zeros()}
        return params

    def _output_weights(self, drawn: np.ndarray) -> np.ndarray:
        """Return the prior's first last layer from a draw w; by default both SPENs start at softplus(w), concave in p.

        A SPEN's weights may become negative in training, and they do: y lies on corners and p* between them, so that a
        convex function is larger at y on average. From a start at zero or with both signs, the energy is not concave
        from the first step on.
        """
        if self.energy == "concave-spen" or self.prior_start == "signed":
            return drawn
        return np.zeros_like(drawn) if self.prior_start == "zero" else np.log1p(np.exp(drawn))

    def problem(self) -> Any:
        """Return the inner problem on [0, 1]^k."""
        import gfy

        energies = {"pairwise": gfy.Pairwise, "spen": gfy.Spen, "concave-spen": gfy.ConcaveSpen}
        regularizers = {"gini": gfy.BinaryGini, "shannon": gfy.BinaryShannon}
        energy = energies.get(self.energy, gfy.Bilinear)()
        return gfy.InnerProblem(energy, regularizers[self.regularizer](), gfy.Box(0.0, 1.0))

    def input(self, params: Params, x: Any) -> Any:
        """Return v for a batch x [..., d], in the framework of the arrays."""
        import gfy
        from gfy.numerics.arithmetic import relu

        if self.energy == "unary-linear":
            return gfy.Bilinear.Input(x @ params["W"] + params["b"])
        u = relu(x @ params["W1"] + params["b1"]) @ params["W2"] + params["b2"]
        if self.energy == "unary-rectifier":
            return gfy.Bilinear.Input(u)
        if self.energy == "pairwise":
            flat = x @ params["A"] + params["a"]
            return gfy.Pairwise.Input(u, flat.reshape((*flat.shape[:-1], self.labels, self.rank)))
        energy = gfy.Spen if self.energy == "spen" else gfy.ConcaveSpen
        return energy.Input(u, params["P1"], params["c1"], params["P2"], params["c2"])
