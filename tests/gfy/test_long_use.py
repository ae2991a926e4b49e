"""Long use in one process: losses of changing shapes leave memory, threads and file handles where they were."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gfy

LOSSES = 10_000


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory in use is read from /proc")
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_ten_thousand_losses_of_changing_shapes(framework: str) -> None:
    module: Any = pytest.importorskip("jax.numpy" if framework == "jax" else framework)
    make = module.asarray if framework == "jax" else module.as_tensor
    loss = gfy.FenchelYoungLoss(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0)))
    rng = np.random.default_rng(0)
    shapes = [(batch, k) for batch in range(1, 6) for k in range(3, 8)]

    def some(count: int) -> None:
        for number in range(count):
            batch, k = shapes[number % len(shapes)]
            v = gfy.Pairwise.Input(make(rng.normal(size=(batch, k))), make(rng.normal(size=(batch, k, 1))))
            assert np.isfinite(np.asarray(loss(v, make(np.zeros((batch, k)))))).all()

    some(1000)
    gc.collect()
    before = resident(), threading.active_count(), len(os.listdir("/proc/self/fd"))
    some(LOSSES)
    gc.collect()
    after = resident(), threading.active_count(), len(os.listdir("/proc/self/fd"))
    assert after[0] - before[0] < 64 * 2**20, f"{(after[0] - before[0]) / 2**20:.0f} MiB more than before"
    assert after[1] <= before[1]
    assert after[2] <= before[2]


def test_an_energy_that_is_dropped_is_not_kept_with_the_arrays_of_its_function() -> None:
    """Up to 512 energies stayed in the memory of checked inputs, with what their functions captured."""
    torch = pytest.importorskip("torch")
    from gfy.checks import admit

    scale = torch.ones(3)
    energy = gfy.CustomEnergy(lambda v, p: (scale * v * p).sum(-1), concave=True, k=3)
    problem = gfy.InnerProblem(energy, gfy.Gini(), gfy.Simplex())
    admit(problem, gfy.CustomEnergy.Input(torch.ones(2, 3)))
    held = weakref.ref(energy)
    del energy, problem
    gc.collect()
    assert held() is None
