"""Turn the network's continuous output p in C into the prediction that is best for a target loss."""

from __future__ import annotations

import operator
from typing import Any

from gfy.calling.guard import guard
from gfy.checks import check_point
from gfy.errors import GfyTypeError, GfyValueError, UnsupportedError
from gfy.problem import InnerProblem
from gfy.protocols import Array
from gfy.theory.targets import AffineLoss, Hamming, Ndcg, PrecisionAtK, Target, ZeroOne

TARGETS = ("zero_one", "hamming", "precision_at_k", "ndcg")


@guard
def decode(problem: InnerProblem, p: Array, target: Any, k: int | None = None) -> Array:
    """Turn p [..., K] into the prediction that is best for a target loss: argmin_yhat <phi(yhat), V phi(p) + b>.

    Args:
        problem: the inner problem whose set C p lies in.
        p: the network's output, [..., K].
        target: "zero_one" (classes; the largest coordinate), "hamming" (p > 1/2 on the unit box, the best vertex
            elsewhere), "precision_at_k" (the k largest), "ndcg" (a ranking: item indices, best first), an
            `AffineLoss`, or the triple (V, b, None) of one.
        k: the number of labels of "precision_at_k", a whole number; None by default.

    Returns:
        [..., K], vectors of 0 and 1; for "ndcg" the indices of the items.

    Raises:
        GfyTypeError, GfyValueError: for a target that is not known, a k that is no whole number, and a p that holds
            complex numbers, NaN or infinities.
        UnsupportedError: where the target does not suit the set.

    Reference: Blondel et al. (2022), Equation 12.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> p = array([[0.9, 0.6, 0.1]])
        >>> gfy.decode(problem, p, "hamming").tolist(), gfy.decode(problem, p, "precision_at_k", k=1).tolist()
        ([[1.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]])
    """
    wanted = as_target(target, k)
    check_point(p)
    reason = wanted.unsuited(problem.domain)
    if reason is not None:
        raise UnsupportedError(reason)
    problem.check_dim(int(p.shape[-1]))
    return wanted.decode(p, problem.domain)


def as_target(target: Any, k: int | None = None) -> Target:
    """Return a target loss from its name, its decomposition, or itself."""
    if isinstance(target, Target):
        return target
    if isinstance(target, tuple) and len(target) == 3:
        return AffineLoss(*target)
    if not isinstance(target, str):
        raise GfyTypeError(
            f"target must be a name, an AffineLoss or (V, b, varphi), got {type(target).__name__}"
        )
    if target == "precision_at_k":
        if k is None:
            raise GfyTypeError('target "precision_at_k" needs k=..., the number of labels predicted')
        return PrecisionAtK(_whole(k))
    simple: dict[str, Target] = {"zero_one": ZeroOne(), "hamming": Hamming(), "ndcg": Ndcg()}
    if target not in simple:
        raise GfyValueError(f"target must be one of {', '.join(TARGETS)} or an AffineLoss, got {target!r}")
    return simple[target]


def _whole(k: Any) -> int:
    try:
        return operator.index(k)
    except TypeError:
        raise GfyTypeError(f'target "precision_at_k" needs a whole number k, got {k!r}') from None
