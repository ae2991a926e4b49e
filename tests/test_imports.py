"""The direction gfy <- solvers <- bench and reports -> bench.store, and those inside bench and reports, held by
reading every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("gfy", "solvers", "bench", "reports")
# What a file of a room may import from the four rooms; a name stands for itself and what lies below it.
ALLOWED = {
    "gfy": ("gfy",),
    "solvers": ("gfy", "solvers"),
    "bench": ("gfy", "solvers", "bench"),
    "reports": ("reports", "bench.store"),
}
# The rooms inside bench and reports, and what each may import of its own package besides itself. What stands at the
# root of bench is either a thin name or the command line, and may open everything.
DATA = ("bench.store", "bench.datasets")
ENGINE = (*DATA, "bench.problems", "bench.plan", "bench.measure", "bench.run")
BELOW = {
    "bench.store": (),
    "bench.datasets": ("bench.store",),
    "bench.problems": DATA,
    "bench.plan": (*DATA, "bench.problems"),
    "bench.measure": (*DATA, "bench.problems", "bench.plan"),
    "bench.run": (*DATA, "bench.problems", "bench.plan", "bench.measure"),
    "bench.gates": ENGINE,
    "bench.experiments": ENGINE,
    "bench.sharing": ENGINE,
    "bench.exports": ENGINE,
    "bench.commands": ("bench",),
    "reports.data": (),
    "reports.answers": ("reports.data",),
    "reports.figures": ("reports.data", "reports.answers"),
    "reports.pages": ("reports.data", "reports.answers", "reports.figures"),
}
MOST_AT_A_ROOT = 8
# The command line is the one place that hands rows over to the page builder.
MAY_OPEN_REPORTS = ("bench.cli", "bench.commands")
# The default solver is an entry point; a checkout that was never installed has none and is asked by name.
BY_NAME = {("gfy.protocols", "solvers")}
# The report builds on a machine that has no framework and no solver.
NOT_IN_REPORTS = ("jax", "jaxlib", "jaxopt", "torch", "optax", "flax", "equinox", "cvxpy", "array_api_compat")
RECORDS_MAY_IMPORT = {"pandas"} | set(sys.stdlib_module_names)


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in a file, those inside functions and by `import_module` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".") if is_package else module.split(".")[:-1]
                parts = parts[: len(parts) - (node.level - 1)]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def wrong_arrows(source: str, module: str, is_package: bool = False) -> list[str]:
    """Sentences for the imports of one file that point the wrong way."""
    room = module.split(".")[0]
    allowed = ALLOWED[room]
    if within(module, MAY_OPEN_REPORTS):
        allowed = (*allowed, "reports")
    found = []
    for line, name in imported(ast.parse(source), module, is_package):
        if (module, name) in BY_NAME:
            continue
        if name.split(".")[0] in ROOMS and not within(name, allowed):
            found.append(f"{module}:{line} imports {name}; {room} may import {', '.join(allowed)} only")
        inside = ".".join(module.split(".")[:2])
        own = (inside, *BELOW.get(inside, (room,)))
        if name.startswith(f"{room}.") and not within(name, own):
            found.append(f"{module}:{line} imports {name}; {inside} may import {', '.join(own)} only")
        if room == "reports" and within(name, NOT_IN_REPORTS):
            found.append(f"{module}:{line} imports {name}; reports must build without it")
    return found


def modules(room: str) -> Iterator[tuple[Path, str, bool]]:
    for path in sorted((ROOT / room).rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        yield path, ".".join(parts[:-1] if is_package else parts), is_package


@pytest.mark.parametrize("room", ROOMS)
def test_arrows_point_one_way(room: str) -> None:
    files = list(modules(room))
    assert files, f"no Python files under {room}/"
    wrong = [s for path, name, pkg in files for s in wrong_arrows(path.read_text("utf-8"), name, pkg)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gfy.losses", "import solvers"),
        ("gfy.losses", "def f():\n    from bench.store import Store"),
        ("gfy.energies.base", "from ...solvers import Auto"),
        ("gfy.losses", "import importlib\nimportlib.import_module('solvers.auto')"),
        ("solvers.auto", "import bench.measure.clock as clock"),
        ("bench.run.executor", "from reports import render"),
        ("reports.data.load", "from bench import runner"),
        ("reports.data.load", "import bench"),
        ("reports.data.load", "import gfy.errors"),
        ("reports.figures", "import jax.numpy as jnp"),
        ("bench.store.keys", "from bench.plan.cells import Cell"),
        ("bench.plan.matrix", "import bench.measure.clock"),
        ("bench.problems.base", "from bench.measure import reference"),
        ("bench.measure.clock", "def f():\n    from bench.run.executor import Run"),
        ("bench.run.executor", "from bench.experiments.common import training"),
        ("bench.experiments.theory.rows", "from bench.commands.theory import app"),
        ("bench.gates.bars.store", "from ...experiments.theory import rows"),
        ("reports.data.load", "from reports.answers import tables"),
        ("reports.answers.tables", "import reports.pages.render"),
    ],
)
def test_a_wrong_arrow_is_seen(module: str, source: str) -> None:
    assert len(wrong_arrows(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("solvers.auto", "from gfy import InnerProblem\nfrom . import loop"),
        ("bench.problems.pairwise", "from ..store import Store\nimport solvers, gfy"),
        ("bench.plan.matrix", "from bench.store.environment import versions"),
        ("bench.experiments.theory.rows", "from bench.run import executor\nfrom bench.store import Store"),
        ("bench.records", "from bench.store import *"),
        ("bench.cli", "def report():\n    import reports.pages.render"),
        ("reports.data.load", "from bench.store.read import load\nfrom bench.store import Store"),
        ("gfy.losses", "from gfyx import a\nimport solversx"),
    ],
)
def test_a_right_arrow_passes(module: str, source: str) -> None:
    assert wrong_arrows(source, module) == []


def test_the_store_stands_on_the_standard_library_and_pandas() -> None:
    for path, module, is_package in modules("bench/store"):
        names = {name for _, name in imported(ast.parse(path.read_text("utf-8")), module, is_package)}
        assert {n.split(".")[0] for n in names if not within(n, ("bench.store",))} <= RECORDS_MAY_IMPORT, (
            module
        )


@pytest.mark.parametrize("room", ROOMS)
def test_the_root_of_a_package_holds_at_most_eight_modules(room: str) -> None:
    """What a user meets stands at the root; everything else stands in a room with a name."""
    found = sorted(path.stem for path in (ROOT / room).glob("*.py") if path.stem != "__init__")
    assert len(found) <= MOST_AT_A_ROOT, f"{room}/ holds {len(found)} modules: {', '.join(found)}"


def test_every_room_has_its_place() -> None:
    rooms = {
        f"{top}.{p.parent.name}" for top in ("bench", "reports") for p in (ROOT / top).glob("*/__init__.py")
    }
    assert rooms == set(BELOW)


@pytest.mark.parametrize("name", ["bench", "bench.store", "bench.cli", "reports", "gfy", "solvers"])
def test_importing_a_room_wakes_no_framework(name: str) -> None:
    heavy = ("jax", "torch", "cvxpy", "matplotlib", "sklearn", "scipy", "dask", "gymnasium")
    code = f"import sys, {name}; print(*[m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
