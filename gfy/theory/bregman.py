"""Compute generalized Bregman divergences between two outputs p and q, or two inputs v and w, of an energy network."""

from __future__ import annotations

from typing import Any

from gfy.backend import backend_of
from gfy.calling.guard import guard
from gfy.calling.named import as_mode
from gfy.checks import check_batches, check_input, check_point
from gfy.conjugate import solve_with
from gfy.energies.inputs import zero_input
from gfy.gradients.envelope import Envelope
from gfy.problem import InnerProblem
from gfy.protocols import Array, GradientMode, InnerSolver, Stop
from gfy.theory.biconjugate import no_exact, solve_biconjugate


@guard
def bregman(
    problem: InnerProblem, p: Array, q: Array, v: Any = None, start: Any = None, **options: Any
) -> Array:
    """Compute the generalized Bregman divergence between two outputs p and q, [...].

    D(p, q) = Omega(p) - Phi(v, p) - Omega(q) + Phi(v, q) with v = argmax_v Phi(v, q) - Omega^Phi(v). Where an input
    that touches Omega at q is known (see `gfy.theory.biconjugate`), D is the usual Bregman divergence of
    Omega - Phi(start, .). For a bilinear energy, and where `start` is not given, it is that of Omega itself. D is
    infinite where the slope of Omega at q is infinite and p leaves q in that direction, as for Kullback and Leibler's
    divergence. Elsewhere v is given or searched for. D is at least zero when Omega is Psi-convex.

    Args:
        problem: the energy, the regularizer and the set.
        p: points, [..., k].
        q: points, [..., k].
        v: the input to use; None, the default, finds it.
        start: the input a search starts from; None, the default, is zero.
        **options: those of `solve_biconjugate`.

    Returns:
        The divergence of each pair, [...].

    Raises:
        GfyValueError, UnsupportedError: for points of other shapes, and as `solve_biconjugate`.

    Reference: Blondel et al. (2022), Appendix A.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> p, q = array([[1.0, 0.0]]), array([[0.5, 0.5]])
        >>> gfy.bregman(problem, p, q).tolist()  # KL(p, q) = log 2
        [0.693]
    """
    regularizer, energy = problem.regularizer, problem.energy
    check_point(q, "q")
    check_point(p, "p", int(q.shape[-1]))
    check_batches(tuple(p.shape[:-1]), tuple(q.shape[:-1]), "p and q")
    apart = regularizer.value(p) - regularizer.value(q)
    known = v is None and options.get("method", "auto") in ("auto", "exact")
    if known and no_exact(problem, int(q.shape[-1])) is None and energy.metric is None:
        base = zero_input(energy, q) if start is None else energy.coerce(start)
        tilt = regularizer.grad(q) - energy.grad_p(base, q)
        return apart - _directional(tilt, p - q) - energy.value(base, p) + energy.value(base, q)
    if v is None:
        v = solve_biconjugate(problem, q, start=start, **options).v
    v = energy.coerce(v)
    return apart - energy.value(v, p) + energy.value(v, q)


@guard
def bregman_dual(
    problem: InnerProblem,
    v: Any,
    w: Any,
    solver: InnerSolver | None = None,
    gradient: GradientMode | None = None,
    stop: Stop = Stop(),
) -> Array:
    """Compute the generalized Bregman divergence between two inputs v and w, which is the loss L(v, p*(w)).

    D(v, w) = Omega^Phi(v) - Phi(v, p*(w)) - Omega^Phi(w) + Phi(w, p*(w)) is at least zero, and it is zero at v = w.

    Args:
        problem: the energy, the regularizer and the set.
        v: an Input of the energy; the divergence is differentiable in it by the envelope theorem.
        w: an Input of the energy.
        solver: an inner solver; None, the default, chooses one for the problem.
        gradient: a mode with dp*/dw (`Implicit()`, `Unrolled()`) makes it differentiable in w as well; None by
            default.
        stop: the tolerance and the most steps of an iterative solver; 1e-8 and 1000 by default.

    Returns:
        The divergence of each pair, [...].

    Raises:
        GfyTypeError, GfyValueError, UnsupportedError: as `gfy.argmax`.

    Reference: Blondel et al. (2022), Appendix A.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.Reals())
        >>> v, w = gfy.Bilinear.Input(array([[1.0, 2.0]])), gfy.Bilinear.Input(array([[1.0, 0.0]]))
        >>> gfy.bregman_dual(problem, v, w).tolist()  # |v - w|^2 / 2
        [2.0]
    """
    v, w = check_input(problem, v), check_input(problem, w)
    mine = solve_with(problem, v, solver, Envelope(), None, stop)
    other = solve_with(problem, w, solver, as_mode(gradient) or Envelope(), None, stop)
    return problem.value(v, mine) - problem.value(v, other)


def _directional(slope: Array, direction: Array) -> Array:
    """Return <slope, direction> with infinity times zero as zero: a slope does not count where p does not move."""
    xp = backend_of(slope, direction).xp
    still = direction == 0
    safe = xp.where(still, xp.zeros_like(slope), slope)
    return (safe * direction).sum(-1)
