"""Call jaxopt's coordinate descent for box-constrained quadratic programs, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers import jaxopt_shared


@dataclass(frozen=True)
class JaxoptBoxCDQP:
    """Solve box-constrained quadratic problems by `jaxopt.BoxCDQP`, vmapped over the examples.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Blondel et al. (2021), jaxopt.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.JaxoptBoxCDQP().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    fixed_tolerance: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "JaxoptBoxCDQP"

    def unsupported(self, problem: InnerProblem) -> str | None:
        reason = jaxopt_shared.missing() or jaxopt_shared.not_quadratic(problem)
        if reason is None and (not problem.domain.banded or problem.domain.total is not None):
            reason = f"BoxCDQP knows bounds only, not {problem.domain.name}: use Auto"
        if reason is None and not problem.domain.compact:
            reason = f"BoxCDQP needs finite bounds, {problem.domain.name} has none: use Auto"
        return reason

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def work(v: Any, start: Array) -> tuple[Array, Array, Array]:
            import jax
            import jax.numpy as jnp

            Q, c = jaxopt_shared.program(problem, v, start.shape[:-1])
            low, high = (jnp.broadcast_to(b, c.shape[-1:]) for b in problem.domain.bounds(c))
            low, high = low.astype(c.dtype), high.astype(c.dtype)
            peer = jaxopt_shared.jaxopt().BoxCDQP(maxiter=stop.max_steps, tol=stop.tol, unroll=False)

            def one(Q: Array, c: Array, start: Array) -> tuple[Array, Array, Array]:
                found = peer.run(start, params_obj=(Q, c), params_ineq=(low, high))
                return found.params, found.state.error, found.state.iter_num

            for _ in start.shape[:-1]:
                one = jax.vmap(one)
            return one(Q, c, start)

        return jaxopt_shared.vmapped(self, problem, v, p0, stop, work)
