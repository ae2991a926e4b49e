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
from bench.gates.problems import make

SOLVING = ("PairwiseGini", "PairwiseShannon", "DenseGini", "SimplexGini", "ConcaveSpen", "Memory", "Compile")
SUITES = [
    *(getattr(bench_solve, name) for name in SOLVING),
    *(getattr(bench_gradients, name) for name in ("PairwiseGini", "DenseGini", "ConcaveSpen")),
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
def test_parameters_come_in_one_order_and_none_is_left_out(suite: Any) -> None:
    assert suite.param_names == ["solver", "problem", "k", "batch", "backend", "dtype"]
    assert len(suite.params) == 6
    assert all(suite.params), "a list without entries has no cells"
    assert set(suite.params[4]) <= set(base.BACKENDS)


@pytest.mark.parametrize(
    ("profile", "gpus", "expected"),
    [
        ("fast", (), (["S"], [174], ["jax:cpu", "torch:cpu"], ["float64"])),
        ("regular", (), (["S", "Peer"], [174, 32], ["jax:cpu", "torch:cpu"], ["float64", "float32"])),
        ("regular", ("A GPU",), (["S", "Peer"], [174, 32], base.BACKENDS, ["float64", "float32"])),
        ("full", (), (["S", "Peer"], [174, 32], base.BACKENDS, ["float64", "float32"])),
    ],
)
def test_the_lists_hold_what_the_profile_measures(
    monkeypatch: pytest.MonkeyPatch, profile: str, gpus: tuple[str, ...], expected: Any
) -> None:
    monkeypatch.setenv("GFY_ASV_PROFILE", profile)
    monkeypatch.setattr(base, "gpus", lambda: gpus)
    monkeypatch.setattr(base.importlib.util, "find_spec", lambda name: object())
    solvers, problem, sizes, batch, backends, dtypes = base.cells(["S"], "p", [174, 32], 64, ["Peer"])
    assert (solvers, sizes, backends, dtypes) == expected
    assert (problem, batch) == (["p"], [64])


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
from bench.gates.problems import make
from bench.measure.programs import set_up

first, second = jax.devices()[:2]
work = make("pairwise-gini", 7, 5, 2)
answers, places = [], []
for device in ("cpu:0", "cpu:1"):
    bench = set_up(work.instance, "jax", device)
    v = bench.inputs[-1]
    solve = jax.jit(lambda v: solvers.NAME().solve(work.problem, v, stop=gfy.Stop(1e-10, 500)))
    jax.block_until_ready(solve(v))
    with jax.transfer_guard("disallow"):  # the compiled inner loop asks nothing of the host
        solution = jax.block_until_ready(solve(v))
    call = gradient_call(bench, solvers.NAME(), gfy.Envelope(), 1e-6, 1000)
    call()
    with jax.transfer_guard("disallow"):
        value, gradient = call()
    arrays = [x for x in (*solution, value, *gradient) if x is not None]
    places.append(sorted({str(d.id) for array in arrays for d in array.devices()}))
    answers.append(np.concatenate([np.ravel(a).astype(float) for a in arrays]))
apart = float(np.abs(answers[0] - answers[1]).max())
print(json.dumps({"count": len(jax.devices()), "places": places, "apart": apart}))
"""


@pytest.mark.thin(9)
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
