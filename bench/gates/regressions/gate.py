"""Lets two commits take turns on the same work and judges what changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from bench.gates.regressions.cells import Cell
from bench.gates.regressions.checkout import side_by_side
from bench.gates.regressions.verdict import Verdict, judge
from bench.problems.workloads import make

PROBE = Path(__file__).with_name("probe.py")


class ProbeError(RuntimeError):
    """What a commit answered in place of a measurement."""


class Probe:
    """One process that runs the code of one checkout."""

    def __init__(self, checkout: Path) -> None:
        env = os.environ | {"PYTHONPATH": str(checkout), "JAX_ENABLE_X64": "1", "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(PROBE), str(checkout)],
            cwd=checkout,
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            said = (self._process.stderr.read() if self._process.stderr else "").strip().splitlines()
            raise ProbeError(f"the process ended ({said[-1] if said else 'no message'})")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise ProbeError(reply["error"])
        return reply

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass(frozen=True)
class Effort:
    """How long to look: launches of both processes, rounds in each, seconds of a turn, seeds for accuracy."""

    launches: int = 3
    rounds: int = 12
    slice_s: float = 0.02
    seeds: int = 5


def reference_gradient(cell: Cell, seed: int) -> np.ndarray:
    """The loss's gradient at a solution far more accurate than the cell asks for, by this copy's own code."""
    import gfy
    import solvers
    from gfy.backend import backend_of, leaves

    work = make(cell.family, cell.k, cell.batch, cell.rank, seed)
    v, y = work.place(cell.backend), work.targets()
    p = solvers.Auto().solve(work.problem, v, stop=gfy.Stop(tol=1e-14, max_steps=20_000)).p
    backend = backend_of(p)
    p_fixed, y_fixed = backend.stop_gradient(p), backend.asarray(y, like=p)
    # The envelope theorem, written out: dL/dv = d Phi(v, p*)/dv - d Phi(v, y)/dv.
    energy = work.problem.energy
    _, pullback = backend.vjp(lambda w: (energy.value(w, p_fixed) - energy.value(w, y_fixed)).sum(), v)
    (gradient,) = pullback(backend.asarray(np.ones(()), like=p))
    return np.concatenate([np.asarray(backend.to_numpy(x), float).ravel() for x in leaves(gradient)])


def _accuracy(cell: Cell, probes: Sequence[Probe], seeds: int) -> dict[str, list[list[float]]]:
    """Per commit, the certified gap and the gradient error of several seeds."""
    found: dict[str, list[list[float]]] = {"certified gap": [[], []], "gradient error": [[], []]}
    for seed in range(seeds):
        truth = reference_gradient(cell, seed)
        for side, probe in enumerate(probes):
            probe.ask(do="prepare", cell=cell.asdict(), seed=seed)
            reply = probe.ask(do="accuracy")
            error = np.linalg.norm(np.asarray(reply["gradient"]) - truth) / np.linalg.norm(truth)
            found["certified gap"][side].append(reply["gap"])
            found["gradient error"][side].append(float(error))
    return found


def _measure(cell: Cell, places: Sequence[Path], effort: Effort, matters: float | None) -> list[Verdict]:
    samples: dict[str, list[list[list[float]]]] = {"time": [[], []], "gradient time": [[], []]}
    accuracy: dict[str, list[list[float]]] = {}
    for launch in range(effort.launches):
        with Probe(places[0]) as base, Probe(places[1]) as head:
            probes = (base, head)
            if launch == 0:
                accuracy = _accuracy(cell, probes, effort.seeds)
            for probe in probes:
                probe.ask(do="prepare", cell=cell.asdict(), seed=0)
            for sides in samples.values():
                for rounds in sides:
                    rounds.append([])
            for turn in range(effort.rounds):
                for side in (0, 1) if (turn + launch) % 2 == 0 else (1, 0):
                    reply = probes[side].ask(do="time", slice=effort.slice_s)
                    for metric, sides in samples.items():
                        sides[side][-1].append(reply[metric])
    verdicts = [judge(cell.name, m, sides[0], sides[1], matters=matters) for m, sides in samples.items()]
    return verdicts + [judge(cell.name, metric, [sides[0]], [sides[1]]) for metric, sides in accuracy.items()]


def compare_commits(
    repo: Path,
    base: str,
    head: str,
    cells: Sequence[Cell],
    effort: Effort = Effort(),
    matters: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Verdict]:
    """The verdicts of every cell; one that a commit cannot run is `not comparable`, with its own reason."""
    verdicts: list[Verdict] = []
    with side_by_side(repo, base, head) as places:
        for cell in cells:
            tell(cell.name)
            try:
                verdicts += _measure(cell, places, effort, matters)
            except ProbeError as error:
                nan = float("nan")
                verdicts.append(
                    Verdict(cell.name, "time", nan, nan, nan, nan, nan, "not comparable", str(error))
                )
    return verdicts
