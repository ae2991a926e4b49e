"""The gate on commits of a small repository: a slowed copy of a solver is caught, an unchanged one is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bench.gates.regressions.cells import CELLS, Cell, choose
from bench.gates.regressions.checkout import side_by_side
from bench.gates.regressions.gate import Effort, compare_commits
from bench.gates.regressions.show import table
from gfy.errors import GfyValueError

ROOT = Path(__file__).resolve().parents[3]
CELL = Cell("pairwise-gini", 12, 5, 1, "ProjectedGradient", "torch", tol=1e-6, max_steps=40)
# A pause of ten times the solve: no other program on the machine can hide it.
SLOWED = """
import time


def _slow(solve):
    def slower(self, *args, **kwargs):
        time.sleep(0.2)
        return solve(self, *args, **kwargs)

    return slower


ProjectedGradient.solve = _slow(ProjectedGradient.solve)
"""
ROUGH = """

def _rough(solve):
    def rougher(self, problem, v, p0=None, stop=None):
        found = solve(self, problem, v, p0, stop)
        return found._replace(p=0.999 * found.p)

    return rougher


ProjectedGradient.solve = _rough(ProjectedGradient.solve)
"""

TRIPLED = """

def _tripled(attach):
    def wrong(self, problem, v, *args):
        found = attach(self, problem, v, *args)
        return 3.0 * found - 2.0 * found.detach()

    return wrong


Implicit.attach = _tripled(Implicit.attach)
"""


def git(repo: Path, *args: str) -> str:
    name = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *name, *args], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with this library: `start`, an `unchanged` commit, a `slowed` and a `rough` one."""
    pytest.importorskip("torch")
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    place = tmp_path_factory.mktemp("gate") / "repo"
    for room in ("gfy", "solvers"):
        shutil.copytree(ROOT / room, place / room, ignore=shutil.ignore_patterns("__pycache__"))
    git(place, "init", "--quiet")
    git(place, "add", "-A")
    git(place, "commit", "--quiet", "-m", "start")
    git(place, "tag", "start")
    solver = place / "solvers" / "methods" / "projected_gradient.py"
    plain = solver.read_text()
    mode = place / "gfy" / "gradients" / "implicit.py"
    right = mode.read_text()
    for tag, text in (
        ("unchanged", "\n# a comment\n"),
        ("slowed", SLOWED),
        ("rough", ROUGH),
        ("tripled", ""),
    ):
        solver.write_text(plain + text)
        mode.write_text(right + (TRIPLED if tag == "tripled" else ""))
        git(place, "commit", "--quiet", "-am", tag)
        git(place, "tag", tag)
    return place


def verdicts(repo: Path, head: str, effort: Effort) -> dict[str, str]:
    found = compare_commits(repo, "start", head, [CELL], effort)
    table(found)
    return {v.metric: v.verdict for v in found}


@pytest.mark.slow
def test_a_slowed_solver_is_caught(repo: Path) -> None:
    found = verdicts(repo, "slowed", Effort(launches=1, rounds=6, slice_s=0.01, seeds=2, control=False))
    assert found["time"] == "worse"
    assert found["gradient time"] == "worse"
    assert found["certified gap"] == "same"
    assert found["gradient error"] == "same"


@pytest.mark.slow
def test_a_less_accurate_solver_is_caught(repo: Path) -> None:
    found = verdicts(repo, "rough", Effort(launches=1, rounds=2, slice_s=0.0, seeds=3, control=False))
    assert found["certified gap"] == "worse"
    assert found["gradient error"] == "worse"


def test_a_scaled_derivative_of_the_maximiser_is_caught(repo: Path) -> None:
    """A dp*/dv that is three times too large leaves the gradient of the loss as it is."""
    found = verdicts(repo, "tripled", Effort(launches=1, rounds=2, slice_s=0.0, seeds=2, control=False))
    assert found["argmax gradient error"] == "worse"
    assert found["gradient error"] == "same"
    assert found["certified gap"] == "same"


@pytest.mark.slow
def test_an_unchanged_solver_is_not_reported(repo: Path) -> None:
    found = verdicts(repo, "unchanged", Effort(launches=3, rounds=10, slice_s=0.02, seeds=2))
    assert set(found.values()) == {"same"}


@pytest.mark.slow
def test_an_unchanged_solver_keeps_its_accuracy_verdicts(repo: Path) -> None:
    found = verdicts(repo, "unchanged", Effort(launches=1, rounds=2, slice_s=0.0, seeds=2))
    assert found["certified gap"] == found["gradient error"] == found["argmax gradient error"] == "same"
    assert found["time"] != "not comparable"


def test_a_commit_without_the_solver_is_not_comparable(repo: Path) -> None:
    absent = Cell("pairwise-gini", 12, 5, 1, "NoSuchSolver", "torch")
    (found,) = compare_commits(repo, "start", "unchanged", [absent], Effort(launches=1, rounds=2))
    assert found.verdict == "not comparable"
    assert "NoSuchSolver" in found.reason


def test_checkouts_are_gone_afterwards(repo: Path) -> None:
    with side_by_side(repo, "start", ".") as (old, here):
        assert here == repo
        assert "_slow" not in (old / "solvers" / "methods" / "projected_gradient.py").read_text()
    assert not old.exists()
    assert len(git(repo, "worktree", "list").splitlines()) == 1


def test_bad_names_get_a_sentence(repo: Path) -> None:
    with (
        pytest.raises(GfyValueError, match="no commit, branch or tag"),
        side_by_side(repo, "start", "nonsense"),
    ):
        pass
    with pytest.raises(GfyValueError, match="No cell's name contains"):
        choose(["nonsense"])
    assert choose([]) == list(CELLS)
    assert {cell.solver for cell in choose(["dualnewton", "torch"])} == {"DualNewton"}
