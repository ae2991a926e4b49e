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

from bench.gates.problems import make
from bench.gates.regressions.cells import Cell
from bench.gates.regressions.checkout import side_by_side
from bench.gates.regressions.verdict import Verdict, judge
from bench.measure.clock import Program, rotate
from bench.measure.programs import set_up
from bench.measure.reference import Reference, reference
from gfy.backend import leaves

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


class Remote(Program):
    """A program of a cell inside a probe: a turn is taken there and timed there, by the same clock."""

    def __init__(self, probe: Probe, metric: str) -> None:
        super().__init__(lambda: None, lambda result: result, metric)
        self._probe = probe

    def turn(self, slice_s: float = 0.0) -> float:
        reply = self._probe.ask(do="turn", which=self.owner, slice=slice_s)
        self.samples.append(reply["seconds"])
        return float(reply["spent"])


def _accuracy(cell: Cell, probes: Sequence[Probe], seeds: int) -> list[Verdict]:
    """The verdicts on certified gap and gradient error, over several seeds, by this copy's judge and reference."""
    gaps: list[list[float]] = [[], []]
    errors: list[list[float]] = [[], []]
    unchecked = ""
    for seed in range(seeds):
        bench = set_up(make(cell.family, cell.k, cell.batch, cell.rank, seed).instance, cell.backend)
        known = reference(bench)
        shapes = [leaf.shape for leaf in leaves(bench.inputs[-1])]
        for side, probe in enumerate(probes):
            probe.ask(do="prepare", cell=cell.asdict(), seed=seed)
            reply = probe.ask(do="accuracy")
            gaps[side].append(reply["gap"])
            if isinstance(known, Reference) and known.loss.missing is None:
                gradient = [np.reshape(x, shape) for x, shape in zip(reply["gradient"], shapes, strict=True)]
                errors[side].append(known.loss.compare(known.along(gradient))[0] or 0.0)
            else:
                unchecked = known if isinstance(known, str) else str(known.loss.missing)
    found = [judge(cell.name, "certified gap", [gaps[0]], [gaps[1]])]
    if unchecked:
        return [*found, not_comparable(cell, "gradient error", unchecked)]
    return [*found, judge(cell.name, "gradient error", [errors[0]], [errors[1]])]


def _measure(cell: Cell, places: Sequence[Path], effort: Effort, matters: float | None) -> list[Verdict]:
    samples: dict[str, list[list[list[float]]]] = {"time": [[], []], "gradient time": [[], []]}
    accuracy: list[Verdict] = []
    for launch in range(effort.launches):
        with Probe(places[0]) as base, Probe(places[1]) as head:
            probes = (base, head)
            if launch == 0:
                accuracy = _accuracy(cell, probes, effort.seeds)
            for probe in probes:
                probe.ask(do="prepare", cell=cell.asdict(), seed=0)
            remote = {metric: [Remote(probe, metric) for probe in probes] for metric in samples}
            everyone = [program for pair in remote.values() for program in pair]
            rotate(everyone, effort.rounds, float("inf"), seed=launch, slice_s=effort.slice_s)
            for metric, pair in remote.items():
                for side, program in enumerate(pair):
                    samples[metric][side].append(program.samples)
    timed = [judge(cell.name, m, sides[0], sides[1], matters=matters) for m, sides in samples.items()]
    return timed + accuracy


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
    """The verdicts of every cell; one that a commit cannot run is `not comparable`, with its own reason."""
    verdicts: list[Verdict] = []
    with side_by_side(repo, base, head) as places:
        for cell in cells:
            tell(cell.name)
            try:
                verdicts += _measure(cell, places, effort, matters)
            except ProbeError as error:
                verdicts.append(not_comparable(cell, "time", str(error)))
    return verdicts
