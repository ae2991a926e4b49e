"""A batch spread over several devices gives the answers of one device; four host devices are simulated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

SCRIPT = """
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
import gfy, solvers
from jax.sharding import Mesh, NamedSharding, PartitionSpec
assert len(jax.devices()) == 4
rng = np.random.default_rng(3)
problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
v = gfy.Pairwise.Input(u=rng.normal(size=(8, 7)), A=rng.normal(size=(8, 7, 2)))
y = (rng.normal(size=(8, 7)) > 0).astype(float)
mesh = Mesh(np.array(jax.devices()), ("batch",))
place = lambda x: jax.device_put(x, NamedSharding(mesh, PartitionSpec("batch")))
spread = jax.tree_util.tree_map(place, v)
one = jax.tree_util.tree_map(lambda x: jax.device_put(x, jax.devices()[0]), v)
for solver in (solvers.DualNewton(), solvers.ProjectedGradient()):
    solve = jax.jit(lambda v, s=solver: s.solve(problem, v, None, gfy.Stop(1e-10, 2000)).p)
    many, single = solve(spread), solve(one)
    assert len(many.sharding.device_set) == 4, many.sharding
    assert len(single.sharding.device_set) == 1
    np.testing.assert_allclose(np.asarray(many), np.asarray(single), atol=1e-9)
    loss = gfy.FenchelYoungLoss(problem, solver=solver, stop=gfy.Stop(1e-10, 2000))
    gradient = jax.jit(jax.grad(lambda v, y: loss(v, y).sum()))
    for a, b in zip(gradient(spread, place(y)), gradient(one, jax.device_put(y, jax.devices()[0]))):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-8)
print("same")
"""


@pytest.mark.slow
def test_a_sharded_batch_gives_the_same_answers() -> None:
    root = Path(__file__).resolve().parent.parent.parent
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu",
           "PYTHONPATH": str(root)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "same"
