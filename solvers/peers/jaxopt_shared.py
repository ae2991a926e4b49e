"""Define what the jaxopt adapters share: a silent import, quadratic programs from inner problems, torch tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from gfy.backend import backend_of, get_backend, leaves, tree_map
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers import verdict
from solvers.loop import check
from solvers.peers.host import claimed


def jaxopt() -> Any:
    """Return the library without its notice that it is no longer maintained, since it is a peer to measure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jaxopt as library
    return library


def missing() -> str | None:
    from importlib.util import find_spec

    return None if find_spec("jaxopt") else "jaxopt is not installed: python -m pip install jaxopt"


def not_quadratic(problem: InnerProblem) -> str | None:
    """Return the reason why the problem is not a quadratic program over a band of bounds, in a sentence."""
    energy = problem.energy
    if energy.interactions is None or not energy.concave:
        return f"{energy.name} is not quadratic and concave in p, as this solver for quadratic programs needs: use Auto"
    if not problem.regularizer.quadratic:
        return f"{problem.regularizer.name} is not quadratic, as this solver for quadratic programs needs: use Auto"
    return None


def program(problem: InnerProblem, v: Any, batch: tuple[int, ...]) -> tuple[Array, Array]:
    """Return Q [..., k, k] and c [..., k] with min 1/2 <p, Q p> + <c, p>, one for each example of the batch."""
    import jax.numpy as jnp

    omega = problem.regularizer
    form = problem.energy.quadratic(v)
    assert form is not None
    k = form.u.shape[-1]
    Q = omega.curvature * jnp.eye(k, dtype=form.u.dtype) - form.curvature.dense()
    return jnp.broadcast_to(Q, (*batch, k, k)), jnp.broadcast_to(-(form.u + omega.tilt), (*batch, k))


def vmapped(
    solver: Any,
    problem: InnerProblem,
    v: Input,
    p0: Array | None,
    stop: Stop,
    work: Callable[[Any, Array], Any],
) -> Solution:
    """Return work(v, start) -> (p, error, steps) run in JAX, whatever framework the arrays belong to; no
    example stays NaN."""
    check(solver, problem, v)
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))
    start = problem.initial_point(v, p0)
    if backend is get_backend("jax"):
        p, error, steps = work(v, start)
        return _sound(backend, problem, v, stop, start, p, error, steps)
    import jax

    to_jax = get_backend("jax").asarray
    wide = "float64" in str(next(leaves(v)).dtype)
    with jax.enable_x64(wide):
        inputs, first = tree_map(lambda x: to_jax(backend.to_numpy(x)), (v, start))
        found = jax.jit(work)(inputs, first)
        p, error = (backend.asarray(get_backend("jax").to_numpy(x).copy(), like=start) for x in found[:2])
        steps = backend.asarray(get_backend("jax").to_numpy(found[2]).copy(), dtype="int32")
    return _sound(backend, problem, v, stop, start, p, error, steps)


def _sound(
    backend: Any,
    problem: InnerProblem,
    v: Input,
    stop: Stop,
    start: Array,
    p: Array,
    error: Array,
    steps: Array,
) -> Solution:
    xp = backend.xp
    fine = xp.all(xp.isfinite(p), axis=-1) & xp.isfinite(error)
    p = problem.domain.project(xp.where(fine[..., None], p, start))
    result = claimed(problem, v, p, error, fine & (error <= stop.tol), stop)
    return Solution(p, error, xp.astype(steps, xp.int32), verdict.converged(result), result)
