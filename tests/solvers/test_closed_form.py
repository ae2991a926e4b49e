"""Closed forms at scales where rounding makes their systems singular."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy
import solvers

K, EXAMPLES = 8, 6


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
@pytest.mark.parametrize("shared", [False, True])
def test_equal_columns_do_not_make_the_closed_form_singular(
    shared: bool, dtype: str, rng: np.random.Generator, asarray: Callable[..., Any], tonumpy: Any
) -> None:
    """torch's solve raised on the system of large equal columns; p* is u less its part along A, and a small rest."""
    scale = {"float32": 1e5, "float64": 1e9}[dtype]
    u, a = rng.normal(size=(EXAMPLES, K)), rng.normal(size=(K,) if shared else (EXAMPLES, K))
    a = np.asarray(a, dtype="float32").astype(float)
    A = scale * np.stack([a, a, 0 * a], axis=-1)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.SquaredNorm(1.0), gfy.Reals())
    v = gfy.Pairwise.Input(asarray(u, dtype), asarray(A, dtype))
    p = tonumpy(solvers.ClosedForm().solve(problem, v).p).astype(float)
    size = 2 * scale**2 * (a * a).sum(-1, keepdims=True)
    along = (a * u).sum(-1, keepdims=True) * a / (a * a).sum(-1, keepdims=True)
    assert np.abs(p - (u - along + along / (1 + size))).max() <= 64 * np.finfo(dtype).eps * np.abs(u).max()


def test_a_maximum_that_is_infinite_is_called_so(backend: str, asarray: Any) -> None:
    problem = gfy.InnerProblem(gfy.LinearQuadratic(concave=False), gfy.SquaredNorm(0.5), gfy.Reals())
    U = np.array([[[0.4, 0.0], [0.0, -1.0]], [[0.6, 0.0], [0.0, -1.0]]])
    v = gfy.LinearQuadratic.Input(asarray(np.ones((2, 2))), asarray(U))
    found = solvers.ClosedForm().solve(problem, v)
    assert found.result.tolist() == [gfy.Result.CONVERGED, gfy.Result.UNBOUNDED]
    assert found.converged.tolist() == [True, False]
    with pytest.raises(gfy.UnsolvedError, match="The maximum is infinite"), gfy.debug():
        gfy.argmax(problem, v)
