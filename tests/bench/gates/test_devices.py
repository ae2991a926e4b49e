"""What can be shown of GPUs without one: devices are asked for, arrays stay where they are, calls wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from bench.gates.asv_suites import base, bench_gradients, bench_solve, bench_training
from bench.gates.bars.contenders import solver_contender
from bench.gates.bars.line import Scale
from bench.problems.workloads import make

SOLVING = ("PairwiseGini", "PairwiseShannon", "DenseGini", "SimplexGini", "ConcaveSpen", "Memory", "Compile")
SUITES = [
    *(getattr(bench_solve, name) for name in SOLVING),
    *(
        getattr(bench_gradients, name)
        for name in ("PairwiseGini", "DenseGini", "ConcaveSpen", "Disagreement")
    ),
    bench_training.Training,
]


def pretend(monkeypatch: pytest.MonkeyPatch, gpus: tuple[str, ...], devices: list[str]) -> None:
    monkeypatch.setattr(base, "gpus", lambda: gpus)
    monkeypatch.setattr(base, "devices", lambda framework: devices)


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_a_gpu_is_measured_where_there_is_one(monkeypatch: pytest.MonkeyPatch, framework: str) -> None:
    pytest.importorskip(framework)
    pretend(monkeypatch, ("A GPU, 80 GiB",), ["cpu", "cuda"])
    assert base.need(f"{framework}:cuda") == (framework, "cuda")
    pretend(monkeypatch, ("A GPU, 80 GiB",), ["cpu"])  # a driver, but a framework built without CUDA
    with pytest.raises(NotImplementedError, match=f"{framework} sees no cuda device"):
        base.need(f"{framework}:cuda")
    pretend(monkeypatch, (), ["cpu"])
    with pytest.raises(NotImplementedError, match="no cuda device"):
        base.need(f"{framework}:cuda")
    assert base.need(f"{framework}:cpu") == (framework, "cpu")


def test_a_framework_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotImplementedError, match="torch is not installed"):
        base.need("torch:cpu")


@pytest.mark.parametrize("suite", SUITES, ids=lambda s: f"{s.__module__.split('.')[-1]}.{s.__name__}")
def test_parameters_are_fixed_and_in_one_order(suite: Any) -> None:
    assert suite.param_names == ["solver", "problem", "k", "batch", "backend", "dtype"]
    assert len(suite.params) == 6
    kinds = {"jax:cpu", "jax:cuda", "torch:cpu", "torch:cuda", "both:cpu", "both:cuda"}
    assert {"jax:cpu", "both:cpu"} & set(suite.params[4])
    assert set(suite.params[4]) <= kinds
    assert any(name.endswith(":cuda") for name in suite.params[4])


@pytest.mark.parametrize(
    ("profile", "measured"), [("fast", {"float64"}), ("regular", {"float64", "float32"}), ("full", None)]
)
def test_the_profile_chooses_cells(
    monkeypatch: pytest.MonkeyPatch, profile: str, measured: set[str] | None
) -> None:
    monkeypatch.setenv("GFY_ASV_PROFILE", profile)
    kept = set()
    for dtype in ("float64", "float32"):
        for k in (174, 32):
            try:
                base.in_profile(False, k, [174, 32], dtype, "jax:cpu")
            except NotImplementedError:
                continue
            kept.add((dtype, k))
    expected = {"fast": 1, "regular": 4, "full": 4}[profile]
    assert len(kept) == expected
    assert measured is None or {dtype for dtype, _ in kept} == measured
    base.in_profile(True, 32, [174, 32], "float32", "jax:cuda")  # a GPU is measured in every profile


def test_an_unknown_profile_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFY_ASV_PROFILE", "quick")
    with pytest.raises(ValueError, match="fast, regular, full"):
        base.profile()


def test_every_timed_call_waits(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    import solvers
    from gfy.backend import get_backend

    waited = []
    library = get_backend(backend)
    plain = type(library).sync
    monkeypatch.setattr(type(library), "sync", lambda self, tree: (waited.append(1), plain(self, tree))[1])
    build = solver_contender(make("pairwise-gini", 6, 3), solvers.DualNewton(), backend, Scale())
    contender, _ = build(1e-8)
    contender.call()
    assert len(waited) == 1
    prepared = base.Prepared("DualNewton", "pairwise-gini", 6, 3, f"{backend}:cpu", "float64")
    waited.clear()
    solve = prepared.solve_fn()
    call = prepared.warm(lambda: solve(prepared.v))
    assert len(waited) == 2, "two warm-up calls"
    call()
    assert len(waited) == 3


ON_THE_SECOND_DEVICE = """
import json
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import gfy, solvers
from bench.gates.bars.differentiate import gradient_call
from bench.problems.workloads import make

first, second = jax.devices()[:2]
work = make("pairwise-gini", 7, 5, 2)
answers, places = [], []
for device in ("cpu:0", "cpu:1"):
    v = work.place("jax", device)
    solve = jax.jit(lambda v: solvers.NAME().solve(work.problem, v, stop=gfy.Stop(1e-10, 500)))
    jax.block_until_ready(solve(v))
    with jax.transfer_guard("disallow"):  # the compiled inner loop asks nothing of the host
        solution = jax.block_until_ready(solve(v))
    loss = gfy.FenchelYoungLoss(work.problem, solvers.NAME(), gfy.Envelope())
    call = gradient_call(work, loss, "jax", device)
    call()
    with jax.transfer_guard("disallow"):
        value, gradient = call()
    arrays = [*solution, value, *gradient]
    places.append(sorted({str(d.id) for array in arrays for d in array.devices()}))
    answers.append(np.concatenate([np.ravel(a).astype(float) for a in arrays]))
apart = float(np.abs(answers[0] - answers[1]).max())
print(json.dumps({"count": len(jax.devices()), "places": places, "apart": apart}))
"""


@pytest.mark.parametrize("solver", ["DualNewton", "ProjectedGradient"])
def test_work_stays_on_the_device_it_was_put_on(solver: str) -> None:
    pytest.importorskip("jax")
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    code = ON_THE_SECOND_DEVICE.replace("NAME", solver)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["count"] == 2
    assert found["places"] == [["0"], ["1"]]
    assert found["apart"] == 0.0


def test_the_guard_of_the_test_above_can_fail() -> None:
    """A function that fetches from the host does not pass under the same guard."""
    jax = pytest.importorskip("jax")
    import numpy as np

    add = jax.jit(lambda x, y: x + y)
    x = jax.numpy.ones(3)
    with pytest.raises(Exception, match="[Dd]isallowed"), jax.transfer_guard("disallow"):
        add(x, np.ones(3))
