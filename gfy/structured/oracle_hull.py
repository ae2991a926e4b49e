"""Define a polytope that is known only by a maximiser of linear functions: sequences by Viterbi, matchings by
assignment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gfy.backend import backend_of, namespace
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import dot, matvec
from gfy.numerics.precision import in_single
from gfy.protocols import Array
from gfy.sets.base import ConvexSet

_MOST_ROUNDS = 2_000


@dataclass(frozen=True, eq=False)
class OracleHull(ConvexSet):
    """Represent the convex hull of structures (matchings, sequences) for which only an oracle of the best one is known.

    Linear functions are maximised by one call of the oracle. A projection (SparseMAP) is found by the min-norm-point
    method, which adds one structure per round and keeps the few that it needs. It is exact, and differentiable on the
    face on which it ends. Both run on the host.

    Args:
        oracle: a function that takes NumPy scores [B, k] to a best structure of each, [B, k].
        k: the number of coordinates.

    Raises:
        GfyValueError: when used, where the oracle returns another shape or p has another size.

    Reference: Niculae et al. (2018), "SparseMAP: Differentiable sparse structured inference".

    Example:
        >>> corners = lambda scores: (scores > 0).astype(float)  # the best corner of [0, 1]^2
        >>> hull = gfy.OracleHull(corners, k=2)
        >>> hull.project(array([[1.5, 0.25]])).tolist()
        [[1.0, 0.25]]
    """

    oracle: Callable[[np.ndarray], np.ndarray]
    k: int

    def linear_oracle(self, scores: Array) -> Array:
        backend = backend_of(scores)
        return backend.callback(self._call, scores, backend.stop_gradient(scores))

    @in_single
    def project(self, x: Array) -> Array:
        backend = backend_of(x)
        xp = backend.xp
        fixed = backend.stop_gradient(x)
        like = xp.broadcast_to(fixed[..., None], (*x.shape, x.shape[-1] + 1))
        found = backend.callback(self._nearest, like, fixed)
        # On its face the projection is affine in x. It is the point that was found, plus the part of a change
        # of x along the face.
        return found[..., 0] + matvec(found[..., 1:], x - fixed)

    def atoms(self, x: Array) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return for each example the structures [m, k] that the projection of x mixes, and their weights [m]."""
        rows = backend_of(x).to_numpy(x).reshape(-1, self.k).astype(np.float64)
        return [self._nearest_of(row) for row in rows]

    @in_single
    def violation(self, p: Array) -> Array:
        """Return the distance from p to the hull."""
        apart = self.project(p) - p
        return namespace(p).sqrt(dot(apart, apart))

    def center(self, like: Array) -> Array:
        """Return the mean of the best structures for plus and minus each axis: an inner point wherever the
        hull is wide.
        """
        directions = np.concatenate([np.eye(self.k), -np.eye(self.k)])
        middle = self._call(directions).mean(0)
        return namespace(like).zeros_like(like) + backend_of(like).asarray(middle, like=like)

    def diameter(self, k: int) -> float:
        """Return the diagonal of the smallest box around the hull, which is an upper bound."""
        self.check_dim(k)
        high = np.diagonal(self._call(np.eye(k)))
        low = np.diagonal(self._call(-np.eye(k)))
        return float(np.linalg.norm(high - low))

    def check_dim(self, k: int) -> None:
        if k != self.k:
            raise GfyValueError(f"OracleHull.k is {self.k} but p has {k} coordinates")

    def _call(self, scores: np.ndarray) -> np.ndarray:
        rows = np.asarray(scores, dtype=np.float64).reshape(-1, scores.shape[-1])
        out = np.asarray(self.oracle(rows), dtype=np.float64)
        if out.shape != rows.shape:
            raise GfyValueError(
                f"OracleHull.oracle must return an array shaped as its scores {rows.shape}, got {out.shape}"
            )
        return out.reshape(scores.shape)

    def _nearest(self, x: np.ndarray) -> np.ndarray:
        out = np.empty((*x.shape, x.shape[-1] + 1))
        for place, row in zip(
            out.reshape(-1, self.k, self.k + 1), x.reshape(-1, self.k).astype(np.float64), strict=True
        ):
            atoms, weights = self._nearest_of(row)
            place[:, 0] = weights @ atoms
            along = (atoms[1:] - atoms[0]).T  # the directions of the face
            basis, sizes, _ = (
                np.linalg.svd(along, full_matrices=False) if along.size else (along, np.zeros(0), None)
            )
            basis = basis[:, sizes > 1e-9 * max(1.0, sizes.max(initial=0.0))]
            place[:, 1:] = basis @ basis.T
        return out

    def _nearest_of(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return structures and weights of the nearest point: correct the weights fully, then query a better
        structure.
        """
        atoms = self._call(x[None])
        weights = np.ones(1)
        for _ in range(_MOST_ROUNDS):
            p = weights @ atoms
            slope = x - p
            new = self._call(slope[None])
            gap = float(slope @ (new[0] - p))
            # A structure that already has a weight cannot be better, except by rounding.
            if gap <= 1e-14 * (1 + float(x @ x)) or bool((atoms == new).all(1).any()):
                break
            atoms = np.concatenate([atoms, new])
            weights = _weights(atoms, x)
            atoms, weights = atoms[weights > 0], weights[weights > 0]
        return atoms, weights


def _weights(atoms: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return argmin over the simplex of |w @ atoms - x| by non-negative least squares on the atoms relative to x.

    One more equation asks for a sum of 1. The solution misses that sum and is scaled to it afterwards, because the
    other equations are homogeneous.
    """
    from scipy.optimize import nnls

    scale = max(float(np.abs(atoms - x).max()), 1e-300)
    seen = np.vstack([(atoms - x).T, np.full((1, len(atoms)), scale)])
    goal = np.zeros(len(seen))
    goal[-1] = scale
    found = nnls(seen, goal)[0]
    return np.asarray(found / found.sum())
