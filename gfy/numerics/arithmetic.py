"""Define scalar functions that stay exact at their boundaries, written once for every array namespace.

Both frameworks give the same derivative at a kink: `clip` has derivative 1 at its bounds, and `relu` has 0 at zero.
"""

from __future__ import annotations

from gfy.backend import backend_of, namespace
from gfy.protocols import Array


def dot(a: Array, b: Array) -> Array:
    """Return the inner product over the last axis: [..., k], [..., k] -> [...]."""
    return (a * b).sum(-1)


def clip(x: Array, low: Array | float, high: Array | float) -> Array:
    xp = namespace(x)
    return xp.where(x < low, low, xp.where(x > high, high, x))


def relu(x: Array) -> Array:
    xp = namespace(x)
    return xp.where(x > 0, x, xp.zeros_like(x))


def xlogx(x: Array) -> Array:
    """Return x log x with 0 log 0 = 0; the derivative recorded at 0 is finite (0)."""
    xp = namespace(x)
    safe = xp.where(x > 0, x, xp.ones_like(x))
    return xp.where(x > 0, safe * xp.log(safe), xp.zeros_like(x))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) to full relative accuracy on both tails."""
    xp = namespace(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, xp.ones_like(x), small) / (1 + small)


def softplus(x: Array) -> Array:
    xp = namespace(x)
    return relu(x) + xp.log1p(xp.exp(-xp.abs(x)))


def logsumexp(x: Array, keepdims: bool = False) -> Array:
    """Return log sum exp over the last axis, without overflow for any scores."""
    xp = namespace(x)
    top = xp.max(x, axis=-1, keepdims=True)
    total = xp.log(xp.sum(xp.exp(x - top), axis=-1, keepdims=True)) + top
    return total if keepdims else total[..., 0]


def softmax(x: Array) -> Array:
    xp = namespace(x)
    weights = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def one_hot_of_largest(scores: Array) -> Array:
    """Return 1 at the (first) largest score of the last axis and 0 elsewhere, [..., k]."""
    backend = backend_of(scores)
    best = backend.xp.argmax(scores, axis=-1)[..., None]
    return backend.xp.astype(backend.indices(scores.shape[-1], scores) == best, scores.dtype)


def matvec(matrix: Array, x: Array) -> Array:
    """Multiply [..., n, k] by [..., k] -> [..., n]; batch axes are broadcast."""
    # A matrix that the batch shares is read once, in one product of matrices, instead of once per example.
    if matrix.ndim == 2:
        return x @ namespace(matrix).matrix_transpose(matrix)
    return (matrix @ x[..., None])[..., 0]


def symmetric_matvec(matrix: Array, x: Array) -> Array:
    """Multiply as `matvec` does, for a symmetric [..., k, k]. torch multiplies a row by a matrix twice as
    fast as by a column.

    Where the matrix is differentiated the vector stays a column: the derivative in both frameworks is then g x^T, and
    not x g^T.
    """
    # ^The row form is used only where the array itself says that it requires no gradient.
    as_row = matrix.ndim > 2 and not getattr(matrix, "requires_grad", True)
    return (x[..., None, :] @ matrix)[..., 0, :] if as_row else matvec(matrix, x)


def transpose(matrix: Array) -> Array:
    return namespace(matrix).matrix_transpose(matrix)


def solve(matrix: Array, rhs: Array) -> Array:
    """Solve [..., n, n] y = [..., n]; batch axes are broadcast."""
    return namespace(matrix).linalg.solve(matrix, rhs[..., None])[..., 0]
