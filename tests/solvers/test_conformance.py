"""The conformance suite passes the template, fails a broken solver, and the registry finds solvers anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gfy
import solvers
from solvers import conformance, registry

TEMPLATE = Path(solvers.__file__).with_name("_template.py")


def test_the_template_passes(backend: str) -> None:
    solver = registry.find(f"{TEMPLATE}:Template")
    chosen = conformance.cases()[:2]
    rows = conformance.run(solver, backend, chosen)
    assert all(row.ok for row in rows), "\n".join(conformance.show(rows))
    assert len(rows) >= 8


@dataclass(frozen=True)
class Boastful:
    """Returns the middle of the set and calls it converged."""

    name: str = "Boastful"

    def unsupported(self, problem: Any) -> str | None:
        return None if problem.concave else "no"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> gfy.Solution:
        p = problem.initial_point(v)
        error = p.sum(-1) * 0
        return gfy.Solution(p, error, error, error <= 0)


def test_a_boastful_solver_fails() -> None:
    pytest.importorskip("torch")
    rows = conformance.run(Boastful(), "torch")
    assert any(not row.ok and "certified" in row.check for row in rows)


@pytest.mark.parametrize("name", ["DualNewton", "ProjectedNewton"])
def test_ours_pass(name: str) -> None:
    pytest.importorskip("torch")
    rows = conformance.run(registry.find(name), "torch")
    assert all(row.ok for row in rows), "\n".join(conformance.show(rows))


def test_registry_answers_in_sentences(tmp_path: Path) -> None:
    assert {"Auto", "DualNewton", "CvxpyReference"} <= set(registry.names())
    assert registry.find("FrankWolfe", variant="away").variant == "away"
    with pytest.raises(gfy.GfyValueError, match="there is no solver"):
        registry.find("Simplex Method")
    with pytest.raises(gfy.GfyValueError, match="no file"):
        registry.find(f"{tmp_path}/absent.py:Solver")
    file = tmp_path / "mine.py"
    file.write_text("class NotASolver:\n    name = 'x'\n")
    with pytest.raises(gfy.GfyTypeError, match="unsupported, solve"):
        registry.find(f"{file}:NotASolver")
