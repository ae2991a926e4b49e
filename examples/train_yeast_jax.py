"""Train the paper's pairwise energy network on yeast with JAX and optax.

    python examples/train_yeast_jax.py

The inner problem max_{p in [0,1]^k} <u, p> - 1/2 (a^T p)^2 - Omega(p) is solved exactly by a scalar Newton method;
by the envelope theorem its gradient needs no derivative of the solution. The same network in torch:
train_yeast_torch.py; both take the same steps.
"""

from __future__ import annotations

import numpy as np

import gfy
import solvers
from bench.datasets.load import load
from bench.datasets.splits import normalised
from bench.experiments.common.metrics import metrics
from bench.experiments.common.models import Model
from bench.experiments.common.training import batches


def train(
    epochs: int = 30, rate: float = 6e-4, penalty: float = 0.03, seed: int = 0, dtype: str = "float32",
    steps: int | None = None,
) -> tuple[list[float], dict[str, float]]:  # fmt: skip
    """Return the objective at every step, and the metrics on the test part."""
    import jax
    import jax.numpy as jnp
    import optax

    data, test = normalised(*(lambda d: (d.train, d.test))(load("yeast")))
    X, Y = jnp.asarray(data.X, dtype), jnp.asarray(data.Y, dtype)
    network = Model("pairwise", X.shape[1], Y.shape[1])
    params = {name: jnp.asarray(leaf, dtype) for name, leaf in network.init(seed).items()}
    loss = gfy.FenchelYoungLoss(
        gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0)),
        solver=solvers.DualNewton(),
        gradient=gfy.Envelope(),
        reduction="mean",
    )

    def objective(params: dict, x: jax.Array, y: jax.Array) -> jax.Array:
        square = sum(jnp.sum(leaf**2) for leaf in params.values())
        return loss(network.input(params, x), y) + 0.5 * penalty * square

    adam = optax.adam(rate)

    @jax.jit
    def step(params: dict, state: optax.OptState, x: jax.Array, y: jax.Array) -> tuple:
        value, slope = jax.value_and_grad(objective)(params, x, y)
        updates, state = adam.update(slope, state)
        return optax.apply_updates(params, updates), state, value

    state, curve = adam.init(params), []
    order = batches(len(X), 32, epochs, seed)
    for index in order.reshape(-1, order.shape[-1])[:steps]:
        params, state, value = step(params, state, X[index], Y[index])
        curve.append(float(value))
    P = loss.predict(network.input(params, jnp.asarray(test.X, dtype)))
    return curve, metrics(np.asarray(P), test.Y)


if __name__ == "__main__":
    curve, result = train()
    print(f"objective {curve[0]:.3f} -> {curve[-1]:.3f}")
    for name, value in result.items():
        print(f"{name:16s} {100 * value:.2f} %")
