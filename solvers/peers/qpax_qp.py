"""Call qpax, a primal-dual interior-point method in JAX, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers import jaxopt_shared


@dataclass(frozen=True)
class Qpax:
    """Solve quadratic problems by `qpax.solve_qp`, vmapped over the examples; bounds are 2 k inequality rows.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Tracy and Manchester (2024), on the differentiability of the primal-dual interior-point method.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Qpax().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    @property
    def name(self) -> str:
        return "Qpax"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if find_spec("qpax") is None:
            return "qpax is not installed: python -m pip install qpax"
        if not (problem.domain.banded and problem.domain.compact):
            return f"this adapter writes boxes and simplices as bounds, not {problem.domain.name}: use Auto"
        return jaxopt_shared.not_quadratic(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def work(v: Any, start: Array) -> tuple[Array, Array, Array]:
            import jax
            import jax.numpy as jnp
            import qpax

            domain = problem.domain
            Q, c = jaxopt_shared.program(problem, v, start.shape[:-1])
            k = c.shape[-1]
            low, high = (jnp.broadcast_to(b, (k,)).astype(c.dtype) for b in domain.bounds(c))
            eye = jnp.eye(k, dtype=c.dtype)
            rows, right = jnp.concatenate([eye, -eye]), jnp.concatenate([high, -low])
            fixed = domain.total is not None
            A = jnp.ones((int(fixed), k), dtype=c.dtype)
            b = jnp.full((int(fixed),), domain.total if fixed else 0.0, dtype=c.dtype)

            def one(Q: Array, c: Array) -> tuple[Array, Array, Array]:
                x, _, _, _, content, steps = qpax.solve_qp(
                    Q, c, A, b, rows, right, solver_tol=max(stop.tol, 1e-14)
                )
                return x, jnp.where(content == 1, 0.0, 1.0).astype(c.dtype), steps

            for _ in start.shape[:-1]:
                one = jax.vmap(one)
            return one(Q, c)

        return jaxopt_shared.vmapped(self, problem, v, p0, stop, work)
