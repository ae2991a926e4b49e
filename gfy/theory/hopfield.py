"""Retrieve patterns from an associative memory: each update is one convex-concave step."""

from __future__ import annotations

from typing import Any, NamedTuple

from gfy.backend import backend_of
from gfy.calling.guard import guard
from gfy.checks import check_input, check_start
from gfy.errors import GfyTypeError, GfyValueError, UnsupportedError
from gfy.problem import InnerProblem
from gfy.protocols import Array


class Retrieval(NamedTuple):
    """Hold p [..., k] after the last update, and Phi - Omega before the first update and after each, [steps +
    1, ...]."""

    p: Array
    values: Array


@guard
def retrieve(problem: InnerProblem, v: Any, query: Array, steps: int = 1) -> Retrieval:
    """Update a query by convex-concave steps: p <- p_Omega(grad_p Phi(v, p)), `steps` times.

    Where Phi is convex in p, each step maximises the concave lower bound of Phi - Omega that touches it at p, so the
    values never decrease. The result is differentiable in v and in the query.

    Args:
        problem: an energy that is convex in p (`gfy.Hopfield`, or one that is linear), a regularizer with an argmax
            map on the set, and the set.
        v: the energy's Input.
        query: where the updates start, [..., k].
        steps: the number of updates, at least 1; 1 by default.

    Returns:
        A `Retrieval`: the updated p [..., k] and the values along the way, [steps + 1, ...].

    Raises:
        GfyTypeError, GfyValueError: for arguments that cannot be used.
        UnsupportedError: where Phi is not known to be convex in p, or Omega has no argmax map on the set.

    Reference: Yuille and Rangarajan (2003); Santos et al. (2024), Hopfield-Fenchel-Young networks.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Hopfield(gfy.Gini(), beta=2.0), gfy.SquaredNorm(), gfy.Reals())
        >>> v = gfy.Hopfield.Input(u=array([[0.0, 0.0]]), X=array([[1.0, 0.0], [0.0, 1.0]]))
        >>> gfy.retrieve(problem, v, array([[0.2, 0.8]]), steps=2).p.tolist()
        [[0.0, 1.0]]
    """
    if not (problem.energy.convex or problem.energy.linear):
        raise UnsupportedError(
            f"retrieve takes convex-concave steps, which need an energy that is convex in p: {problem.energy.name} is "
            "not; use gfy.Hopfield, or gfy.argmax for this one"
        )
    reason = problem.regularizer.no_argmax(problem.domain)
    if reason is not None:
        raise UnsupportedError(f"retrieve on {problem.name}: {reason}")
    if steps < 1:
        raise GfyValueError(f"steps must be at least 1, got {steps!r}")
    v = check_input(problem, v)
    if query is None:
        raise GfyTypeError("query must be an array [..., k], got None")
    p = check_start(problem, v, query)
    values = [problem.value(v, p)]
    for _ in range(steps):
        p = problem.fixed_point(v, p)
        values.append(problem.value(v, p))
    return Retrieval(p, backend_of(p).xp.stack(values))
