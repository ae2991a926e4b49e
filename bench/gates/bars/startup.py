"""Measure what a user waits for before anything is computed: the import, the help, and new shapes in JAX outside jit.

Each is measured in new processes. An import is measured by the processor time of the fastest process, so that other
work of the machine does not count. An installed package has its bytecode; therefore the processes write bytecode to a
folder of their own, where all but the first find it, even where the environment forbids bytecode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench.gates.bars.line import Bar, Line, Scale

IMPORT_S = 0.3
SHAPE_S, SHAPE_MIB = 0.3, 3.0  # seconds and MiB per new shape of an eager loss in JAX: 300 MiB for 100 shapes
_WARM = 3  # the first shapes load the libraries and are not counted


def _processor_seconds(command: list[str], bytecode: str) -> float:
    """Return user and system time of a process that runs the command and keeps its bytecode in a folder."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run(command, capture_output=True, check=True, env=given | {"PYTHONPYCACHEPREFIX": bytecode})
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _imports(scale: Scale) -> list[Line]:
    frameworks = "{'jax', 'torch'} & set(sys.modules)"
    commands = {
        "import gfy": ["-c", f"import sys, gfy; assert not {frameworks}, 'a framework was imported'"],
        "gfy --help": ["-m", "bench.cli", "--help"],
    }
    lines = []
    for name, command in commands.items():
        with tempfile.TemporaryDirectory() as bytecode:
            first, *runs = [
                _processor_seconds([sys.executable, *command], bytecode) for _ in range(3 + scale.rounds)
            ]
        without = f"{first:.2f} without any bytecode"
        detail = f"processor time, the fastest of {len(runs)} processes, no framework imported; {without}"
        lines.append(Line("start-up", f"{name}: seconds", min(runs), "<=", IMPORT_S, detail))
    return lines


def new_shapes(count: int) -> dict[str, Any]:
    """Return seconds and MiB per new shape of a loss and its gradient in JAX, outside jit, in this process."""
    import jax
    import numpy as np
    import psutil

    import gfy

    jax.config.update("jax_enable_x64", True)
    problem = gfy.InnerProblem(gfy.ConcaveSpen("softplus"), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    loss, rng, process = gfy.FenchelYoungLoss(problem), np.random.default_rng(0), psutil.Process()
    begin, memory = 0.0, 0
    for number in range(_WARM + count):
        if number == _WARM:
            begin, memory = time.perf_counter(), process.memory_info().rss
        k = 5 + number
        shapes = ((4, k), (8, k), (8,), (8,), ())
        v = gfy.ConcaveSpen.Input(*(jax.device_put(rng.normal(size=s)) for s in shapes))
        y = jax.device_put(rng.integers(0, 2, size=(4, k)).astype(np.float64))
        jax.block_until_ready(jax.grad(lambda v, y=y: loss(v, y).sum())(v))
    grown = (process.memory_info().rss - memory) / 2**20
    return {"seconds": (time.perf_counter() - begin) / count, "mebibytes": grown / count}


def _shapes(scale: Scale) -> list[Line]:
    count = scale.size(25, 2)
    done = subprocess.run(
        [sys.executable, "-m", "bench.gates.bars.startup", str(count)], capture_output=True, text=True, check=True
    )  # fmt: skip
    found = json.loads(done.stdout.strip().splitlines()[-1])
    what = f"JAX outside jit, loss and gradient of a network energy, each of {count} new shapes"
    return [
        Line("new-shapes", f"{what}: seconds", found["seconds"], "<=", SHAPE_S),
        Line("new-shapes", f"{what}: MiB", found["mebibytes"], "<=", SHAPE_MIB),
    ]


BARS = (
    Bar("start-up", "import gfy and gfy --help <= 0.3 s, without a framework", _imports),
    Bar("new-shapes", "JAX outside jit: a hundred shapes <= 300 MiB, each <= 0.3 s", _shapes),
)  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(new_shapes(int(sys.argv[1]))))
