"""Measure peak memory in a process per measurement, so that earlier allocations cannot hide it.

For JAX, XLA states what the compiled program needs: arguments, results and temporaries together. For torch, the
resident set of the process is watched, less what it was when libraries and inputs were loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from bench.gates.problems import make
from bench.measure.programs import set_up


def peak_ratio(request: dict[str, Any]) -> tuple[float, float, str]:
    """Return (peak bytes with the inputs, bytes of the inputs, how it was measured), in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.gates.bars.memory", json.dumps(request)],
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_ENABLE_X64": "1"},
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the memory of {request} could not be measured: {done.stderr.strip()[-500:]}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return answer["peak"], answer["inputs"], answer["how"]


class Watch:
    """Measure the highest resident set of this process while a block runs, above where it began."""

    def __enter__(self) -> Watch:
        import psutil

        self._process = psutil.Process()
        self._start = self.peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.0005):
            self.peak = max(self.peak, self._process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.peak = max(self.peak, self._process.memory_info().rss)

    @property
    def grown(self) -> int:
        return self.peak - self._start


def _work(request: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """Return the inputs and the function of them whose memory is measured."""
    import gfy
    import solvers

    workload = make(request.get("family", "pairwise-gini"), request["k"], request["batch"], 1)
    solver = getattr(solvers, request["solver"])()
    bench = set_up(workload.instance, request["backend"])
    v = bench.inputs[-1]
    if request["what"] == "solve":
        return v, lambda inputs: solver.solve(workload.problem, inputs, stop=gfy.Stop(tol=1e-9)).p
    mode = gfy.Unrolled(steps=request["steps"], checkpoint=True)

    def total(inputs: Any) -> Any:
        return gfy.conjugate(workload.problem, inputs, solver=solver, gradient=mode).sum()

    both = bench.backend.value_and_grad(total)
    return v, lambda inputs: both(inputs)[1]


def measure(request: dict[str, Any]) -> dict[str, Any]:
    from gfy.backend import get_backend, leaves

    v, function = _work(request)
    inputs = sum(leaf.nbytes for leaf in leaves(v))
    if get_backend(request["backend"]).staged:
        import jax

        stated = jax.jit(function).lower(v).compile().memory_analysis()
        peak = stated.argument_size_in_bytes + stated.output_size_in_bytes + stated.temp_size_in_bytes
        return {"peak": peak, "inputs": inputs, "how": "as XLA states for the compiled program"}
    small, function_small = _work(
        request | {"k": 8, "batch": 2} | ({"steps": 4} if "steps" in request else {})
    )
    function_small(small)  # the first call loads libraries and starts thread pools
    with Watch() as watch:
        function(v)
    return {"peak": inputs + watch.grown, "inputs": inputs, "how": "resident set of the process"}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
