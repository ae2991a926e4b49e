"""Solvers, peers, gradient modes and benchmarks ask energies, sets and regularizers for facts, never for a class."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import gfy
from gfy.energies.base import Energy
from gfy.regularizers.base import Regularizer
from gfy.sets.base import ConvexSet

ROOT = Path(__file__).resolve().parent.parent
# Where each kind of class is at home, and may be asked for.
HOMES = {
    Energy: ("gfy/energies/", "gfy/theory/ctransform.py"),
    ConvexSet: ("gfy/sets/", "gfy/structured/"),
    Regularizer: ("gfy/regularizers/", "gfy/structured/"),
}


def classes(base: type) -> set[str]:
    """The names of every class below a base; the base itself is the protocol, which arguments are checked for."""
    return {name for child in base.__subclasses__() for name in (child.__name__, *classes(child))}


def asked(source: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """(line, name) of every class that is asked for: by `isinstance`, or as a string that a name is compared with."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            for part in ast.walk(node.args[1]):
                found = getattr(part, "id", None) or getattr(part, "attr", None)
                if found in names:
                    yield node.lineno, found
        elif isinstance(node, ast.Compare):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and part.value in names:
                    yield node.lineno, str(part.value)


@pytest.mark.parametrize("base", HOMES, ids=lambda base: base.__name__)
def test_no_class_is_asked_for_outside_its_room(base: type) -> None:
    assert gfy.__file__
    names, wrong = {n for n in classes(base) if not n.startswith("_")}, []
    for path in sorted(p for room in ("gfy", "solvers", "bench") for p in (ROOT / room).rglob("*.py")):
        place = str(path.relative_to(ROOT))
        if not place.startswith(HOMES[base]):
            wrong += [
                f"{place}:{line} asks for {name}" for line, name in asked(path.read_text("utf-8"), names)
            ]
    assert not wrong, "\n".join(wrong)


# The rooms that may ask which framework they work in, and two places that hold one fixed on purpose: asv's own tables
# begin with the framework's name, and the loop written by hand is each framework's own.
FRAMEWORKS = (
    "gfy/backend/",
    "solvers/kernels/",
    "bench/gates/asv_suites/bench_solve.py",
    "bench/gates/bars/by_hand.py",
)


def frameworks_asked(source: str) -> Iterator[int]:
    """The lines on which something is compared with the name of a framework."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "startswith":
            sides = node.args
        else:
            continue
        parts = [x for side in sides for x in (getattr(side, "elts", None) or [side])]
        if {getattr(part, "value", None) for part in parts if isinstance(part, ast.Constant)} & {
            "jax",
            "torch",
        }:
            yield node.lineno


def test_no_framework_is_asked_for_outside_the_backends_and_kernels() -> None:
    wrong = []
    for path in sorted(
        p for room in ("gfy", "solvers", "bench", "reports") for p in (ROOT / room).rglob("*.py")
    ):
        place = str(path.relative_to(ROOT))
        if not place.startswith(FRAMEWORKS):
            wrong += [f"{place}:{line}" for line in frameworks_asked(path.read_text("utf-8"))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("if backend == 'jax': pass", 1),
        ("if library.name != 'torch' and True: pass", 1),
        ("ok = name in ('jax', 'torch')", 1),
        ("ok = name.startswith('jax')", 1),
        ("if library.staged: backends = ('jax', 'torch')", 0),
    ],
)
def test_a_framework_that_is_asked_for_is_seen(source: str, count: int) -> None:
    assert len(list(frameworks_asked(source))) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("if isinstance(problem.energy, Pairwise): pass", 1),
        ("ok = isinstance(energy, energies.Pairwise | energies.Metric)", 2),
        ("if type(energy).__name__ == 'Metric': pass", 1),
        ("if isinstance(curvature, LowRank) and energy.interactions == 'dense': pass", 0),
        ("problem = InnerProblem(Pairwise(), omega, domain)", 0),
    ],
)
def test_a_class_that_is_asked_for_is_seen(source: str, count: int) -> None:
    assert len(list(asked(source, {"Pairwise", "Metric"}))) == count


def test_three_runs_hold_every_setting_of_the_portable_tests() -> None:
    made = runpy.run_path(str(ROOT / "tests" / "portable.py"))
    known = made["settings"]()
    held = {pair for name in made["COVERING"] for pair in known[name].items()}
    missing = {name: left for name, single in known.items() if (left := set(single.items()) - held)}
    assert not missing, f"--covering never tries {missing}"
    assert all((ROOT / name).is_file() for name in made["WORDS"])
