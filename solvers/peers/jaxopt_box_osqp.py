"""Call jaxopt's OSQP for boxes and simplices, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers import jaxopt_shared


@dataclass(frozen=True)
class JaxoptBoxOSQP:
    """Solve quadratic problems with bounds on p (and on sum p) by `jaxopt.BoxOSQP`, vmapped over the examples.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Blondel et al. (2021), jaxopt; Stellato et al. (2020), OSQP.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.JaxoptBoxOSQP().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    @property
    def name(self) -> str:
        return "JaxoptBoxOSQP"

    def unsupported(self, problem: InnerProblem) -> str | None:
        reason = jaxopt_shared.missing() or jaxopt_shared.not_quadratic(problem)
        if reason is None and not (problem.domain.banded and problem.domain.compact):
            reason = f"this adapter writes boxes and simplices as bounds, not {problem.domain.name}: use Auto"
        return reason

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def work(v: Any, start: Array) -> tuple[Array, Array, Array]:
            import jax
            import jax.numpy as jnp

            domain = problem.domain
            # The library keeps its step size in JAX's default precision, and cannot mix it with a lower one.
            Q, c = (x.astype(float) for x in jaxopt_shared.program(problem, v, start.shape[:-1]))
            dtype, start = start.dtype, start.astype(float)
            k = c.shape[-1]
            low, high = (jnp.broadcast_to(b, (k,)).astype(c.dtype) for b in domain.bounds(c))
            A = jnp.eye(k, dtype=c.dtype)
            if domain.total is not None:
                A = jnp.concatenate([A, jnp.ones((1, k), dtype=c.dtype)])
                low, high = (jnp.append(b, domain.total) for b in (low, high))
            # Tiny problems converge before the step-size rule has a residual other than 0 to divide by. The
            # early check for infeasibility is therefore off.
            peer = jaxopt_shared.jaxopt().BoxOSQP(
                maxiter=stop.max_steps,
                tol=stop.tol,
                unroll=False,
                check_primal_dual_infeasability=False,
            )

            def one(Q: Array, c: Array, start: Array) -> tuple[Array, Array, Array]:
                first = peer.init_params(start, (Q, c), A, (low, high))
                found = peer.run(first, params_obj=(Q, c), params_eq=A, params_ineq=(low, high))
                p, error = found.params.primal[0].astype(dtype), found.state.error.astype(dtype)
                return p, error, found.state.iter_num

            for _ in start.shape[:-1]:
                one = jax.vmap(one)
            return one(Q, c, start)

        return jaxopt_shared.vmapped(self, problem, v, p0, stop, work)
