"""A stranger adds a solver and an energy by the guides alone: this script does literally what the pages say.

The files are those that the pages show, saved under the names that the pages give them; nothing else is known here.
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


def saved(page: Path, folder: Path) -> list[Path]:
    """The files that a page tells the reader to save, saved."""
    titled = [block for block in blocks(page, "python") if block.title is not None]
    for block in titled:
        (folder / str(block.title)).write_text(block.body, "utf-8")
    return [folder / str(block.title) for block in titled]


def run(words: list[str], folder: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A line of the page, typed in a folder; `gfy` is the command of the checkout at `root`."""
    head = [sys.executable, "-m", "bench.cli"] if words[0] == "gfy" else [sys.executable]
    env = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run(
        [*head, *words[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def checks(page: Path) -> tuple[list[str], str]:
    """The line `gfy check` of a page and the last line that it is shown to print."""
    lines = [line for block in blocks(page, "bash") for line in block.body.splitlines()]
    (line,) = [line for line in lines if line.startswith("gfy check")]
    (shown,) = blocks(page, "output")
    return shlex.split(line), shown.body.strip()


def test_a_solver_that_is_copied_from_the_guide_passes_the_check(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert [path.name for path in saved(SOLVER, tmp_path)] == ["damped.py"]
    words, shown = checks(SOLVER)
    done = run(words, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().splitlines()[-1] == shown


def test_a_solver_that_is_wrong_fails_the_check(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (file,) = saved(SOLVER, tmp_path)
    broken = file.read_text("utf-8").replace(
        "state.p + s * towards, xp.max(xp.abs(towards)", "state.p, xp.max(0 * xp.abs(towards)"
    )
    assert broken != file.read_text("utf-8")
    file.write_text(broken, "utf-8")
    done = run(checks(SOLVER)[0], tmp_path)
    assert done.returncode == 1
    assert re.search(r"\d+ of \d+ checks fail for Damped in torch\.", done.stderr)


def listed(page: Path) -> list[str]:
    """The files of the repository that the table at the end of a guide names."""
    table = page.read_text("utf-8").rpartition("| file | what you change |")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([\w/.-]+)`", row)]


def exported(file: Path, module: str, name: str) -> None:
    """Import a name in a package's `__init__` and add it to `__all__`."""
    text = file.read_text("utf-8")
    place = text.index("\n__all__ = [") + len("\n__all__ = [")
    text = f'{text[:place]}\n    "{name}",{text[place:]}'
    line = f"from {module} import {name}\n"
    at = text.index("\nfrom ") + 1
    file.write_text(text[:at] + line + text[at:], "utf-8")


@pytest.mark.slow
def test_a_solver_and_an_energy_enter_the_repository_by_the_files_that_the_guides_list(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    copy = tmp_path / "copy"
    copy.mkdir()
    for package in ("gfy", "solvers", "bench", "reports"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    assert {"solvers/methods/damped.py", "solvers/__init__.py"} <= set(listed(SOLVER))
    assert {"gfy/energies/votes.py", "gfy/energies/__init__.py", "gfy/__init__.py"} <= set(listed(ENERGY))
    (solver,) = saved(SOLVER, tmp_path)
    shutil.copy(solver, copy / "solvers" / "methods" / "damped.py")
    exported(copy / "solvers" / "__init__.py", "solvers.methods.damped", "Damped")
    (energy,) = saved(ENERGY, tmp_path)
    shutil.copy(energy, copy / "gfy" / "energies" / "votes.py")
    exported(copy / "gfy" / "energies" / "__init__.py", "gfy.energies.votes", "Votes")
    exported(copy / "gfy" / "__init__.py", "gfy.energies.votes", "Votes")
    script = tmp_path / "use.py"
    script.write_text(
        "import gfy, solvers, torch\n"
        "problem = gfy.InnerProblem(gfy.Votes(), gfy.Gini(), gfy.Simplex())\n"
        "v = gfy.Votes.Input(torch.rand(3, 4).double())\n"
        "p = solvers.Damped().solve(problem, v, None, gfy.Stop(1e-9, 5000)).p\n"
        "assert gfy.certify(problem, v, p).gap.max() < 1e-6\n"
        "assert (gfy.argmax(problem, v) - p).abs().max() < 1e-4\n",
        "utf-8",
    )
    used = run(["python", str(script)], tmp_path, copy)
    assert used.returncode == 0, used.stderr
    checked = run(["gfy", "check", "Damped", "--backend", "torch"], tmp_path, copy)
    assert checked.returncode == 0, checked.stdout + checked.stderr
