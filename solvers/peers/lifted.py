"""Write quadratic programs for sparse codes: low-rank interactions become t = A^T p with t among the unknowns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from solvers.peers.quadratic import Programs


class Lifted(NamedTuple):
    """Hold min 1/2 <x, P x> + <q, x> with E x = e (m rows, then the sum), x[:k] between its bounds; x = (p, t)."""

    P: Any  # scipy.sparse, symmetric
    q: np.ndarray
    E: Any  # scipy.sparse, or None without equalities
    e: np.ndarray
    bounded: int  # k, the number of unknowns with bounds, which come first


def shared(given: Programs) -> bool:
    """Return whether the programs differ in their linear terms alone, so that one set-up serves all of them."""
    return len(given.H if given.A is None else given.A) == 1


def linear(given: Programs, n: int) -> np.ndarray:
    """Return q of program n alone."""
    A = given.factor(n)
    return given.g[n] if A is None else np.concatenate([given.g[n], np.zeros(A.shape[1])])


def lift(given: Programs, n: int) -> Lifted:
    """Return program n; a dense Hessian stays as it is."""
    from scipy import sparse

    k = given.g.shape[1]
    A = given.factor(n)
    sums = [] if given.total is None else [given.total]
    if A is None:
        rows = sparse.csc_matrix(np.ones((1, k))) if sums else None
        return Lifted(sparse.csc_matrix(given.hessian(n)), given.g[n], rows, np.array(sums), k)
    m = A.shape[1]
    P = sparse.block_diag([given.curvature * sparse.eye(k), sparse.eye(m)], format="csc")
    link = sparse.hstack([sparse.csc_matrix(A.T), -sparse.eye(m)], format="csc")
    if sums:
        link = sparse.vstack([link, np.concatenate([np.ones(k), np.zeros(m)])[None]], format="csc")
    return Lifted(P, linear(given, n), link, np.concatenate([np.zeros(m), sums]), k)
