"""Solve the one-dimensional dual of rank-1 problems by common root finders: the idea of `DualNewton` in a few lines.

With U = -a a^T on a box, F(t) = t - <a, p(u - a t)> increases in t, one equation per example. Its root lies between the
smallest and the largest value that <a, p> takes on the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from gfy.errors import UnsupportedError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.dual.many import parts
from solvers.loop import check
from solvers.peers import jaxopt_shared
from solvers.peers.host_batch import Answer, on_host_batch


def not_scalar(problem: InnerProblem) -> str | None:
    """Return the reason why the problem has no one-dimensional dual of this kind, in a sentence."""
    if problem.energy.interactions != "low rank":
        return f"{problem.energy.name} has no interactions U = -a a^T of rank 1, as this peer needs: use Auto"
    domain = problem.domain
    if not domain.banded or domain.total is not None or not domain.compact:
        return f"the dual of a problem on {domain.name} has more than one unknown: use DualNewton"
    if not problem.regularizer.separable:
        return f"{problem.regularizer.name} has no argmax map per coordinate: use Auto"
    return None


@dataclass(frozen=True)
class ScipyFindRoot:
    """Solve the one-dimensional dual of rank-1 energies by SciPy's `elementwise.find_root`; A [..., k, 1].

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Chandrupatla (1997), the bracketing method behind it.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[1.0, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> solvers.ScipyFindRoot().solve(problem, v).p.tolist()
        [[0.654, 0.077]]
    """

    fixed_tolerance: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "ScipyFindRoot"

    def unsupported(self, problem: InnerProblem) -> str | None:
        return not_scalar(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        _check_rank(self, problem, v)

        def work(inputs: Any, batch: tuple[int, ...], start: np.ndarray | None, stop: Stop) -> Answer:
            from scipy.optimize import elementwise

            linear, A = parts(problem, inputs)
            k = linear.shape[-1]
            u, a = (np.broadcast_to(x, (*batch, k)).reshape(-1, k) for x in (linear, A[..., 0]))
            omega, domain = problem.regularizer, problem.domain
            low, high = domain.bounds(u)

            def response(t: np.ndarray, n: np.ndarray) -> np.ndarray:
                p: np.ndarray = omega.coordinate_argmax(u[n] - a[n] * t[..., None], low, high)
                return p

            def F(t: np.ndarray, n: np.ndarray) -> np.ndarray:
                n = n.astype(int)
                gap: np.ndarray = t - (a[n] * response(t, n)).sum(-1)
                return gap

            ends = np.sort(np.stack([a * low, a * high]), axis=0).sum(-1)
            rows = np.arange(len(u))
            tolerances = {"xatol": 0.0, "xrtol": 1e-15, "fatol": stop.tol, "frtol": 0.0}
            found = elementwise.find_root(
                F,
                (ends[0] - 1e-9, ends[1] + 1e-9),
                args=(rows,),
                tolerances=tolerances,
                maxiter=stop.max_steps,
            )
            return Answer(response(found.x, rows), found.nit, found.success)

        return on_host_batch(self, problem, v, p0, stop, work)


def _check_rank(solver: Any, problem: InnerProblem, v: Any) -> None:
    """Refuse an A with more than one column, which only its shape shows."""
    check(solver, problem, v)
    columns = parts(problem, v)[1].shape[-1]
    if columns != 1:
        raise UnsupportedError(
            f"{solver.name} solves the one-dimensional dual of rank 1, and A has {columns} columns: use DualNewton"
        )


@dataclass(frozen=True)
class JaxoptBisection:
    """Solve the one-dimensional dual of rank-1 energies by `jaxopt.Bisection`, vmapped; A [..., k, 1].

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Blondel et al. (2021), jaxopt.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[1.0, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> solvers.JaxoptBisection().solve(problem, v).p.tolist()
        [[0.654, 0.077]]
    """

    fixed_tolerance: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "JaxoptBisection"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if find_spec("jaxopt") is None:
            return jaxopt_shared.missing()
        return not_scalar(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        _check_rank(self, problem, v)

        def work(v: Any, start: Array) -> tuple[Array, Array, Array]:
            import jax
            import jax.numpy as jnp

            linear, A = parts(problem, v)
            u, a = (jnp.broadcast_to(x, start.shape) for x in (linear, A[..., 0]))
            omega, (low, high) = problem.regularizer, problem.domain.bounds(u)

            def one(u: Array, a: Array) -> tuple[Array, Array, Array]:
                def response(t: Array) -> Array:
                    return omega.coordinate_argmax(u - a * t, low, high)

                ends = jnp.sort(jnp.stack([a * low, a * high]), axis=0).sum(-1)
                finder = jaxopt_shared.jaxopt().Bisection(
                    lambda t: t - (a * response(t)).sum(),
                    ends[0] - 1e-9,
                    ends[1] + 1e-9,
                    maxiter=200,
                    tol=stop.tol,
                    check_bracket=False,
                )
                found = finder.run()
                return response(found.params), found.state.error, found.state.iter_num

            for _ in start.shape[:-1]:
                one = jax.vmap(one)
            return one(u, a)

        return jaxopt_shared.vmapped(self, problem, v, p0, stop, work)
