"""One group a problem: value and gradient of the loss by every gradient mode, with the gradient's error."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from bench.gates.bars.differentiate import flat, gradient_call, modes, reference_gradient
from bench.gates.bars.gradients import relative
from bench.measure.contest import to_numpy
from bench.problems.workloads import Workload, make

# family -> full sizes, tiny sizes (k, batch, rank), the solver
GROUPS: dict[str, tuple[tuple[int, int, int | None], tuple[int, int, int | None], str]] = {
    "pairwise-gini": ((174, 64, 1), (12, 4, 1), "DualNewton"),
    "dense-gini": ((50, 64, None), (8, 4, None), "ProjectedNewton"),
}


@cache
def prepared(family: str, tiny: bool) -> tuple[Workload, np.ndarray]:
    """The workload and its reference gradient, at a solution whose certified distance is at most 1e-10."""
    import gfy
    import solvers

    work = make(family, *GROUPS[family][1 if tiny else 0])
    solver = getattr(solvers, GROUPS[family][2])()
    p = to_numpy(solver.solve(work.problem, work.place("torch"), stop=gfy.Stop(1e-14, 20_000)).p)
    assert gfy.certify(work.problem, work.inputs, p).distance.max() <= 1e-10
    return work, reference_gradient(work, p)


@pytest.mark.parametrize("family", list(GROUPS))
@pytest.mark.parametrize("mode", ["envelope", "implicit", "unrolled"])
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_value_and_gradient(
    benchmark: Any, family: str, mode: str, backend: str, device: str, tiny: bool
) -> None:
    pytest.importorskip(backend)
    pytest.importorskip("torch", reason="the reference gradient is computed with torch")
    import gfy
    import solvers

    work, truth = prepared(family, tiny)
    solver, gradient = modes(work, getattr(solvers, GROUPS[family][2])())[mode]
    loss = gfy.FenchelYoungLoss(work.problem, solver, gradient, stop=gfy.Stop(1e-12, 5_000))
    call = gradient_call(work, loss, backend, device)
    error = relative(flat(call()), truth)
    benchmark.group = f"gradient of {work.name}"
    facts = {"solver": f"{solver.name} + {mode}", "gradient": mode, "backend": backend, "tol": 1e-12}
    benchmark.extra_info.update(work.facts() | facts | {"grad_error": error})
    benchmark.pedantic(call, rounds=5, warmup_rounds=1)
    assert error <= 1e-8
