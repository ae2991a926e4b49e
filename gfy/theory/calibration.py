"""Bound the target risk by the surrogate risk: (target excess)^2 <= 8 sigma^2 M (surrogate excess).

The constant M: the proof needs the gradient of the surrogate risk only in the part of v that the target depends on.
Every target here depends on p alone, and an energy with a linear term <u, p> has grad_u = p* - mu, whatever its other
inputs. Smoothness in u alone, 1 / gamma for a gamma-strongly convex Omega, is therefore enough. For (u, U) jointly,
where U must stay negative semi-definite, the paper's M would be (1 + sup |p|^2) / gamma; this is `M_joint`, a weaker
bound.

The constant sigma: the proof needs |V^T (phi(a) - phi(b))| for two predictions. It is at most twice sigma = sup
|V^T phi(a)|, and at most the diameter of these vectors. The square of half the diameter can be a quarter of that of
sigma; this is `half_diameter`, a stronger bound.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of
from gfy.calling.guard import guard
from gfy.conjugate import argmax
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, InnerSolver
from gfy.theory.biconjugate import no_exact
from gfy.theory.decoding import as_target, decode
from gfy.theory.targets import Ndcg, Scaled, Target


@dataclass(frozen=True)
class CalibrationBound:
    """Hold the constants of (target excess risk)^2 <= factor * (surrogate excess risk).

    Args:
        target: the name of the target loss.
        sigma: sup |V^T phi(yhat)| over the predictions.
        half_diameter: half the diameter of {V^T phi(yhat)}, never above sigma; it gives `tight_factor`.
        M: the smoothness of the surrogate in the part of v that the target looks at.
        M_joint: the smoothness in all of v.

    Reference: Blondel et al. (2022), Proposition 4.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> bound = gfy.calibration_bound(problem, "zero_one", k=3)
        >>> bound.sigma, bound.M, bound.factor
        (1.0, 1.0, 8.0)
    """

    target: str
    sigma: float
    half_diameter: float
    M: float
    M_joint: float

    @property
    def factor(self) -> float:
        """Return 8 sigma^2 M, the paper's form."""
        return 8 * self.sigma**2 * self.M

    @property
    def tight_factor(self) -> float:
        """Return 8 half_diameter^2 M, which is at most `factor`."""
        return 8 * self.half_diameter**2 * self.M

    def target_excess(self, surrogate_excess: Any) -> Any:
        """Return the largest target excess risk that a surrogate excess risk allows."""
        return (self.factor * surrogate_excess) ** 0.5

    def surrogate_needed(self, target_excess: Any) -> Any:
        """Return the calibration function xi: a surrogate excess risk below it guarantees a smaller target excess."""
        return target_excess**2 / self.factor


@guard
def calibration_bound(problem: InnerProblem, target: Any, k: int, at: int | None = None) -> CalibrationBound:
    """Compute the factor that bounds the target risk by the surrogate risk: (target)^2 <= 8 sigma^2 M (surrogate).

    Args:
        problem: the inner problem of the Fenchel-Young loss, the surrogate.
        target: a target loss or its name, as for `gfy.decode`.
        k: the number of coordinates of p.
        at: the number of labels of "precision_at_k"; None by default.

    Returns:
        A `CalibrationBound` with sigma, M and the factor.

    Raises:
        UnsupportedError: where the paper's calibration theorem does not apply; the message says why.
        GfyTypeError, GfyValueError: for a target that is not known.

    Reference: Blondel et al. (2022), Proposition 4.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> bound = gfy.calibration_bound(problem, "zero_one", k=3)
        >>> bound.factor, bound.target_excess(0.02)
        (8.0, 0.4)
    """
    wanted = as_target(target, at)
    reason = not_calibrated(problem, wanted)
    if reason is not None:
        raise UnsupportedError(f"{problem.name} is not known to be calibrated for {wanted.name}: {reason}")
    problem.check_dim(k)
    gamma = problem.regularizer.strong_convexity(problem.domain)
    sigma, half = wanted.sigma(problem.domain, k), wanted.half_diameter(problem.domain, k)
    matrix = problem.energy.mixing
    if matrix is not None:  # phi(p) = U p, and the target uses p through the inverse of U
        values = np.linalg.svd(matrix, compute_uv=False)
        return CalibrationBound(
            wanted.name, sigma / values[-1], half / values[-1], values[0] ** 2 / gamma, values[0] ** 2 / gamma
        )
    joint = 1.0 if problem.energy.linear else 1 + problem.domain.largest_norm(k) ** 2
    return CalibrationBound(wanted.name, sigma, half, 1 / gamma, joint / gamma)


def not_calibrated(problem: InnerProblem, target: Target) -> str | None:
    """Return the reason why the calibration theorem does not apply, in a sentence, or None where it does."""
    energy, domain = problem.energy, problem.domain
    reason = target.unsuited(domain)
    if reason is not None:
        return reason
    if not domain.compact:
        return f"{domain.name} is not compact"
    gamma = problem.regularizer.strong_convexity(domain)
    if not 0 < gamma < math.inf:
        return f"{problem.regularizer.name} is not strongly convex on {domain.name}: the loss is not smooth"
    if getattr(target, "varphi", None) is not None:
        return "the target's varphi is not the identity: only targets that look at p itself are covered"
    matrix = energy.mixing
    if matrix is not None:
        if matrix.shape[0] >= matrix.shape[1] and np.linalg.svd(matrix, compute_uv=False)[-1] > 1e-12:
            return None
        return "U has not full column rank: the network cannot express every p"
    if energy.metric is not None:
        return "a metric energy is not linear in v"
    return no_exact(problem, 1)


@guard
def excess_risks(
    problem: InnerProblem, target: Any, v: Any, q: Array, outputs: Array, solver: InnerSolver | None = None
) -> tuple[Array, Array]:
    """Compute the exact excess risks of the target and of the surrogate where the distribution of Y is known.

    The smallest surrogate risk over v is E Omega(Y) - Omega(E Y). By concavity E Phi(v, Y) <= Phi(v, E Y), and the
    linear member of the energy's family touches Omega at E Y.

    Args:
        problem: the inner problem of the Fenchel-Young loss, the surrogate.
        target: a target loss or its name, as for `gfy.decode`.
        v: the energy's Input with one batch axis of size B.
        q: the distribution of Y for each example, [B, n].
        outputs: the n values of Y, [n, k].
        solver: an inner solver; None, the default, chooses one for the problem.

    Returns:
        The pair (target excess risks [B], surrogate excess risks [B]).

    Raises:
        UnsupportedError: where the smallest surrogate risk has no closed form.
        GfyValueError: where v and q differ in their batch axis.

    Reference: Blondel et al. (2022), Section 5 and Proposition 4.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> v, q = gfy.Bilinear.Input(array([[1.0, 0.0]])), array([[0.25, 0.75]])
        >>> target, surrogate = gfy.excess_risks(problem, "zero_one", v, q, array([[1.0, 0.0], [0.0, 1.0]]))
        >>> target.tolist(), surrogate.tolist()
        ([0.5], [0.501])
    """
    wanted = as_target(target)
    reason = no_exact(problem, int(outputs.shape[-1]))
    if reason is not None:
        raise UnsupportedError(f"excess_risks on {problem.name}: {reason}")
    v = problem.energy.coerce(v)
    batch = problem.energy.batch_shape(v)
    if batch != tuple(q.shape[:-1]) or len(batch) != 1:
        raise GfyValueError(
            f"v and q must have one batch axis of the same size, got {batch} and {tuple(q.shape[:-1])}"
        )
    xp = backend_of(v, q).xp
    p = argmax(problem, v, solver=solver)
    # Outputs are computed one at a time, so the batching of each energy is enough.
    energies = [problem.energy.value(v, xp.broadcast_to(y, p.shape)) for y in outputs]
    surrogate = (
        problem.value(v, p) - dot(q, xp.stack(energies, axis=-1)) + problem.regularizer.value(q @ outputs)
    )
    decoded = decode(problem, p, wanted)
    risk = dot(q, wanted.loss(decoded[:, None, :], outputs[None]))
    every = wanted.loss(_predictions(wanted, problem, outputs)[:, None, :], outputs[None])
    return risk - xp.min(q @ xp.matrix_transpose(every), axis=-1), surrogate


def _predictions(target: Target, problem: InnerProblem, outputs: Array) -> Array:
    """Return every prediction that a target has, one per row."""
    backend = backend_of(outputs)
    k = int(outputs.shape[-1])
    if isinstance(target, Ndcg):
        return backend.asarray(np.array(list(itertools.permutations(range(k)))))
    listed = getattr(target, "outputs", None)
    if listed is None:
        space = target.predictions(problem.domain) if isinstance(target, Scaled) else problem.domain
        listed = space.vertices(k)
    return backend.asarray(np.asarray(listed, dtype=np.float64), like=outputs)
