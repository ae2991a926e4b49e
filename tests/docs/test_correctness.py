"""The table of what the tests guard: every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs" / "explanation" / "correctness.md").read_text("utf-8")
NAMED = re.findall(r"^\| .+\. \| `([\w/.]+)::(\w+)` \|$", TABLE, re.MULTILINE)


def test_every_line_can_be_read() -> None:
    assert len(NAMED) == TABLE.count("::") == TABLE.count("\n| ") - 1


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_the_test_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
