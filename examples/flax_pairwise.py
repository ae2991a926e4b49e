"""Train a pairwise energy network with flax and optax on labels that depend on each other, with warm starts.

The last solution of each training example starts its next solve: pass it as the loss's third argument.
"""

from __future__ import annotations

import os
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import gfy
import solvers
from bench.datasets.synthetic import correlated

EPOCHS = 30 if os.environ.get("GFY_QUICK") == "1" else 300
PROBLEM = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
LOSS = gfy.FenchelYoungLoss(PROBLEM, solver=solvers.DualNewton(), gradient=gfy.Envelope(), reduction="mean")


class Network(nn.Module):
    """Compute u = W x + b and A = V x + c, an Input of the pairwise energy."""

    labels: int

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        return gfy.Pairwise.Input(u=nn.Dense(self.labels)(x), A=nn.Dense(self.labels)(x)[..., None])


def main() -> None:
    data = correlated(n_train=400, n_test=200)
    x, y, x_test, y_test = (jnp.asarray(a) for a in (data.train.X, data.train.Y, data.test.X, data.test.Y))
    model = Network(y.shape[1])
    params = model.init(jax.random.key(0), x)
    optimizer = optax.adam(0.05)
    state = optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any, p0: jax.Array) -> tuple[Any, Any, jax.Array, jax.Array]:
        value, grads = jax.value_and_grad(lambda params: LOSS(model.apply(params, x), y, p0))(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, LOSS.predict(model.apply(params, x), p0), value

    p = jnp.full_like(y, 0.5, dtype=x.dtype)
    for epoch in range(EPOCHS):
        params, state, p, value = step(params, state, p)
        if epoch in (0, EPOCHS - 1):
            print(f"epoch {epoch + 1:3d}: training loss {float(value):.3f}")
    v = model.apply(params, x_test)
    q = LOSS.predict(v)
    right = float((gfy.decode(PROBLEM, q, "hamming") == y_test).mean())
    print(f"{right:.1%} of test decisions right, certified gap {gfy.certify(PROBLEM, v, q).gap.max():.0e}")
    if right < 0.7:
        raise SystemExit("the network has not learned")


if __name__ == "__main__":
    main()
