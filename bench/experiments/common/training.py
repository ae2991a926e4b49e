"""Train one network at many settings at once: the whole grid of rates and penalties is one compiled program.

Adam minimises the mean loss of a batch plus lambda / 2 |theta|^2. Settings are an axis of `vmap`: all of them see the
same batches, so that the first layers of H networks are one matrix product. Seeds are an axis outside it (`lax.map`),
each with its own first draw and its own order of the examples.

Shapes: S seeds, H settings, T steps per epoch, B examples per step; parameters carry [S, H, ...].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bench.experiments.common.models import Model, Params
from bench.experiments.common.objectives import make_gradient, make_loss, make_solver, predicting_problem
from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Recipe:
    """Describe what is trained and how, except for the settings of the grid."""

    model: Model
    loss: str = "gfy"
    gradient: str = "envelope"
    solver: str = "auto"
    epochs: int = 100
    batch: int = 32
    tol: float = 1e-6
    max_steps: int = 50
    decay: bool = False  # True where the rate falls linearly to zero
    predict_steps: int | None = None  # inner steps of a prediction; None stands for as many as in training
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise GfyValueError(f"epochs and batch must be at least 1; got {self.epochs} and {self.batch}")
        make_gradient(self.gradient, self.loss)

    def stop(self) -> Any:
        import gfy

        return gfy.Stop(tol=self.tol, max_steps=self.max_steps)

    def predicting(self) -> Any:
        """Return when the inner solve of a prediction stops."""
        import gfy

        return gfy.Stop(tol=self.tol, max_steps=self.predict_steps or self.max_steps)

    def inner_solver(self) -> Any:
        return make_solver(self.solver, self.model, self.loss)

    def gradient_mode(self) -> Any:
        return self.options.get("gradient_mode") or make_gradient(self.gradient, self.loss)

    def loss_function(self) -> Any:
        return make_loss(self.model, self.loss, self.inner_solver(), self.gradient_mode(), self.stop())


class Carry(NamedTuple):
    """Hold the parameters and Adam's two moments [S, H, ...], and the number of steps taken."""

    params: Any
    moments: Any
    count: Any


@dataclass(frozen=True)
class Settings:
    """Hold H settings: penalties lambda [H], rates [H] and gains of the first draw [H]."""

    penalties: np.ndarray
    rates: np.ndarray
    gains: np.ndarray

    def __len__(self) -> int:
        return len(self.rates)

    def at(self, *places: int) -> Settings:
        """Return the settings at some places, in the order given."""
        pick = list(places)
        return Settings(self.penalties[pick], self.rates[pick], self.gains[pick])

    def ranked(self, scores: np.ndarray) -> list[int]:
        """Return positions in decreasing order of the scores [H]; of equals the larger penalty first, then
        the smaller rate."""
        return [int(place) for place in np.lexsort((self.rates, -self.penalties, -scores))]

    def as_dict(self, index: int) -> dict[str, float]:
        return {
            "penalty": float(self.penalties[index]),
            "rate": float(self.rates[index]),
            "gain": float(self.gains[index]),
        }


def one_setting(penalty: float, rate: float, gain: float = 1.0) -> Settings:
    return Settings(*(np.array([value], np.float32) for value in (penalty, rate, gain)))


def grid(
    penalties: tuple[float, float, int] = (1e-4, 1e1, 5),
    rates: tuple[float, float, int] = (1e-5, 1e-1, 10),
    gains: Sequence[float] = (1.0,),
) -> Settings:
    """Return log-spaced penalties and rates, each given as (first, last, number); the default is the paper's grid."""
    spaced = [np.geomspace(first, last, number) for first, last, number in (penalties, rates)]
    axes = np.meshgrid(*spaced, gains, indexing="ij")
    return Settings(*(axis.ravel().astype(np.float32) for axis in axes))


def batches(examples: int, batch: int, epochs: int, seed: int) -> np.ndarray:
    """Return the order in which one seed sees the examples, [epochs, T, B] int32; the rest of each epoch is
    left out."""
    size = min(batch, examples)
    steps = examples // size
    rng = np.random.default_rng([seed, 1])
    orders = [rng.permutation(examples)[: steps * size].reshape(steps, size) for _ in range(epochs)]
    return np.stack(orders).astype(np.int32)


class Trainer:
    """Compile the training of one recipe and run it in blocks of epochs, so that progress can be shown."""

    def __init__(self, recipe: Recipe, settings: Settings, seeds: Sequence[int]) -> None:
        import jax

        self.recipe, self.settings, self.seeds = recipe, settings, tuple(seeds)
        self._loss = recipe.loss_function()
        self._block = jax.jit(self._train_block, donate_argnums=0)
        self._predict = jax.jit(self._predict_all)

    def init(self) -> Carry:
        """Return the first draw of every seed and setting."""
        import jax.numpy as jnp

        drawn = [self.recipe.model.init(seed) for seed in self.seeds]
        params = {}
        for name in drawn[0]:  # This is done in NumPy, so that JAX need not compile a dozen small programs.
            leaf = np.repeat(np.stack([one[name] for one in drawn])[:, None], len(self.settings), axis=1)
            scale = self.settings.gains.reshape((1, -1) + (1,) * (leaf.ndim - 2)) if name == "A" else 1.0
            params[name] = jnp.asarray((leaf * scale).astype(np.float32))
        zeros = {name: jnp.asarray(np.zeros(leaf.shape, np.float32)) for name, leaf in params.items()}
        again = {name: jnp.asarray(np.zeros(leaf.shape, np.float32)) for name, leaf in params.items()}
        return Carry(params, (zeros, again), jnp.asarray(np.zeros((), np.float32)))

    def run(
        self, X: np.ndarray, Y: np.ndarray, carry: Carry | None = None, first: int = 0, block: int = 10
    ) -> Iterator[tuple[int, Carry]]:
        """Train from epoch `first`; yields (epochs done, carry) after every block."""
        import jax
        import jax.numpy as jnp

        X, Y = jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32)
        epochs = self.recipe.epochs
        orders = np.stack([batches(len(X), self.recipe.batch, epochs, seed) for seed in self.seeds])
        carry = self.init() if carry is None else carry
        while first < epochs:
            done = min(epochs, first + block)
            carry = jax.block_until_ready(self._block(carry, X, Y, jnp.asarray(orders[:, first:done])))
            first = done
            yield done, carry

    def predict(self, params: Params, X: np.ndarray) -> np.ndarray:
        """Return p* of every seed, setting and example, [S, H, n, k]."""
        import jax.numpy as jnp

        return np.asarray(self._predict(params, jnp.asarray(X, jnp.float32)))

    def accuracy(self, params: Params, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return label accuracy [S, H]; a network that diverged has accuracy 0."""
        P = self.predict(params, X)
        right = ((P > 0.5) == (Y > 0.5)).mean(axis=(-1, -2))
        return np.where(np.isfinite(P).all(axis=(-1, -2)), right, 0.0)

    def _train_block(self, carry: Carry, X: Any, Y: Any, orders: Any) -> Carry:
        import jax
        import jax.numpy as jnp
        import optax

        model, loss = self.recipe.model, self._loss
        adam = optax.scale_by_adam()
        total = self.recipe.epochs * orders.shape[2]
        penalties, rates = jnp.asarray(self.settings.penalties), jnp.asarray(self.settings.rates)

        def objective(params: Params, penalty: Any, x: Any, y: Any) -> Any:
            square = sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(params))
            return jnp.mean(loss(model.input(params, x), y)) + 0.5 * penalty * square

        def one(params: Params, moments: Any, penalty: Any, rate: Any, count: Any, x: Any, y: Any) -> Any:
            slope = jax.grad(objective)(params, penalty, x, y)
            state = optax.ScaleByAdamState(count.astype(jnp.int32), *moments)
            step, state = adam.update(slope, state)
            fall = 1 - count / total if self.recipe.decay else 1.0
            return jax.tree.map(lambda p, s: p - fall * rate * s, params, step), (state.mu, state.nu)

        def seed_block(job: Any) -> Any:
            params, moments, order = job

            def step(now: tuple[Any, Any, Any], index: Any) -> tuple[Any, None]:
                params, moments, count = now
                over = jax.vmap(one, in_axes=(0, 0, 0, 0, None, None, None))
                params, moments = over(params, moments, penalties, rates, count, X[index], Y[index])
                return (params, moments, count + 1), None

            flat = order.reshape((-1, order.shape[-1]))
            (params, moments, _), _ = jax.lax.scan(step, (params, moments, carry.count), flat)
            return params, moments

        params, moments = jax.lax.map(seed_block, (carry.params, carry.moments, orders))
        return Carry(params, moments, carry.count + orders.shape[1] * orders.shape[2])

    def _predict_all(self, params: Params, X: Any) -> Any:
        import jax

        problem = predicting_problem(self.recipe.model, self.recipe.loss)
        solver, stop = self.recipe.inner_solver(), self.recipe.predicting()

        def one(p: Params) -> Any:
            return solver.solve(problem, self.recipe.model.input(p, X), None, stop).p

        return jax.lax.map(jax.vmap(one), params)
