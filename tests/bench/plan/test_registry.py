"""Names of the command line: whose a solver is, whatever the case it is typed in, and files of one name."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from bench.plan import registry


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("DualNewton", False),
        ("dual-newton", False),
        ("pairwise-gini(k=3)", False),
        ("Theirs", True),
        ("theirs(a=1)", True),
        ("THEIRS", True),
        ("their-problem(k=3)", True),
        ("Their_Problem", True),
        ("nobodys", False),  # refused with a sentence where it is looked up
        ("mine.py:DualNewton", True),
    ],
)
def test_what_is_foreign_is_known_in_whatever_case_it_is_typed(
    text: str, foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = {"gfy.solvers": {"Theirs": None}, "gfy.problems": {"their-problem": None}}
    monkeypatch.setattr(registry, "_plugins", lambda group: registered[group])
    assert registry.is_stranger(text) is foreign


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    found = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "mine.py"
        file.write_text(f"class Mine:\n    name = {folder!r}\n", encoding="utf-8")
        found.append(registry.from_file(f"{file}:Mine"))
    first, second = found
    assert (first.name, second.name) == ("a", "b")
    assert inspect.getsourcefile(first) != inspect.getsourcefile(second)
    assert first.__module__ != second.__module__
