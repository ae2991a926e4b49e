"""Define the two policies: from an observation to an energy over actions in the unit cube, and its maximiser.

Unary: p* = argmax <u(x), p> - gamma Omega(p). Pairwise adds -1/2 <a(x), p>^2, so that torques interact.
Omega is the binary Gini negentropy and gamma the paper's "scale of the energy regularization term". u is a
network with two hidden relu layers; a = W x + b is linear with parameters of its own, as in the paper's
multilabel model. Training minimises the generalized Fenchel-Young loss of the same inner problem.

Shapes: x [B, d], u and a [B, k], p [B, k]. Parameters are a dictionary of float32 arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gfy.errors import GfyValueError

MODELS = ("unary", "pairwise")
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """Describe one model of a task: its kind, the sizes of its layers and its energy scale."""

    kind: str
    observations: int
    actions: int
    hidden: int
    gamma: float

    def __post_init__(self) -> None:
        if self.kind not in MODELS:
            raise GfyValueError(f"model {self.kind!r} is not known; the models are {', '.join(MODELS)}.")
        if self.hidden < 1 or not self.gamma > 0:
            raise GfyValueError(
                f"a model needs hidden units and a positive energy scale, not {self.hidden} and {self.gamma}."
            )

    @cached_property
    def problem(self) -> Any:
        """Return the inner problem over the unit cube that both the loss and the policy solve."""
        import gfy

        energy = gfy.Pairwise() if self.kind == "pairwise" else gfy.Bilinear()
        return gfy.InnerProblem(
            energy=energy, regularizer=gfy.BinaryGini(self.gamma), domain=gfy.Box(0.0, 1.0)
        )

    @cached_property
    def solver(self) -> Any:
        import solvers

        return solvers.DualNewton() if self.kind == "pairwise" else solvers.ClosedForm()

    @cached_property
    def stop(self) -> Any:
        import gfy

        # float32 resolves no gap below about 1e-6, which a few Newton steps reach at k <= 8.
        return gfy.Stop(tol=1e-6, max_steps=30)

    def initial(self, seed: int) -> Parameters:
        """Draw Glorot-uniform weights and zero biases from this seed alone."""
        rng = np.random.default_rng([seed, 0])
        sizes = {"1": (self.observations, self.hidden), "2": (self.hidden, self.hidden)}
        sizes["3"] = (self.hidden, self.actions)
        if self.kind == "pairwise":
            sizes["a"] = (self.observations, self.actions)
        parameters = {}
        for name, (rows, columns) in sizes.items():
            limit = np.sqrt(6.0 / (rows + columns))
            parameters[f"W{name}"] = rng.uniform(-limit, limit, (rows, columns)).astype(np.float32)
            parameters[f"b{name}"] = np.zeros(columns, np.float32)
        return parameters

    def scores(self, theta: Parameters, x: Any) -> Any:
        """Return the energy's input v at the observations x."""
        import jax

        import gfy

        hidden = jax.nn.relu(x @ theta["W1"] + theta["b1"])
        hidden = jax.nn.relu(hidden @ theta["W2"] + theta["b2"])
        u = hidden @ theta["W3"] + theta["b3"]
        if self.kind == "unary":
            return gfy.Bilinear.Input(v=u)
        return gfy.Pairwise.Input(u=u, A=(x @ theta["Wa"] + theta["ba"])[..., None])

    def loss(self) -> Callable[[Parameters, Any, Any], Any]:
        """Return the mean generalized Fenchel-Young loss of a batch, with envelope gradients."""
        import jax.numpy as jnp

        import gfy

        fenchel_young = gfy.FenchelYoungLoss(
            self.problem, solver=self.solver, gradient=gfy.Envelope(), stop=self.stop
        )
        return lambda theta, x, y: jnp.mean(fenchel_young(self.scores(theta, x), y))

    def act(self, theta: Parameters, x: Any) -> Any:
        """Return the action in the unit cube at each observation, p* [B, k]."""
        import gfy

        return gfy.argmax(self.problem, self.scores(theta, x), solver=self.solver, stop=self.stop)
