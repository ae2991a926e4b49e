"""A stranger's code is asked in a process of its own: whatever it does is a reason in the list of what is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.plan import registry
from bench.plan.matrix import Plan
from bench.plan.suite import from_dict
from bench.run.planning import planned
from gfy.errors import GfyValueError

GOOD = """
class Mine:
    name = "Mine"
    def unsupported(self, problem): return None
    def solve(self, problem, v, p0=None, stop=None): raise NotImplementedError
"""
AT_IMPORT = {
    "ends": ("import os; os._exit(0)", "exit code 0"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "leaves": ("raise SystemExit(0)", "SystemExit"),
    "never ends": ("import time; time.sleep(1000)", "within 4 s"),
}
IN_USE = {
    "no name": (GOOD.replace('    name = "Mine"\n', ""), "has no name"),
    "name raises": (
        GOOD.replace('name = "Mine"', "name = property(lambda self: 1 / 0)"),
        "ZeroDivisionError",
    ),
    "unsupported raises": (
        GOOD.replace("return None", "return 1 / 0"),
        "`unsupported` raised ZeroDivisionError",
    ),
    "unsupported says 3": (GOOD.replace("return None", "return 3"), "`unsupported` returned int"),
    "unsupported ends": (GOOD.replace("return None", "import os; os._exit(0)"), "exit code 0"),
}


def ask(file: Path, source: str, limit: float = 60.0) -> Plan:
    file.write_text(source)
    return planned(
        from_dict(
            {
                "solvers": [f"{file}:Mine", "DualNewton"], "backends": ["torch"], "tolerances": [1e-3],
                "problems": [{"family": "pairwise-gini", "k": 4, "batch": 2}],
            }
        ),
        limit_s=limit,
    )  # fmt: skip


def check(found: Plan, words: str) -> None:
    assert [cell.columns["solver"] for cell in found.cells] == ["DualNewton"], "ours are planned all the same"
    (reason,) = [reason for _, reason in found.left_out]
    assert words in reason


@pytest.mark.parametrize("case", ["ends", "never ends"])
def test_an_import_that_does_harm_is_left_out(case: str, tmp_path: Path) -> None:
    source, words = AT_IMPORT[case]
    check(ask(tmp_path / "mine.py", source, 4.0), words)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["crashes", "raises", "leaves", *IN_USE])
def test_every_failure_of_a_stranger_is_a_reason(case: str, tmp_path: Path) -> None:
    source, words = (AT_IMPORT | IN_USE)[case]
    check(ask(tmp_path / "mine.py", source), words)


def test_a_stranger_that_answers_is_planned_and_not_imported_here(tmp_path: Path) -> None:
    mark = tmp_path / "imported"
    source = f"import os\nopen({str(mark)!r}, 'a').write(f'{{os.getpid()}} ')\n" + GOOD
    found = ask(tmp_path / "mine.py", source)
    assert [cell.columns["solver"] for cell in found.cells] == ["DualNewton", "Mine"]
    assert len(found.groups) == 1
    assert str(os.getpid()) not in mark.read_text().split()


def test_a_problem_that_cannot_be_made_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(
        "class Theirs:\n    name = 'theirs'\n    defaults = {}\n    def make(self, rng): import os; os._exit(3)\n"
    )
    found = planned(from_dict({"solvers": ["DualNewton"], "problems": [{"family": f"{file}:Theirs"}]}))
    assert found.cells == []
    assert "exit code 3" in found.left_out[0][1]


def test_a_file_that_is_not_there_is_a_mistake_of_the_asker() -> None:
    asked = {"solvers": ["nowhere.py:X"], "problems": [{"family": "pairwise-gini"}]}
    with pytest.raises(GfyValueError, match="no file"):
        planned(from_dict(asked))


def test_parameters_of_any_kind_are_the_same_in_every_process() -> None:
    import numpy as np

    kept = registry._stable({"a": np.arange(3), "f": len, "x": object(), "t": (1, 2.0)})
    assert kept == {"a": [0, 1, 2], "f": "builtins.len", "x": "<object object>", "t": [1, 2.0]}
