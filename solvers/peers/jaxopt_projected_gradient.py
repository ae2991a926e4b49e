"""Call jaxopt's accelerated projected gradient, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gfy.backend import tree_map
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers import jaxopt_shared


@dataclass(frozen=True)
class JaxoptProjectedGradient:
    """Solve by `jaxopt.ProjectedGradient`, vmapped over the examples.

    Entropies have no gradient on the boundary. p is therefore kept at a distance `inset` from the bounds of a box,
    and `inset` is added to it on the simplex.

    Args:
        inset: how far p is kept from the boundary for entropies; 1e-12 by default.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Blondel et al. (2021), jaxopt.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.JaxoptProjectedGradient().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    inset: float = 1e-12

    @property
    def name(self) -> str:
        return "JaxoptProjectedGradient"

    def unsupported(self, problem: InnerProblem) -> str | None:
        domain = problem.domain
        box = domain.banded and domain.total is None and not domain.whole
        if not (box or domain.simplex or domain.ball):
            return f"this adapter has jaxopt's projections on boxes, simplices and balls, not {domain.name}: use Auto"
        if not domain.compact:
            return f"jaxopt's box projection needs finite bounds, {domain.name} has none: use Auto"
        return jaxopt_shared.missing()

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def work(v: Any, start: Array) -> tuple[Array, Array, Array]:
            import jax

            library = jaxopt_shared.jaxopt()
            domain = problem.domain
            finite = problem.regularizer.quadratic

            def loss(p: Array, v: Any) -> Array:
                if not finite and domain.simplex:
                    p = p + self.inset
                return -problem.value(v, p)

            bounds: Any
            if domain.simplex:
                project, bounds = library.projection.projection_simplex, 1.0
            elif domain.ball:
                project, bounds = library.projection.projection_l2_ball, domain.radius
            else:
                low, high = domain.bounds(start)
                bounds = (low, high) if finite else (low + self.inset, high - self.inset)
                project = library.projection.projection_box
            peer = library.ProjectedGradient(
                loss, project, maxiter=stop.max_steps, tol=stop.tol, unroll=False
            )

            def one(v: Any, start: Array) -> tuple[Array, Array, Array]:
                found = peer.run(start, hyperparams_proj=bounds, v=v)
                return found.params, found.state.error, found.state.iter_num

            axes = _batch_axes(problem, v, start)
            for axis in axes:
                one = jax.vmap(one, in_axes=(axis, 0))
            return one(v, start)

        return jaxopt_shared.vmapped(self, problem, v, p0, stop, work)


def _batch_axes(problem: InnerProblem, v: Any, start: Array) -> list[Any]:
    """Return for each batch axis, innermost first, which leaves of v have it (0) and which share theirs (None)."""
    axes = problem.energy.axes(v)
    return [tree_map(lambda own, n=n: 0 if own > n else None, axes) for n in range(start.ndim - 1)]
