"""Train one network in several ways: a batch of trainings are settings or seeds, with one compiled program for all.

    likelihood      -log p(y | x), Z by enumeration (k <= 10); the others are compared with it
    minmin          the joint loss: tau(x) is a second network, samples of a fixed prior, no solve and no chain
    persistent      contrastive gradients, one Gibbs sweep per step of a chain that each example keeps
    contrastive     the same, each chain started at y
    gfy             the generalized Fenchel-Young loss, envelope gradient
    cross_entropy   of p* itself, implicit gradient
    perceptron      the generalized perceptron loss

The prior of `minmin` has independent labels at their training frequencies: the model is q(y) exp(g(x, y)) / Z(x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bench.experiments.common.models import Model
from bench.experiments.common.objectives import make_gradient, make_loss, make_solver
from bench.experiments.common.training import batches
from bench.experiments.minmin.likelihood import gibbs_sweep, outputs

WAYS = ("likelihood", "minmin", "persistent", "contrastive", "gfy", "cross_entropy", "perceptron")
MOST_LISTED = 10  # labels; up to this many, every step lists every output


class State(NamedTuple):
    """Hold the parameters, Adam's moments and count, the chains [n, k] of `persistent`, and the generator's key."""

    params: Any
    moments: Any
    chains: Any
    key: Any


@dataclass(frozen=True)
class Training:
    """Describe what is trained: the network, the way, and how long."""

    model: Model
    way: str
    steps: int = 1500
    batch: int = 32
    samples: int = 128

    def unsupported(self) -> str | None:
        """Return the reason why this way does not serve the network, in a sentence, or None where it does."""
        if self.way == "likelihood" and self.model.labels > MOST_LISTED:
            return f"2^{self.model.labels} outputs are too many to list at every step"
        if self.way in ("persistent", "contrastive") and self.model.energy.startswith("unary"):
            return "labels are independent given x: nothing is left for a chain to do"
        return None

    def init(self, seed: int, share: np.ndarray) -> dict[str, np.ndarray]:
        """Return the first draw; `tau` starts at the constant 0, which is log Z of an energy that is 0."""
        params: dict[str, np.ndarray] = self.model.init(seed)
        if self.way == "minmin":
            drawn = Model("unary-rectifier", self.model.features, 1).init(seed + 1000)
            params |= {f"t_{name}": value for name, value in drawn.items()}
            params["t_W2"] = 0 * params["t_W2"]
        return params

    def input(self, params: Any, x: Any, share: Any, predict: bool = True) -> Any:
        """Return v of a batch x [B, d], with the prior's own scores where the model is relative to a prior."""
        v = self.model.input({n: p for n, p in params.items() if not n.startswith("t_")}, x)
        if self.way != "minmin" or not predict:
            return v
        odds = np.log(share) - np.log1p(-share)
        field = next(iter(v._fields))
        return v._replace(**{field: getattr(v, field) + odds.astype(np.float32)})

    def tau(self, params: Any, x: Any) -> Any:
        """Return the learned log Z of the model relative to its prior, [B]."""
        from gfy.numerics.arithmetic import relu

        hidden = relu(x @ params["t_W1"] + params["t_b1"])
        return (hidden @ params["t_W2"] + params["t_b2"])[..., 0]

    def objective(self, share: np.ndarray) -> Any:
        """Return a function of (params, x, y, chains, key) that returns the mean loss and the chains after the step."""
        import jax
        import jax.numpy as jnp

        import gfy

        energy = self.model.problem().energy
        if self.way in ("gfy", "cross_entropy", "perceptron"):
            mode = make_gradient("implicit" if self.way == "cross_entropy" else "envelope", self.way)
            solver, stop = make_solver("auto", self.model, self.way), gfy.Stop(1e-6, 50)
            loss = make_loss(self.model, self.way, solver, mode, stop)
            return lambda params, x, y, chains, key: (
                jnp.mean(loss(self.input(params, x, share), y)),
                chains,
            )
        if self.way == "likelihood":
            every = jnp.asarray(outputs(self.model.labels), jnp.float32)[:, None]

            def likelihood(params: Any, x: Any, y: Any, chains: Any, key: Any) -> Any:
                v = self.input(params, x, share)
                log_z = jax.scipy.special.logsumexp(energy.value(v, every), axis=0)
                return jnp.mean(log_z - energy.value(v, y)), chains

            return likelihood
        if self.way == "minmin":
            joint = gfy.JointLoss(energy, reduction="mean")

            def minmin(params: Any, x: Any, y: Any, chains: Any, key: Any) -> Any:
                drawn = jax.random.uniform(key, (self.samples, self.model.labels)) < share
                v = self.input(params, x, share, predict=False)
                return joint(v, y, self.tau(params, x), drawn.astype(x.dtype)), chains

            return minmin

        def contrast(params: Any, x: Any, y: Any, chains: Any, key: Any) -> Any:
            v = self.input(params, x, share)
            start = chains if self.way == "persistent" else y
            after = gibbs_sweep(energy, jax.lax.stop_gradient(v), start, key)
            return jnp.mean(energy.value(v, after) - energy.value(v, y)), after

        return contrast


class Trainer:
    """Compile the program of one way, for H trainings side by side on arrays of one shape."""

    def __init__(self, training: Training, share: np.ndarray) -> None:
        import jax

        self.training, self.share = training, share
        self._run = jax.jit(jax.vmap(self._train, in_axes=(0, 0, 0, 0, 0, None, None)))

    def __call__(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        rates: Any,
        penalties: Any,
        seeds: Any,
        rows: np.ndarray | None = None,
    ) -> Any:
        """Return the parameters [H, ...] after training on the examples `rows` (default: all) of X [n, d], Y [n, k].

        rates, penalties and seeds hold one entry per training, [H].
        """
        import jax
        import jax.numpy as jnp

        t = self.training
        rows = np.arange(len(X)) if rows is None else rows
        drawn = [t.init(int(seed), self.share) for seed in seeds]
        params = {name: jnp.asarray(np.stack([d[name] for d in drawn]), jnp.float32) for name in drawn[0]}
        epochs = -(-t.steps // max(1, len(rows) // t.batch))
        orders = [
            rows[batches(len(rows), t.batch, epochs, int(s)).reshape(-1, t.batch)[: t.steps]] for s in seeds
        ]
        keys = jnp.stack([jax.random.PRNGKey(int(s)) for s in seeds])
        single = (jnp.asarray(a, jnp.float32) for a in (rates, penalties))
        shared = (jnp.asarray(a, jnp.float32) for a in (X, Y))
        given = (params, jnp.asarray(np.stack(orders)), *single, keys, *shared)
        return jax.block_until_ready(self._run(*given))

    def _train(self, params: Any, order: Any, rate: Any, penalty: Any, key: Any, X: Any, Y: Any) -> Any:
        import jax
        import jax.numpy as jnp
        import optax

        objective, adam = self.training.objective(self.share), optax.scale_by_adam()
        total = order.shape[0]

        def whole(params: Any, x: Any, y: Any, chains: Any, key: Any) -> Any:
            value, after = objective(params, x, y, chains, key)
            square = sum(jnp.sum(leaf * leaf) for leaf in params.values())
            return value + 0.5 * penalty * square, after

        def step(state: State, given: tuple[Any, Any]) -> tuple[State, None]:
            index, n = given
            key, here = jax.random.split(state.key)
            chains = state.chains[index]
            slope, after = jax.grad(whole, has_aux=True)(state.params, X[index], Y[index], chains, here)
            change, moments = adam.update(slope, state.moments)
            fall = rate * (1 - n.astype(rate.dtype) / total)
            params = jax.tree.map(lambda p, c: p - fall * c, state.params, change)
            return State(params, moments, state.chains.at[index].set(after), key), None

        start = State(params, adam.init(params), Y, key)
        return jax.lax.scan(step, start, (order, jnp.arange(total)))[0].params
