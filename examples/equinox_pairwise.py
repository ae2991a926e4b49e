"""Train a pairwise energy network with equinox and optax on labels that depend on each other.

The network is written for one example and vmapped; the loss takes the whole batch, so that the inner solver can stop
each example by itself.
"""

from __future__ import annotations

import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import gfy
import solvers
from bench.datasets.synthetic import correlated

EPOCHS = 30 if os.environ.get("GFY_QUICK") == "1" else 300
PROBLEM = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
LOSS = gfy.FenchelYoungLoss(PROBLEM, solver=solvers.DualNewton(), gradient=gfy.Envelope(), reduction="mean")


class Network(eqx.Module):
    """Compute u = W x + b and A = V x + c, an Input of the pairwise energy."""

    scores: eqx.nn.Linear
    factor: eqx.nn.Linear

    def __init__(self, features: int, labels: int, key: jax.Array) -> None:
        one, two = jax.random.split(key)
        self.scores = eqx.nn.Linear(features, labels, key=one)
        self.factor = eqx.nn.Linear(features, labels, key=two)

    def __call__(self, x: jax.Array) -> Any:
        return gfy.Pairwise.Input(u=self.scores(x), A=self.factor(x)[:, None])


def main() -> None:
    data = correlated(n_train=400, n_test=200)
    x, y, x_test, y_test = (jnp.asarray(a) for a in (data.train.X, data.train.Y, data.test.X, data.test.Y))
    net = Network(x.shape[1], y.shape[1], jax.random.key(0))
    optimizer = optax.adam(0.05)
    state = optimizer.init(eqx.filter(net, eqx.is_array))

    @eqx.filter_jit
    def step(net: Network, state: Any) -> tuple[Network, Any, jax.Array]:
        value, grads = eqx.filter_value_and_grad(lambda net: LOSS(jax.vmap(net)(x), y))(net)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(net, updates), state, value

    for epoch in range(EPOCHS):
        net, state, value = step(net, state)
        if epoch in (0, EPOCHS - 1):
            print(f"epoch {epoch + 1:3d}: training loss {float(value):.3f}")
    v = jax.vmap(net)(x_test)
    p = LOSS.predict(v)
    right = float((gfy.decode(PROBLEM, p, "hamming") == y_test).mean())
    print(f"{right:.1%} of test decisions right, certified gap {gfy.certify(PROBLEM, v, p).gap.max():.0e}")
    if right < 0.7:
        raise SystemExit("the network has not learned")


if __name__ == "__main__":
    main()
