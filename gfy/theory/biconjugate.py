"""Compute generalized biconjugates: max_v Phi(v, p) - Omega^Phi(v), the tightest Psi-convex lower bound of Omega.

There are three ways to the maximum. *Exact*: where Phi has a linear term of its own (or is bilinear) and Phi - Omega
is concave in p, the input with grad_p Phi(v, p) = grad Omega(p) has p as its argmax, so the bound touches Omega
there. With a metric energy the bound touches a 1-Lipschitz Omega at v = p. *Search*: where Phi is convex in v the
convex-concave procedure is used (as the paper suggests), and gradient ascent elsewhere, from several starts. Whatever
a search finds is a lower bound. *Grid*: all given inputs are tried, which is a global reference in small dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of, get_backend, tree_map
from gfy.calling.guard import guard
from gfy.calling.named import as_solver
from gfy.checks import check_point
from gfy.energies.inputs import InputSpace, broadcast_batch, space_of, zero_input
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.ascent import ascend
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver, Input, Stop

METHODS = ("auto", "exact", "ccp", "ascent", "grid")


class Biconjugate(NamedTuple):
    """Hold what `solve_biconjugate` returns: value <= biconjugate(p) <= Omega(p), and the input v that reaches `value`.

    Args:
        value: the largest Phi(v, p) - Omega^Phi(v) found, [...].
        v: the input that reaches it.
        gap: Omega(p) - value, [...].

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Reals())
        >>> found = gfy.solve_biconjugate(problem, array([[3.0, 4.0]]))
        >>> found.value.tolist(), found.gap.tolist()
        ([12.5], [0.0])
    """

    value: Array
    v: Input
    gap: Array


@guard
def biconjugate(problem: InnerProblem, p: Array, method: str = "auto", **options: Any) -> Array:
    """Compute the generalized biconjugate max_v Phi(v, p) - Omega^Phi(v), which is never above Omega(p).

    Args:
        problem: the energy, the regularizer and the set.
        p: the points, [..., k].
        method: "exact", "ccp", "ascent", "grid", or "auto", the default (exact where it is known, else a search).
        **options: those of `solve_biconjugate`.

    Returns:
        The value at each point, [...].

    Raises:
        GfyValueError, UnsupportedError: as `solve_biconjugate`.

    Reference: Blondel et al. (2022), Appendix A.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Reals())
        >>> gfy.biconjugate(problem, array([[3.0, 4.0]])).tolist()  # Omega itself, since Omega is convex
        [12.5]
    """
    return solve_biconjugate(problem, p, method, **options).value


@guard
def solve_biconjugate(
    problem: InnerProblem,
    p: Array,
    method: str = "auto",
    *,
    solver: InnerSolver | None = None,
    start: Any = None,
    inputs: Any = None,
    points: Any = None,
    starts: int = 4,
    spread: float = 2.0,
    seed: int = 0,
    stop: Stop = Stop(1e-9, 2000),
) -> Biconjugate:
    """Maximise Phi(v, p) - Omega^Phi(v) over v, and return the maximum with the v that reaches it.

    Args:
        problem: the energy, the regularizer and the set.
        p: the points, [..., k].
        method: "exact", "ccp", "ascent", "grid", or "auto", the default (exact where it is known, else a search).
        solver: the solver of Omega^Phi; None, the default, chooses one for the problem.
        start: an Input to search from (and, for "exact", the leaves other than its linear term). None, the default,
            takes zeros where their shapes follow from p.
        inputs: for "grid", an Input with one leading axis of candidates; None by default.
        points: [m, k]; Omega^Phi is then the maximum over these points, for a C or Omega that no solver serves. None
            by default.
        starts: how many further starts are drawn around `start`; 4 by default.
        spread: their standard deviation; 2.0 by default.
        seed: the seed they are drawn with; 0 by default.
        stop: the tolerance and the most steps of the search; 1e-9 and 2000 by default.

    Returns:
        A `Biconjugate`.

    Raises:
        GfyValueError: for a method that is not known.
        UnsupportedError: where the method does not serve the energy.

    Reference: Blondel et al. (2022), Appendix A.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Reals())
        >>> found = gfy.solve_biconjugate(problem, array([[3.0, 4.0]]), method="exact")
        >>> found.v.v.tolist()  # the v with p*(v) = p
        [[3.0, 4.0]]
    """
    if method not in METHODS:
        raise GfyValueError(f"biconjugate method must be one of {', '.join(METHODS)}, got {method!r}")
    check_point(p)
    problem.check_dim(int(p.shape[-1]))
    if method == "grid":
        return _on_grid(problem, p, inputs, points, solver, stop)
    reason = no_exact(problem, int(p.shape[-1]))
    if method == "exact" and reason is not None:
        raise UnsupportedError(f"biconjugate on {problem.name}: {reason}")
    if method == "exact" or (method == "auto" and reason is None):
        v = touching_input(problem, p, start)
        omega = problem.regularizer.value(p)
        return Biconjugate(omega, v, omega * 0)
    if method == "ccp" and problem.energy.in_v == "nonconvex":
        raise UnsupportedError(
            f'{problem.energy.name} is not convex in v: the convex-concave procedure needs it; use "ascent"'
        )
    if not problem.energy.free_in_v:
        raise UnsupportedError(
            f"a search over {problem.energy.name}.Input would leave the inputs that it accepts (for LinearQuadratic "
            'the symmetric negative semi-definite matrices): use "exact" or write the energy as Pairwise'
        )
    # Ascent follows the procedure, because at kinks (maxout, rectifiers) each of them may stall where the
    # other continues.
    procedure = method if method != "auto" else ("ascent" if problem.energy.in_v == "nonconvex" else "both")
    first = zero_input(problem.energy, p) if start is None else problem.energy.coerce(start)
    return _search(problem, p, procedure, first, as_solver(solver), starts, spread, seed, stop)


def no_exact(problem: InnerProblem, k: int) -> str | None:
    """Return the reason why no input that touches Omega at p is known in closed form, in a sentence, or None
    where one is."""
    energy = problem.energy
    if energy.metric is not None:
        if energy.metric == "other":
            return "whether Omega is 1-Lipschitz for a metric given as a function is not known"
        lipschitz = problem.regularizer.lipschitz(problem.domain, k)
        return (
            None
            if lipschitz <= 1
            else f"{problem.regularizer.name} is not known to be 1-Lipschitz on {problem.domain.name}"
        )
    if not energy.concave:
        return f"{energy.name} is not concave in p: a stationary p need not be the argmax"
    if energy.tilts:
        return None
    return f"{energy.name} has no linear term of its own to tilt"


def touching_input(problem: InnerProblem, p: Array, start: Any = None) -> Input:
    """Return v with p = p*(v): grad_p Phi(v, p) = grad Omega(p) (with infinite leaves where grad Omega is),
    or v = p for a metric.

    The leaves other than the linear term are those of `start`, or zero where it is not given, because v is not
    unique.
    """
    energy = problem.energy
    reason = no_exact(problem, int(p.shape[-1]))
    if reason is not None:
        raise UnsupportedError(reason)
    if energy.metric is not None:
        return energy.Input(p)
    base = zero_input(energy, p) if start is None else energy.coerce(start)
    tilted = energy.shift(base, problem.regularizer.grad(p) - energy.grad_p(base, p))
    assert tilted is not None
    return tilted


def grid_conjugate(problem: InnerProblem, inputs: Any, points: Array) -> Array:
    """Return max_j Phi(v_i, p_j) - Omega(p_j) over points [m, k], for inputs with one leading axis -> [n]."""
    wide = tree_map(lambda leaf: leaf[:, None, ...], problem.energy.coerce(inputs))
    xp = backend_of(points, inputs).xp
    return xp.max(problem.energy.value(wide, points[None]) - problem.regularizer.value(points)[None], axis=1)


def _on_grid(
    problem: InnerProblem, p: Array, inputs: Any, points: Any, solver: InnerSolver | None, stop: Stop
) -> Biconjugate:
    if inputs is None:
        raise GfyValueError('method="grid" needs inputs=..., an Input with one leading axis of candidates')
    inputs = problem.energy.coerce(inputs)
    backend = backend_of(p, inputs)
    xp = backend.xp
    if points is None:
        best = as_solver(solver).solve(problem, inputs, None, stop).p
        conjugates = problem.value(inputs, best)
    else:
        conjugates = grid_conjugate(problem, inputs, backend.asarray(points, like=p))
    wide = tree_map(lambda leaf: leaf[:, *([None] * (p.ndim - 1)), ...], inputs)
    scores = problem.energy.value(wide, p[None]) - conjugates[:, *([None] * (p.ndim - 1))]
    chosen = xp.argmax(scores, axis=0)
    value = xp.max(scores, axis=0)
    return Biconjugate(
        value, tree_map(lambda leaf: leaf[chosen], inputs), problem.regularizer.value(p) - value
    )


def _search(
    problem: InnerProblem,
    p: Array,
    procedure: str,
    first: Input,
    solver: Any,
    starts: int,
    spread: float,
    seed: int,
    stop: Stop,
) -> Biconjugate:
    """Return the best of several searches, which run as one batch with a leading axis of starts."""
    reason = solver.unsupported(problem)
    if reason is not None:
        raise UnsupportedError(f"{solver.name} on {problem.name}: {reason}")
    backend = backend_of(p, first)
    xp = backend.xp
    space = space_of(problem.energy, first)
    batch = broadcast_batch(problem.energy, first, p)
    x = backend.stop_gradient(space.flat(first, batch))
    noise = np.random.default_rng(seed).normal(scale=spread, size=(starts, *x.shape))
    noise[:1] *= 0.01  # one start lies near the given one, but off the kinks that this may lie on
    candidates = x[None] + backend.asarray(noise, like=x)
    run = _compiled(backend.name, problem, procedure, solver, space, stop)
    found, values = run(candidates, xp.broadcast_to(p, (starts, *batch, p.shape[-1])))
    chosen = xp.argmax(values, axis=0)[None]
    best = xp.take_along_axis(values, chosen, axis=0)[0]
    x = xp.take_along_axis(found, xp.broadcast_to(chosen[..., None], (1, *found.shape[1:])), axis=0)[0]
    return Biconjugate(best, space.input(x), problem.regularizer.value(p) - best)


@lru_cache(maxsize=64)
def _compiled(
    backend_name: str,
    problem: InnerProblem,
    procedure: str,
    solver: Any,
    space: InputSpace,
    stop: Stop,
) -> Callable[[Array, Array], tuple[Array, Array]]:
    backend = get_backend(backend_name)
    outer = 25

    def conjugate_and_grad(x: Array) -> tuple[Array, Array]:
        v = space.input(backend.stop_gradient(x))
        best = backend.stop_gradient(solver.solve(problem, v, None, Stop(1e-12, 1000)).p)
        return _pull(lambda w: problem.value(space.input(w), best), x)

    def energy_and_grad(x: Array, p: Array) -> tuple[Array, Array]:
        return _pull(lambda w: problem.energy.value(space.input(w), p), x)

    def ascent(x: Array, p: Array) -> Array:
        def objective(w: Array) -> tuple[Array, Array]:
            (a, da), (b, db) = energy_and_grad(w, p), conjugate_and_grad(w)
            return a - b, da - db

        return ascend(objective, x, stop).x

    def linearised(x: Array, p: Array) -> Array:
        """Take one step of the procedure: Phi(., p) is replaced by its tangent at x, which gives a concave
        maximisation."""
        _, tangent = energy_and_grad(x, p)

        def objective(w: Array) -> tuple[Array, Array]:
            b, db = conjugate_and_grad(w)
            return (tangent * w).sum(-1) - b, tangent - db

        return ascend(objective, x, Stop(stop.tol, max(1, stop.max_steps // outer))).x

    def run(x: Array, p: Array) -> tuple[Array, Array]:
        if procedure in ("ccp", "both"):
            x = backend.scan(lambda w: linearised(w, p), x, outer)
        if procedure in ("ascent", "both"):
            x = ascent(x, p)
        return x, energy_and_grad(x, p)[0] - conjugate_and_grad(x)[0]

    return backend.jit(run)


def _pull(fn: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    backend = backend_of(x)
    value, pullback = backend.vjp(fn, x)
    (gradient,) = pullback(backend.xp.ones_like(value))
    return value, gradient
