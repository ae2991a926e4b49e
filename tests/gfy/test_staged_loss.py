"""A loss outside jit in JAX is a few programs per shape, and gives what it gives inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy

jax = pytest.importorskip("jax")


def test_a_new_shape_costs_few_programs(rng: np.random.Generator) -> None:
    from jax import monitoring

    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss = gfy.FenchelYoungLoss(problem)
    programs = []
    monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: programs.append(event) if event.endswith("backend_compile_duration") else None
    )

    def given(k: int) -> tuple[Any, Any]:
        u, A = jax.numpy.asarray(rng.normal(size=(4, k))), jax.numpy.asarray(rng.normal(size=(4, k, 1)))
        return gfy.Pairwise.Input(u, A), jax.numpy.asarray((rng.random((4, k)) > 0.5) * 1.0)

    loss(*given(5))
    before = len(programs)
    v, y = given(7)
    value = loss(v, y)
    assert 0 < len(programs) - before <= 8
    np.testing.assert_allclose(value, jax.jit(loss)(v, y), rtol=1e-12)
    plain = loss._examples(v, y, None)[0]
    np.testing.assert_allclose(value, plain, rtol=1e-12)
