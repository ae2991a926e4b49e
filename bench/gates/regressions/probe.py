"""Runs inside one of the two checkouts: prepares a cell and times it when told to, one JSON line at a time.

Started by path with the checkout first on PYTHONPATH, so that `gfy` and `solvers` come from that commit; this
file and the workloads come from the copy that asks: both commits do the same work on the same bytes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def workloads() -> Any:
    """The asking copy's generator of workloads, whatever the commit under test has."""
    path = Path(__file__).resolve().parents[2] / "problems" / "workloads.py"
    spec = importlib.util.spec_from_file_location("gate_workloads", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Prepared:
    """A cell that was compiled and warmed up: it can be timed."""

    def __init__(self, cell: dict[str, Any], seed: int) -> None:
        import gfy
        import solvers
        from gfy.backend import get_backend

        work = workloads().make(cell["family"], cell["k"], cell["batch"], cell["rank"], seed)
        backend = get_backend(cell["backend"])
        solver = getattr(solvers, cell["solver"])()
        reason = solver.unsupported(work.problem)
        if reason is not None:
            raise ValueError(f"{cell['solver']}: {reason}")
        stop = gfy.Stop(tol=cell["tol"], max_steps=cell["max_steps"])
        self.work, self.v = work, work.place(cell["backend"])
        self.y = workloads().to_device(work.targets(), cell["backend"], "cpu", "float64")
        solve = backend.jit(lambda v: solver.solve(work.problem, v, stop=stop))
        self.solve = lambda: backend.sync(solve(self.v))
        loss = gfy.FenchelYoungLoss(work.problem, solver=solver, gradient=gfy.Envelope(), stop=stop)
        self.gradient = _gradient(cell["backend"], backend, loss, self.v, self.y)

    def accuracy(self) -> dict[str, Any]:
        """The largest certified relative gap of the batch and the gradient as plain lists."""
        import numpy as np

        import gfy
        from gfy.backend import backend_of, leaves

        p = self.solve().p
        certificate = gfy.certify(
            self.work.problem, self.work.inputs, np.asarray(backend_of(p).to_numpy(p), float)
        )
        gap = np.max(np.asarray(certificate.gap) / np.maximum(1.0, np.abs(np.asarray(certificate.value))))
        flat = [np.asarray(backend_of(x).to_numpy(x), float).ravel() for x in leaves(self.gradient())]
        return {"gap": float(gap), "gradient": np.concatenate(flat).tolist()}


def _gradient(name: str, backend: Any, loss: Any, v: Any, y: Any) -> Any:
    if name == "jax":
        import jax

        value_and_grad = jax.jit(jax.grad(lambda v: loss(v, y).sum()))
        return lambda: backend.sync(value_and_grad(v))
    import torch

    from gfy.backend import leaves, tree_map

    def run() -> Any:
        active = tree_map(lambda x: x.detach().requires_grad_(True), v)
        return torch.autograd.grad(loss(active, y).sum(), list(leaves(active)))

    return lambda: backend.sync(run())


def sample(call: Any, seconds: float) -> float:
    """The best of as many calls as fit into a few milliseconds: what one turn of the interleaving takes."""
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now >= end:
            return best


def answer(request: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "prepare":
        state["cell"] = Prepared(request["cell"], request["seed"])
        sample(state["cell"].solve, 0.0)
        sample(state["cell"].gradient, 0.0)
        return {}
    if request["do"] == "time":
        cell = state["cell"]
        return {
            "time": sample(cell.solve, request["slice"]),
            "gradient time": sample(cell.gradient, request["slice"]),
        }
    if request["do"] == "accuracy":
        return dict(state["cell"].accuracy())
    raise ValueError(f"unknown request {request['do']!r}")


def main() -> None:
    # The answers go to the real standard output; whatever a library prints goes to standard error.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    root = Path(sys.argv[1]).resolve()
    import gfy

    loaded = Path(gfy.__file__).resolve()
    if not loaded.is_relative_to(root):
        out.write(json.dumps({"error": f"gfy was imported from {loaded}, not from {root}"}) + "\n")
        return
    state: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), state)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
