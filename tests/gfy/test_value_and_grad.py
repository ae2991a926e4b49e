"""One value-and-gradient for both frameworks, held against a hand-written derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gfy.backend import get_backend
from gfy.errors import UnsupportedError


def test_value_and_gradient_in_every_leaf(backend: str) -> None:
    library = get_backend(backend)
    rng = np.random.default_rng(0)
    a, b, unused = rng.normal(size=3), rng.normal(size=3), rng.normal(size=2)
    tree = tuple(library.asarray(x, dtype="float64") for x in (a, b, unused))

    def fn(v: Any, scale: Any) -> Any:
        return scale * (v[0] * v[0] * v[1]).sum()

    value, gradient = library.jit(library.value_and_grad(fn))(tree, 2.0)
    assert float(value) == pytest.approx(2 * (a * a * b).sum())
    np.testing.assert_allclose(library.to_numpy(gradient[0]), 4 * a * b)
    np.testing.assert_allclose(library.to_numpy(gradient[1]), 2 * a * a)
    np.testing.assert_array_equal(library.to_numpy(gradient[2]), np.zeros(2))


def test_a_constant_has_no_slope(backend: str) -> None:
    library = get_backend(backend)
    x = library.asarray(np.ones(3), dtype="float64")
    value, gradient = library.value_and_grad(lambda v: library.asarray(np.ones(()), like=x))(x)
    assert float(value) == 1.0
    np.testing.assert_array_equal(library.to_numpy(gradient), np.zeros(3))


def test_numpy_has_none() -> None:
    with pytest.raises(UnsupportedError, match="carry no derivatives"):
        get_backend("numpy").value_and_grad(lambda v: v.sum())
