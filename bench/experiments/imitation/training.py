"""Train many runs of behaviour cloning at once: seeds, rates and weight decays share one compiled program.

Every run draws its weights and its batches from its own seed, so that a run's result does not depend on which other
runs are trained with it. Adam with a constant rate minimises the mean loss over a batch plus l2/2 |theta|^2. Where a
run asks for noise, its observations get new Gaussian noise in every step.

Shapes: a leading axis R (runs) on every parameter; batches are rows of the shared demonstrations [n, d].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bench.experiments.imitation.demonstrations import Demonstrations, Scaling, to_cube
from bench.experiments.imitation.models import Model, Parameters
from gfy.errors import GfyValueError

CHUNK = 500  # steps per call of the compiled scan; progress is shown between calls, whose own cost is small


@dataclass(frozen=True)
class Run:
    """Hold what differs between the runs of one program."""

    seed: int
    rate: float
    l2: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True)
class Trained:
    """Hold the parameters [R, ...] after the last step, the scaling of their inputs, and the last mean loss [R]."""

    parameters: Parameters
    scaling: Scaling
    losses: np.ndarray


def train(
    model: Model,
    demonstrations: Demonstrations,
    runs: Sequence[Run],
    steps: int,
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Train all runs together for `steps` steps of `batch` examples each."""
    import jax
    import jax.numpy as jnp

    if steps < 1 or batch < 1 or not runs:
        raise GfyValueError(f"training needs runs, steps and a batch; got {len(runs)}, {steps} and {batch}.")
    scaling = Scaling.fit(demonstrations)
    x = jnp.asarray(scaling.observations(demonstrations.observations))
    y = jnp.asarray(to_cube(demonstrations.actions))
    rates = jnp.asarray([run.rate for run in runs], jnp.float32)
    decays = jnp.asarray([run.l2 for run in runs], jnp.float32)
    noises = np.array([run.noise for run in runs], np.float32)
    noisy = bool(noises.any())
    keys = jax.vmap(jax.random.key)(jnp.asarray([run.seed for run in runs])) if noisy else None
    drawn = [model.initial(run.seed) for run in runs]
    theta = {name: jnp.asarray(np.stack([one[name] for one in drawn])) for name in drawn[0]}
    advance, start = _program(model)
    state = start(theta)
    batches = [np.random.default_rng([run.seed, 1]) for run in runs]
    losses = np.zeros(len(runs))
    done = 0
    while done < steps:
        length = min(CHUNK, steps - done)
        rows = np.stack([g.integers(0, len(x), (length, batch), dtype=np.int32) for g in batches], axis=1)
        more = (noises, keys, np.arange(done, done + length)) if noisy else ()
        theta, state, curve = advance(theta, state, rates, decays, x, y, rows, *more)
        losses = np.asarray(jax.block_until_ready(curve)).mean(axis=0)
        done += length
        if not np.isfinite(losses).all():
            bad = [run.seed for run, loss in zip(runs, losses, strict=True) if not np.isfinite(loss)]
            raise GfyValueError(f"the loss of seed(s) {bad} is no longer finite after {done} steps.")
        if progress is not None:
            progress(done, steps)
    return Trained({name: np.asarray(value) for name, value in theta.items()}, scaling, losses)


@lru_cache(maxsize=8)
def _program(model: Model) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the compiled chunk of steps and the optimizer's start; they are kept, since many cells share a model.

    Where runs have noise, the chunk also takes their noises [R], their keys [R] and the numbers of the steps.
    """
    import jax
    import jax.numpy as jnp
    import optax

    adam = optax.scale_by_adam()
    loss = model.loss()

    def objective(one: Parameters, decay: Any, x: Any, y: Any) -> Any:
        # Weight decay belongs to the objective here, as in the paper, not to the optimizer.
        return loss(one, x, y) + 0.5 * decay * sum(jnp.sum(value * value) for value in one.values())

    def single(one: Parameters, state: Any, rate: Any, decay: Any, x: Any, y: Any) -> Any:
        value, slope = jax.value_and_grad(objective)(one, decay, x, y)
        change, state = adam.update(slope, state)
        return jax.tree.map(lambda a, b: a - rate * b, one, change), state, value

    def disturbed(x: Any, noise: Any, key: Any, number: Any) -> Any:
        return x + noise * jax.random.normal(jax.random.fold_in(key, number), x.shape, x.dtype)

    @jax.jit
    def advance(
        theta: Parameters, state: Any, rates: Any, decays: Any, x: Any, y: Any, rows: Any, *noise: Any
    ) -> Any:
        def step(carry: Any, at: Any) -> Any:
            chosen, *number = at
            seen = x[chosen]
            if noise:
                seen = jax.vmap(disturbed, in_axes=(0, 0, 0, None))(seen, *noise[:2], *number)
            theta, state, value = jax.vmap(single)(*carry, rates, decays, seen, y[chosen])
            return (theta, state), value

        (theta, state), curve = jax.lax.scan(step, (theta, state), (rows, *noise[2:]))
        return theta, state, curve

    return advance, jax.vmap(adam.init)
