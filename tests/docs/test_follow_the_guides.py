"""A stranger adds a solver, an energy, a set, a problem and a metric by the guides alone.

The files are those that the pages show, saved under the names that the pages give them, and the commands are the lines
of the pages; nothing else is known here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import DOCS, ROOT, blocks

SOLVER, ENERGY = DOCS / "how-to" / "add-a-solver.md", DOCS / "how-to" / "add-an-energy.md"
SET, PROBLEM = DOCS / "how-to" / "add-a-set.md", DOCS / "how-to" / "add-a-problem.md"
METRIC = DOCS / "how-to" / "add-a-metric.md"
FRAMEWORKS = ["torch", pytest.param("jax", marks=pytest.mark.slow)]
ARRAYS = {
    "torch": "import torch\narray = lambda x: torch.as_tensor(np.asarray(x, float))\n",
    "jax": "import jax\njax.config.update('jax_enable_x64', True)\narray = jax.numpy.asarray\n",
}


def saved(page: Path, folder: Path) -> list[Path]:
    """The files that a page tells the reader to save, saved."""
    titled = [block for block in blocks(page, "python", "toml") if block.title is not None]
    for block in titled:
        (folder / str(block.title)).write_text(block.body, "utf-8")
    return [folder / str(block.title) for block in titled]


def run(words: list[str], folder: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A line of the page, typed in a folder; `gfy` is the command of the checkout at `root`."""
    head = [sys.executable, "-m", "bench.cli"] if words[0] == "gfy" else [sys.executable]
    env = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run(
        [*head, *words[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False
    )


def lines(page: Path) -> list[list[str]]:
    """The words of every line `gfy ...` of a page."""
    found = [shlex.split(line) for block in blocks(page, "bash") for line in block.body.splitlines()]
    return [words for words in found if words[:1] == ["gfy"]]


def does(words: list[str], folder: Path, root: Path = ROOT) -> str:
    """What a line prints; it must end with 0."""
    done = run(words, folder, root)
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def script(folder: Path, framework: str, *body: str) -> list[str]:
    """The words that run a script in which `array` makes an array of the framework."""
    file = folder / f"use_{framework}.py"
    file.write_text("import numpy as np, gfy, solvers\n" + ARRAYS[framework] + "\n".join(body), "utf-8")
    return ["python", str(file)]


def checks(framework: str) -> tuple[list[str], str]:
    """The line `gfy check` of the guide for solvers and the last line that it is shown to print."""
    (words,) = [words for words in lines(SOLVER) if words[1] == "check"]
    (shown,) = blocks(SOLVER, "output")
    return [framework if word == "torch" else word for word in words], shown.body.strip().replace(
        "torch", framework
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_solver_that_is_copied_from_the_guide_passes_the_check(tmp_path: Path, framework: str) -> None:
    pytest.importorskip(framework)
    assert [path.name for path in saved(SOLVER, tmp_path)] == ["damped.py"]
    words, shown = checks(framework)
    assert does(words, tmp_path).strip().splitlines()[-1] == shown


def test_a_solver_that_is_wrong_fails_the_check(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (file,) = saved(SOLVER, tmp_path)
    broken = file.read_text("utf-8").replace(
        "state.p + s * towards, xp.max(xp.abs(towards)", "state.p, xp.max(0 * xp.abs(towards)"
    )
    assert broken != file.read_text("utf-8")
    file.write_text(broken, "utf-8")
    done = run(checks("torch")[0], tmp_path)
    assert done.returncode == 1
    assert re.search(r"\d+ of \d+ checks fail for Damped in torch\.", done.stderr)


VOTES = (
    "problem = gfy.InnerProblem(Votes(), gfy.Gini(), gfy.Simplex())",
    "v = Votes.Input(array(np.random.default_rng(0).uniform(size=(3, 4))))",
    "assert gfy.certify(problem, v, gfy.argmax(problem, v)).gap.max() < 1e-5",
)
BALL = (
    "problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), L1Ball(1.5))",
    "u = array(3 * np.random.default_rng(0).normal(size=(5, 7)))",
    "v = gfy.LinearQuadratic.Input(u, array(-np.eye(7) - 0.1))",
    "p = gfy.argmax(problem, v, solver=solvers.ProjectedGradient())",
    "assert gfy.certify(problem, v, p).gap.max() < 1e-6",
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_energy_and_a_set_that_are_copied_from_the_guides_are_solved(
    tmp_path: Path, framework: str
) -> None:
    pytest.importorskip(framework)
    assert [path.name for path in saved(ENERGY, tmp_path)] == ["votes.py"]
    assert [path.name for path in saved(SET, tmp_path)] == ["l1ball.py"]
    body = ("from votes import Votes", "from l1ball import L1Ball", *VOTES, *BALL)
    does(script(tmp_path, framework, *body), tmp_path)


@pytest.mark.slow
def test_a_problem_that_is_copied_from_the_guide_is_planned_in_both_frameworks(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    assert [path.name for path in saved(PROBLEM, tmp_path)] == ["matching.py", "growing.toml"]
    for words in lines(PROBLEM):
        if words[1] == "compare":  # measuring all of its cells takes many minutes
            planned = does([*words, "--dry-run"] if "--dry-run" not in words else words, tmp_path)
            assert "jax" in planned
            assert "torch" in planned


def table(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    import csv

    with file.open(encoding="utf-8", newline="") as told:
        return list(csv.DictReader(told))


def listed(page: Path) -> set[str]:
    """The files of the repository that the last table of a guide about files names."""
    rows = page.read_text("utf-8").rpartition("| file | what you change |")[2].split("\n\n")[0]
    first = [line.split("|")[1] for line in rows.splitlines() if line.startswith("| `")]
    return {name for row in first for name in re.findall(r"`([\w/.-]+)`", row)}


def exported(file: Path, module: str, name: str) -> None:
    """Import a name in a package's `__init__` and add it to `__all__`."""
    text = file.read_text("utf-8")
    place = text.index("\n__all__ = [") + len("\n__all__ = [")
    text = f'{text[:place]}\n    "{name}",{text[place:]}'
    line = f"from {module} import {name}\n"
    at = text.index("\nfrom ") + 1
    file.write_text(text[:at] + line + text[at:], "utf-8")


def put(file: Path, before: str, new: str) -> None:
    """Write new text before the first place where a text stands in a file."""
    text = file.read_text("utf-8")
    assert before in text, f"{file} has no {before!r}"
    file.write_text(text.replace(before, new + before, 1), "utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which all five were added, by the files that the guides list."""
    root = tmp_path_factory.mktemp("copy")
    for package in ("gfy", "solvers", "bench", "reports", "tests"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    files = root / "files"
    files.mkdir()
    zoo = root / "tests" / "gfy" / "zoo.py"

    assert {"solvers/methods/damped.py", "solvers/__init__.py"} <= listed(SOLVER)
    shutil.copy(saved(SOLVER, files)[0], root / "solvers" / "methods")
    exported(root / "solvers" / "__init__.py", "solvers.methods.damped", "Damped")

    for page, folder, module, name, first in (
        (ENERGY, "energies", "votes", "Votes", "        (gfy.Bilinear(), "),
        (SET, "sets", "l1ball", "L1Ball", "        gfy.Reals(),"),
    ):
        wanted = {f"gfy/{folder}/{module}.py", f"gfy/{folder}/__init__.py", "gfy/__init__.py"}
        assert wanted | {"tests/gfy/zoo.py"} <= listed(page)
        shutil.copy(saved(page, files)[0], root / "gfy" / folder)
        exported(root / "gfy" / folder / "__init__.py", f"gfy.{folder}.{module}", name)
        exported(root / "gfy" / "__init__.py", f"gfy.{folder}.{module}", name)
        (entry,) = re.findall(rf"`(\(?gfy\.{name}\(.*,)`", page.read_text("utf-8"))
        put(zoo, first, f"        {entry}\n")

    assert "bench/problems/shapes.py" in listed(PROBLEM)
    function, _, family = (
        saved(PROBLEM, files)[0].read_text("utf-8").partition("def build(")[2].partition("Matching = ")
    )
    shapes = root / "bench" / "problems" / "shapes.py"
    put(shapes, "FAMILIES = (", f"def build({function}\n")
    text = shapes.read_text("utf-8").rstrip()
    shapes.write_text(re.sub(r"\n\)(  # fmt: skip)?$", f"\n    {family.strip()},\n)\n", text), "utf-8")

    assert {"bench/store/schema.py", "bench/measure/certification.py"} <= listed(METRIC)
    column, value = blocks(METRIC, "python")
    declared = re.search(r"^zeros = (Column\(.*\))$", column.body, re.MULTILINE)
    assert declared is not None
    put(root / "bench" / "store" / "schema.py", '        Column("value",', f"        {declared[1]},\n")
    certification = root / "bench" / "measure" / "certification.py"
    defined = value.body.partition("def ")[2].partition("\n\n\n")[0]
    put(certification, "def certificate_columns(", f"def {defined}\n\n\n")
    (entry,) = re.findall(r'`("zeros": .*,)`', METRIC.read_text("utf-8"))
    put(certification, '        "p_digest": point_digest', f"        {entry}\n")
    return root


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_what_entered_the_repository_by_the_guides_is_used_by_its_name(
    copy: Path, tmp_path: Path, framework: str
) -> None:
    pytest.importorskip(framework)
    body = ("from gfy import L1Ball, Votes", *VOTES, *BALL,
            "q = solvers.Damped().solve(problem, v, None, gfy.Stop(1e-9, 5000)).p",
            "assert abs(q - p).max() < 1e-4")  # fmt: skip
    does(script(tmp_path, framework, *body), tmp_path, copy)
    assert f"for Damped in {framework}." in does(
        ["gfy", "check", "Damped", "--backend", framework], tmp_path, copy
    )
    does(["gfy", "compare", "--problem", "matching", "--backend", framework, "--dry-run"], tmp_path, copy)


@pytest.mark.slow
def test_the_tests_of_all_energies_and_sets_find_the_new_ones(copy: Path) -> None:
    pytest.importorskip("torch")
    words = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "Votes or L1Ball"]
    told = does([*words, "tests/gfy/test_energies.py", "tests/gfy/test_sets.py"], copy, copy)
    found = re.search(r"(\d+) passed", told)
    assert found is not None
    assert int(found[1]) >= 4


@pytest.mark.slow
def test_a_metric_that_is_copied_from_the_guide_is_stored_and_exported(copy: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for words in lines(METRIC):
        does(words, tmp_path, copy)
    zeros = [row["zeros"] for row in table(tmp_path / "rows.csv") if row["status"] == "ok"]
    assert zeros
    assert all(0 <= float(value) < 1 for value in zeros)
    assert any(float(value) > 0 for value in zeros)
