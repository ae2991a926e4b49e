"""Time per problem the loss with its gradient and the derivative of p*, by every gradient mode, each with its error."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from bench.gates.argmax import argmax_call
from bench.gates.bars.differentiate import gradient_call, modes
from bench.gates.problems import make
from bench.measure.certification import argmax_columns, gradient_columns
from bench.measure.programs import set_up, to_numpy
from bench.measure.reference import Reference, reference
from bench.plan.registry import make_solver
from bench.problems.base import Named
from gfy.backend import leaves

# For each family: the full sizes and the tiny sizes (k, batch, rank), and the solver.
GROUPS: dict[str, tuple[tuple[int, int, int | None], tuple[int, int, int | None], str]] = {
    "pairwise-gini": ((174, 64, 1), (12, 4, 1), "DualNewton"),
    "dense-gini": ((50, 64, None), (8, 4, None), "ProjectedNewton"),
}


@cache
def prepared(family: str, tiny: bool) -> tuple[Named, Reference]:
    """Return the problem and its reference gradient, known to 1e-6 at least."""
    work = make(family, *GROUPS[family][1 if tiny else 0])
    known = reference(set_up(work.instance, "torch"))
    assert isinstance(known, Reference), known
    assert known.loss.uncertainty <= 1e-6
    return work, known


@pytest.mark.parametrize("family", list(GROUPS))
@pytest.mark.parametrize("mode", ["envelope", "implicit", "unrolled"])
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_value_and_gradient(
    benchmark: Any, family: str, mode: str, backend: str, device: str, tiny: bool
) -> None:
    pytest.importorskip(backend)
    pytest.importorskip("torch", reason="the reference is solved with torch")
    work, known = prepared(family, tiny)
    solver, gradient = modes(work.problem, make_solver(GROUPS[family][2]))[mode]
    call = gradient_call(set_up(work.instance, backend, device), solver, gradient, 1e-12, 5_000)
    error = gradient_columns(call()[1], known)["grad_error"]
    benchmark.group = f"gradient of {work.name}"
    facts = {"solver": f"{solver.name} + {mode}", "gradient": mode, "backend": backend, "tol": 1e-12}
    benchmark.extra_info.update(work.columns | facts | {"grad_error": error})
    benchmark.pedantic(call, rounds=5, warmup_rounds=1)
    assert error <= 1e-8 + known.loss.uncertainty


@pytest.mark.parametrize("family", list(GROUPS))
@pytest.mark.parametrize("mode", ["implicit", "unrolled"])
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_argmax_gradient(
    benchmark: Any, family: str, mode: str, backend: str, device: str, tiny: bool
) -> None:
    """Measure dp*/dv with a seeded cotangent, since the loss gradient does not show its errors."""
    pytest.importorskip(backend)
    pytest.importorskip("torch", reason="the reference is solved with torch")
    work, known = prepared(family, tiny)
    solver, gradient = modes(work.problem, make_solver(GROUPS[family][2]))[mode]
    call = argmax_call(set_up(work.instance, backend, device), solver, gradient, 1e-12, 5_000)
    error = argmax_columns([to_numpy(leaf) for leaf in leaves(call()[1])], known).get("argmax_grad_error")
    benchmark.group = f"derivative of the maximiser of {work.name}"
    facts = {"solver": f"{solver.name} + {mode}", "gradient": mode, "backend": backend, "tol": 1e-12}
    benchmark.extra_info.update(work.columns | facts | {"argmax_grad_error": error})
    benchmark.pedantic(call, rounds=5, warmup_rounds=1)
    assert error is not None, known.argmax.missing
    assert error <= 1e-6 + known.argmax.uncertainty
