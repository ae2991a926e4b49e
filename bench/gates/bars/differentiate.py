"""Value and gradient of a loss as one call that waits until both are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure.contest import to_numpy
from bench.problems.workloads import Workload, to_device


def gradient_call(
    workload: Workload, loss: Any, backend: str, device: str = "cpu", dtype: str = "float64"
) -> Callable[[], Any]:
    """`call()` returns (loss summed over the batch, its gradient in every leaf of v); jitted in JAX."""
    from gfy.backend import get_backend, leaves, tree_map

    library = get_backend(backend)
    v = workload.place(backend, device, dtype)
    y = to_device(workload.targets(), backend, device, dtype)
    if backend == "jax":
        import jax

        both = jax.jit(jax.value_and_grad(lambda inputs, target: loss(inputs, target).sum()))
        return lambda: library.sync(both(v, y))
    import torch

    def run() -> Any:
        active = tree_map(lambda x: x.detach().requires_grad_(True), v)
        value = loss(active, y).sum()
        return value.detach(), torch.autograd.grad(value, list(leaves(active)))

    return lambda: library.sync(run())


def flat(value_and_gradient: Any) -> np.ndarray:
    """The gradient of a `gradient_call`, all leaves in one float64 vector."""
    from gfy.backend import leaves

    _, gradient = value_and_gradient
    return np.concatenate([to_numpy(leaf).astype(np.float64).ravel() for leaf in leaves(gradient)])


def reference_gradient(workload: Workload, p: np.ndarray) -> np.ndarray:
    """The loss's gradient in v at an accurate solution p: the envelope theorem and autodiff of Phi alone."""
    from gfy.backend import get_backend, leaves

    library = get_backend("torch")
    v, energy = workload.place("torch"), workload.problem.energy
    solution, target = (to_device(x, "torch", "cpu", "float64") for x in (p, workload.targets()))
    _, pull = library.vjp(lambda w: (energy.value(w, solution) - energy.value(w, target)).sum(), v)
    (gradient,) = pull(library.asarray(np.ones(()), like=solution))
    return np.concatenate([to_numpy(leaf).ravel() for leaf in leaves(gradient)])


def modes(workload: Workload, solver: Any) -> dict[str, tuple[Any, Any]]:
    """(solver, gradient mode) of the three modes; where the solver is not to be unrolled, one that is."""
    import gfy
    import solvers

    unrolled = gfy.Unrolled(steps=600)
    stepper = (
        solver if unrolled.unsupported(workload.problem, solver) is None else solvers.ProjectedGradient()
    )
    return {
        "envelope": (solver, gfy.Envelope()),
        "implicit": (solver, gfy.Implicit()),
        "unrolled": (stepper, unrolled),
    }
