"""Measure two commits in turns on the same work and judge what changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from bench.gates.problems import make
from bench.gates.regressions.cells import Cell
from bench.gates.regressions.checkout import side_by_side
from bench.gates.regressions.verdict import METRICS, Verdict, controlled, judge
from bench.measure.clock import Program, rotate
from bench.measure.programs import set_up
from bench.measure.reference import Reference, reference
from gfy.backend import leaves

PROBE = Path(__file__).with_name("probe.py")
TIMED = tuple(metric for metric, (kind, _, _) in METRICS.items() if kind == "ratio")


class ProbeError(RuntimeError):
    """A commit answered with an error instead of a measurement."""


class Probe:
    """Run the code of one checkout in one process."""

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
    """Say how long to measure: launches of the processes, rounds in each, seconds of a turn, seeds for
    accuracy, and whether a second process of BASE shows what changes by itself.
    """

    launches: int = 3
    rounds: int = 12
    slice_s: float = 0.02
    seeds: int = 5
    control: bool = True


class Remote(Program):
    """Represent a program of a cell inside a probe: a turn is taken and timed there, by the same clock."""

    def __init__(self, probe: Probe, metric: str) -> None:
        super().__init__(lambda: None, lambda result: result, metric)
        self._probe = probe

    def turn(self, slice_s: float = 0.0) -> float:
        reply = self._probe.ask(do="turn", which=self.owner, slice=slice_s)
        self.samples.append(reply["seconds"])
        return float(reply["spent"])


def _accuracy(cell: Cell, probes: Sequence[Probe], seeds: int) -> list[Verdict]:
    """Return the verdicts on certified gap and gradient errors, over several seeds, by this copy's judge and
    reference."""
    gaps: list[list[float]] = [[], []]
    errors: dict[str, list[list[float]]] = {"gradient error": [[], []], "argmax gradient error": [[], []]}
    unchecked: dict[str, str] = {}
    for seed in range(seeds):
        instance = make(cell.family, cell.k, cell.batch, cell.rank, seed).instance
        bench = set_up(instance, cell.backend, dtype=cell.dtype)
        known = reference(bench)
        shapes = [leaf.shape for leaf in leaves(bench.inputs[-1])]
        for side, probe in enumerate(probes):
            probe.ask(do="prepare", cell=cell.asdict(), seed=seed)
            reply = probe.ask(do="accuracy")
            gaps[side].append(reply["gap"])
            for metric, gradient in zip(errors, (reply["gradient"], reply["argmax"]), strict=True):
                slopes = known if isinstance(known, str) else known.loss
                if metric == "argmax gradient error" and isinstance(known, Reference):
                    slopes = known.argmax
                if isinstance(slopes, str) or slopes.missing is not None:
                    unchecked[metric] = slopes if isinstance(slopes, str) else str(slopes.missing)
                elif isinstance(gradient, str):
                    unchecked[metric] = gradient
                else:
                    parts = [np.reshape(x, shape) for x, shape in zip(gradient, shapes, strict=True)]
                    assert isinstance(known, Reference)
                    errors[metric][side].append(slopes.compare(known.along(parts))[0] or 0.0)
    found = [judge(cell.name, "certified gap", [gaps[0]], [gaps[1]])]
    for metric, sides in errors.items():
        told = unchecked.get(metric)
        found.append(
            not_comparable(cell, metric, told) if told else judge(cell.name, metric, [sides[0]], [sides[1]])
        )
    return found


def _measure(cell: Cell, places: Sequence[Path], effort: Effort, matters: float | None) -> list[Verdict]:
    """Return every verdict of a cell. A second process of BASE takes its turns too, as the control of each
    verdict on time."""
    samples: dict[str, list[list[list[float]]]] = {}
    accuracy: list[Verdict] = []
    for launch in range(effort.launches):
        with ExitStack() as stack:
            sides = [*places, places[0]] if effort.control else places
            probes = [stack.enter_context(Probe(place)) for place in sides]
            if launch == 0:
                accuracy = _accuracy(cell, probes[:2], effort.seeds)
            timed = [set(probe.ask(do="prepare", cell=cell.asdict(), seed=0)["timed"]) for probe in probes]
            remote = {
                metric: [Remote(probe, metric) for probe in probes]
                for metric in TIMED
                if all(metric in names for names in timed)
            }
            everyone = [program for side in remote.values() for program in side]
            rotate(everyone, effort.rounds, float("inf"), seed=launch, slice_s=effort.slice_s)
            for metric, programs in remote.items():
                for side, program in enumerate(programs):
                    samples.setdefault(metric, [[] for _ in sides])[side].append(program.samples)
    found = []
    for metric, (one, other, *same) in samples.items():
        verdict = judge(cell.name, metric, one, other, matters=matters)
        for again in same:
            verdict = controlled(verdict, judge(cell.name, metric, one, again, matters=matters))
        found.append(verdict)
    return found + accuracy


def not_comparable(cell: Cell, metric: str, reason: str) -> Verdict:
    nan = float("nan")
    return Verdict(cell.name, metric, nan, nan, nan, nan, nan, "not comparable", reason)


def compare_commits(
    repo: Path,
    base: str,
    head: str,
    cells: Sequence[Cell],
    effort: Effort = Effort(),
    matters: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Verdict]:
    """Return the verdicts of every cell; a cell that a commit cannot run is `not comparable`, with its own reason."""
    verdicts: list[Verdict] = []
    with side_by_side(repo, base, head) as places:
        for cell in cells:
            tell(cell.name)
            try:
                verdicts += _measure(cell, places, effort, matters)
            except ProbeError as error:
                verdicts.append(not_comparable(cell, "time", str(error)))
    return verdicts
