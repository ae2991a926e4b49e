"""Define chains of labels: sequences y_1 .. y_T of S states as 0/1 vectors, their marginal polytope, oracle
and entropy.

A sequence is a vector of T S indicators of states followed by (T - 1) S S indicators of neighbouring pairs. The
scores of all states and transitions form a vector of the same shape. The convex hull of all S^T sequences is the
marginal polytope.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError, UnsupportedError
from gfy.numerics.arithmetic import dot, logsumexp, xlogx
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.regularizers.base import Regularizer
from gfy.regularizers.bounds import GapBound
from gfy.sets.base import ConvexSet
from gfy.structured.oracle_hull import OracleHull

_MOST_SEQUENCES = 100_000


@dataclass(frozen=True)
class Chain:
    """Represent sequences of T labels, each one of S states, as vectors of 0 and 1, and the polytope they span.

    A vector has T S indicators of states followed by (T - 1) S S indicators of neighbouring pairs, `k` in all.

    Args:
        length: T, the number of labels, at least 1.
        states: S, the number of states, at least 1.

    Raises:
        GfyValueError: for a length or a number of states below 1.

    Reference: Lafferty, McCallum and Pereira (2001), on chains; Blondel et al. (2022), Section 3.

    Example:
        >>> chain = gfy.Chain(length=2, states=2)
        >>> chain.k, chain.encode([0, 1]).tolist()  # two states, then the pair (0, 1)
        (8, [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    """

    length: int
    states: int

    def __post_init__(self) -> None:
        if self.length < 1 or self.states < 1:
            raise GfyValueError(
                f"Chain needs length >= 1 and states >= 1, got {self.length} and {self.states}"
            )

    @property
    def nodes(self) -> int:
        return self.length * self.states

    @property
    def k(self) -> int:
        return self.nodes + (self.length - 1) * self.states**2

    def split(self, p: Array) -> tuple[Array, Array]:
        """Split [..., k] into states [..., T, S] and neighbouring pairs [..., T - 1, S, S]."""
        xp, lead = namespace(p), tuple(p.shape[:-1])
        T, S = self.length, self.states
        return xp.reshape(p[..., : T * S], (*lead, T, S)), xp.reshape(p[..., T * S :], (*lead, T - 1, S, S))

    def encode(self, labels: np.ndarray) -> np.ndarray:
        """Return sequences of labels [..., T] as vectors [..., k]."""
        labels = np.asarray(labels)
        unary = np.eye(self.states)[labels]
        pairs = unary[..., :-1, :, None] * unary[..., 1:, None, :]
        lead = labels.shape[:-1]
        return np.concatenate([unary.reshape(*lead, -1), pairs.reshape(*lead, -1)], axis=-1)

    def sequences(self) -> np.ndarray:
        """Return every sequence as a vector, [S^T, k]."""
        if self.states**self.length > _MOST_SEQUENCES:
            raise UnsupportedError(
                f"a chain of {self.length} labels in {self.states} states has too many sequences to list"
            )
        return self.encode(np.array(list(itertools.product(range(self.states), repeat=self.length))))

    def viterbi(self, scores: np.ndarray) -> np.ndarray:
        """Return a best sequence for each row of scores, [B, k] -> [B, k]."""
        unary, pairs = self.split(np.asarray(scores))
        best, back = unary[:, 0], []
        for t in range(1, self.length):
            through = best[:, :, None] + pairs[:, t - 1]
            back.append(through.argmax(1))
            best = through.max(1) + unary[:, t]
        rows = np.arange(len(best))
        labels = [best.argmax(-1)]
        for pointers in reversed(back):
            labels.append(pointers[rows, labels[-1]])
        return self.encode(np.stack(labels[::-1], axis=-1))

    def polytope(self) -> OracleHull:
        """Return the marginal polytope, which is known by its Viterbi oracle."""
        return OracleHull(self.viterbi, self.k)

    def forward_backward(self, scores: Array) -> tuple[Array, Array]:
        """Return log sum over all sequences of exp(score), [...], and the marginals of the Gibbs
        distribution, [..., k].
        """
        xp = namespace(scores)
        unary, pairs = self.split(scores)
        forward, backward = [unary[..., 0, :]], [xp.zeros_like(unary[..., 0, :])]
        for t in range(1, self.length):
            forward.append(
                logsumexp(xp.matrix_transpose(forward[-1][..., :, None] + pairs[..., t - 1, :, :]))
                + unary[..., t, :]
            )
        for t in reversed(range(1, self.length)):
            ahead = unary[..., t, :] + backward[-1]
            backward.append(logsumexp(pairs[..., t - 1, :, :] + ahead[..., None, :]))
        backward = backward[::-1]
        total = logsumexp(forward[-1])
        states = [xp.exp(f + b - total[..., None]) for f, b in zip(forward, backward, strict=True)]
        parts = [xp.concat(states, axis=-1)]
        for t in range(1, self.length):
            ahead = (unary[..., t, :] + backward[t])[..., None, :]
            joint = xp.exp(
                forward[t - 1][..., :, None] + pairs[..., t - 1, :, :] + ahead - total[..., None, None]
            )
            parts.append(xp.reshape(joint, (*joint.shape[:-2], self.states**2)))
        return total, xp.concat(parts, axis=-1)


@dataclass(frozen=True)
class ChainEntropy(Regularizer):
    """Represent the negative entropy of a Markov chain with marginals p; p* are then Gibbs marginals.

    Omega(p) = gamma (sum over pairs of xlogx - sum over inner states of xlogx). This is exact, because a chain has no
    loops. It is convex, and its slope is infinite on the boundary.

    Args:
        chain: the chain whose sequences p describes.
        gamma: the temperature, a positive number; 1.0 by default.

    Raises:
        GfyValueError: for a gamma that is not positive.
        UnsupportedError: when used on a set that is not the chain's polytope.

    Example:
        >>> chain = gfy.Chain(length=2, states=2)
        >>> p = gfy.ChainEntropy(chain).argmax(array([0.0] * 8), chain.polytope())
        >>> p.tolist()  # without scores every sequence is equally likely
        [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    """

    chain: Chain
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not self.gamma > 0:
            raise GfyValueError(f"ChainEntropy.gamma must be a positive number, got {self.gamma!r}")

    def value(self, p: Array) -> Array:
        states, pairs = self.chain.split(p)
        if self.chain.length == 1:
            return self.gamma * xlogx(states).sum(-1).sum(-1)
        inner = xlogx(states[..., 1:-1, :]).sum(-1).sum(-1)
        return self.gamma * (xlogx(pairs).sum(-1).sum(-1).sum(-1) - inner)

    def grad(self, p: Array) -> Array:
        states, pairs = self.chain.split(p)
        xp, lead = namespace(p), tuple(p.shape[:-1])
        inner = np.zeros((self.chain.length, 1))
        inner[1:-1] = -1.0
        if self.chain.length == 1:
            inner[:] = 1.0
        slope = (_log(states) + 1) * backend_of(p).asarray(inner, like=p)
        nodes = xp.reshape(slope, (*lead, self.chain.nodes))
        return self.gamma * xp.concat(
            [nodes, xp.reshape(_log(pairs) + 1, (*lead, self.chain.k - self.chain.nodes))], axis=-1
        )

    def unsuited(self, domain: ConvexSet) -> str | None:
        if isinstance(domain, OracleHull) and domain.k == self.chain.k:
            return None
        if domain.finite and self._consistent(domain.vertices(self.chain.k)):
            return None
        return (
            f"ChainEntropy is convex only on the marginals of a chain of {self.chain.length} labels in "
            f"{self.chain.states} states, and {domain.name} holds other points: use chain.polytope()"
        )

    def _consistent(self, points: np.ndarray) -> bool:
        """Return whether the points are marginals: pairs sum to the states on either side of them."""
        if points.shape[-1] != self.chain.k or points.min(initial=0.0) < 0:
            return False
        states, pairs = self.chain.split(points)
        apart = [pairs.sum(-1) - states[:, :-1], pairs.sum(-2) - states[:, 1:], states.sum(-1) - 1]
        return all(float(np.abs(x).max(initial=0.0)) <= 1e-12 for x in apart)

    def no_argmax(self, domain: ConvexSet) -> str | None:
        if isinstance(domain, OracleHull) and getattr(domain.oracle, "__self__", None) == self.chain:
            return None
        return (
            f"ChainEntropy has an argmax (forward-backward) on its own chain's polytope, not on {domain.name}"
        )

    @in_single
    def argmax(self, theta: Array, domain: ConvexSet) -> Array:
        reason = self.no_argmax(domain)
        if reason is not None:
            raise UnsupportedError(reason)
        return self.chain.forward_backward(theta / self.gamma)[1]

    @in_single
    def conjugate(self, theta: Array, domain: ConvexSet) -> Array:
        reason = self.no_argmax(domain)
        if reason is not None:
            raise UnsupportedError(reason)
        return self.gamma * self.chain.forward_backward(theta / self.gamma)[0]

    def gap(self, theta: Array, p: Array, domain: ConvexSet, blur: Array | float = 0.0) -> GapBound:
        if self.no_argmax(domain) is not None:
            return super().gap(theta, p, domain, blur)
        xp = namespace(theta)
        total, best = self.chain.forward_backward(theta / self.gamma)
        # The conjugate is a closed formula. Its rounding, and that of the sums it is compared with, grows
        # with the length of the chain.
        largest = self.gamma * self.chain.forward_backward(xp.abs(theta) / self.gamma)[0]
        parts = self.gamma * xp.abs(xlogx(p)).sum(-1) + dot(xp.abs(theta), p)
        rounding = (4 + self.chain.length) * backend_of(theta).eps(theta) * (largest + parts)
        gap = self.gamma * total - dot(theta, p) + self.value(p) + rounding + ((best + p) * blur).sum(-1)
        return GapBound(gap, best, xp.full_like(gap, float("inf")), xp.zeros_like(gap))


def _log(p: Array) -> Array:
    """Return log p, with a large negative number at 0, where only linear oracles use the slope."""
    xp = namespace(p)
    tiny = 1e-300 if "64" in str(p.dtype) else 1e-38
    return xp.log(xp.where(p > tiny, p, xp.full_like(p, tiny)))
