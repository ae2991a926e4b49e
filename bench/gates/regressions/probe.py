"""Run inside one of the two checkouts: prepare a cell and time it on request, one JSON line at a time.

It is started by its path, with the checkout first on PYTHONPATH, so that `gfy` and `solvers` come from that commit. The
package `bench` is that of the copy that asks, so that both commits do the same work on the same bytes, under the same
clock and judge.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def borrow_bench() -> None:
    """Make `bench` the package that this file belongs to, whatever the commit under test has."""
    package = ModuleType("bench")
    package.__path__ = [str(Path(__file__).resolve().parents[2])]
    sys.modules["bench"] = package


def value_and_grad(library: Any, fn: Any) -> Any:
    """Compute value and gradient, for commits whose backends have no `value_and_grad`."""

    def both(v: Any, *rest: Any) -> Any:
        value, pull = library.vjp(lambda w: fn(w, *rest), v)
        return value, pull(library.xp.ones_like(value))[0]

    return both


class Prepared:
    """Hold a cell that was compiled and warmed up, so that it can be timed."""

    def __init__(self, cell: dict[str, Any], seed: int) -> None:
        import gfy
        from bench.gates.argmax import argmax_call
        from bench.gates.bars.differentiate import gradient_call
        from bench.gates.problems import make
        from bench.measure.clock import Program
        from bench.measure.programs import set_up
        from bench.plan.registry import make_solver

        self.work = make(cell["family"], cell["k"], cell["batch"], cell["rank"], seed)
        self.bench = set_up(self.work.instance, cell["backend"], dtype=cell["dtype"])
        library, v = self.bench.backend, self.bench.inputs[-1]
        if not hasattr(library, "value_and_grad"):
            setattr(type(library), "value_and_grad", value_and_grad)  # noqa: B010
        solver = make_solver(cell["solver"])
        reason = solver.unsupported(self.work.problem)
        if reason is not None:
            raise ValueError(f"{cell['solver']}: {reason}")
        stop = gfy.Stop(tol=cell["tol"], max_steps=cell["max_steps"])
        solve = library.jit(lambda v: solver.solve(self.work.problem, v, stop=stop))
        gradient = gradient_call(self.bench, solver, gfy.Envelope(), stop.tol, stop.max_steps)
        self.programs = {
            "time": Program(lambda: solve(v), library.sync),
            "gradient time": Program(gradient, library.sync),
        }
        self.solution = self.programs["time"].first()
        _, self.gradient = self.programs["gradient time"].first()
        mode = gfy.Implicit()
        self.no_argmax = mode.unsupported(self.work.problem, solver)
        if self.no_argmax is None:
            argmax = argmax_call(self.bench, solver, mode, stop.tol, stop.max_steps)
            self.programs["argmax gradient time"] = Program(argmax, library.sync)
            _, self.argmax = self.programs["argmax gradient time"].first()

    def turn(self, which: str, slice_s: float) -> dict[str, Any]:
        """Return the best sample of one turn of the clock, and the seconds of the turn."""
        program = self.programs[which]
        program.samples.clear()
        spent = program.turn(slice_s)
        return {"seconds": program.best, "spent": spent}

    def accuracy(self) -> dict[str, Any]:
        """Return the largest certified relative gap of the batch, and the leaves of both gradients as plain lists."""
        from bench.measure.certification import worst_gap
        from bench.measure.programs import flat
        from gfy.backend import leaves

        gap = worst_gap(self.work.problem, self.work.inputs, self.solution.p)
        plain = lambda tree: [flat(leaf).tolist() for leaf in leaves(tree)]  # noqa: E731
        argmax = plain(self.argmax) if self.no_argmax is None else str(self.no_argmax)
        return {"gap": gap, "gradient": plain(self.gradient), "argmax": argmax}


def answer(request: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "prepare":
        state["cell"] = Prepared(request["cell"], request["seed"])
        return {"timed": list(state["cell"].programs)}
    if request["do"] == "turn":
        return dict(state["cell"].turn(request["which"], request["slice"]))
    if request["do"] == "accuracy":
        return dict(state["cell"].accuracy())
    raise ValueError(f"unknown request {request['do']!r}")


def main() -> None:
    # The answers go to the real standard output; whatever a library prints goes to standard error.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    root = Path(sys.argv[1]).resolve()
    borrow_bench()
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
